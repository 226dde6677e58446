//go:build !linux

package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// direction is one half of a relay. Toolgate is meant for Linux; this keeps a first try on another system working.
type direction struct{}

func (d *direction) start(r *relay, dst, src *net.TCPConn, total *int64) {
	go func() { r.ended(dst, move(r, dst, src, total)) }()
}

func (*direction) pause() {}

func (*direction) wake() {}

// lot stands for the parking lot, which needs Linux.
var lot parkingLot

type parkingLot struct{}

func (parkingLot) prepare() {}

func (parkingLot) tidy(time.Time) {}

func move(r *relay, dst, src *net.TCPConn, total *int64) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
			r.touch()
			*total += int64(n)
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
