package proxy

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// peeker looks at the first bytes of a connection and leaves them in the socket.
type peeker struct {
	buf   [maxPlainHead]byte
	n     int
	err   error
	ready func(uintptr) bool // recv, bound once
}

var peekers = sync.Pool{New: func() any {
	p := new(peeker)
	p.ready = p.recv
	return p
}}

// peek waits for bytes and returns those that are there, none at the end of the stream. They are valid until release.
func (p *peeker) peek(conn *net.TCPConn) ([]byte, error) {
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Read(p.ready)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	return p.buf[:p.n], nil
}

func (p *peeker) recv(fd uintptr) bool {
	for p.err = unix.EINTR; p.err == unix.EINTR; {
		p.n, _, p.err = unix.Recvfrom(int(fd), p.buf[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}
	return p.err != unix.EAGAIN
}

// release gives the peeker back without what it has seen, which may be a token.
func (p *peeker) release() {
	clear(p.buf[:max(p.n, 0)])
	p.n, p.err = 0, nil
	peekers.Put(p)
}
