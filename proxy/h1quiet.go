//go:build linux || darwin || freebsd

package proxy

import "syscall"

// nothingToRead reports whether a socket is open and has nothing to give: neither data nor the peer's end.
func nothingToRead(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
