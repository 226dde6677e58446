package hunt

import (
	"bytes"
	"crypto/tls"
	"net"
	"time"
)

// clientHello returns the first message of TLS to a host.
func clientHello(host string) []byte {
	var c recorder
	_ = tls.Client(&c, &tls.Config{ServerName: host}).Handshake()
	return c.Bytes()
}

// recorder is a connection on which nobody answers.
type recorder struct{ bytes.Buffer }

func (*recorder) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (*recorder) Close() error                     { return nil }
func (*recorder) LocalAddr() net.Addr              { return nil }
func (*recorder) RemoteAddr() net.Addr             { return nil }
func (*recorder) SetDeadline(time.Time) error      { return nil }
func (*recorder) SetReadDeadline(time.Time) error  { return nil }
func (*recorder) SetWriteDeadline(time.Time) error { return nil }
