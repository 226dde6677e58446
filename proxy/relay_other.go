//go:build !linux

package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// transfer copies src to dst until the end of the stream, which is no error, and adds to n what it moved. Toolgate is
// meant for Linux; this keeps a first try on another system working.
func transfer(dst, src *net.TCPConn, n *int64, o *open) error {
	buf := make([]byte, 32<<10)
	for {
		k, err := src.Read(buf)
		if k > 0 {
			if _, werr := dst.Write(buf[:k]); werr != nil {
				return werr
			}
			o.touch()
			*n += int64(k)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isNotConnected(err error) bool { return errors.Is(err, syscall.ENOTCONN) }
