package proxy

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// TestIdleTunnelHoldsTwoDescriptors counts descriptors of the whole process, which holds the client's end and the upstream's as well.
func TestIdleTunnelHoldsTwoDescriptors(t *testing.T) {
	accepted := make(chan net.Conn, 64)
	l, target := rawUpstream(t, func(c net.Conn) {
		_, _ = io.Copy(c, io.LimitReader(c, 1<<20))
		accepted <- c
	})
	fds := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	one := func() {
		c := l.connectTo(target, "")
		go func() { _, _ = c.Write(make([]byte, 1<<20)) }() // enough to be spliced, then idle
		if _, err := io.CopyN(io.Discard, c, 1<<20); err != nil {
			t.Fatal(err)
		}
		<-accepted
	}
	one()
	before := fds()
	const n = 20
	for range n {
		one()
	}
	pipes.Lock()
	spare := 2 * len(pipes.free)
	pipes.Unlock()
	if got := fds() - before; got > 4*n+spare {
		t.Errorf("%d descriptors for %d idle tunnels with both ends in this process (and %d of spare pipes)", got, n, spare)
	}
}

// parkedDirections counts those that wait without a goroutine.
func parkedDirections() int {
	lot.mu.Lock()
	defer lot.mu.Unlock()
	return len(lot.spots)
}

// parkAll tells every tunnel to rest, as the registry does after a while, and waits until both directions of one are parked.
func (l *lab) parkAll() {
	l.t.Helper()
	waitUntil(l.t, func() bool {
		for _, o := range l.proxy.tunnels.list(func(*open) bool { return true }) {
			o.rest()
		}
		return parkedDirections() == 2
	})
}

// idleTunnel opens a tunnel to an echo server, uses it, and parks it.
func idleTunnel(t *testing.T) (*lab, *bufferedConn) {
	t.Helper()
	l, target := rawUpstream(t, func(c net.Conn) {
		_, _ = io.Copy(c, c)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	c := l.connectTo(target, "")
	echoes(t, c, []byte("hello"))
	l.parkAll()
	return l, c
}

func echoes(t *testing.T, c net.Conn, what []byte) {
	t.Helper()
	go func() { _, _ = c.Write(what) }()
	got := make([]byte, len(what))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, what) {
		t.Errorf("%d bytes did not come back: %v", len(what), err)
	}
}

// TestParkedTunnelGoesOn: bytes wake a tunnel that idles without goroutines, again and again, spliced as well as copied.
func TestParkedTunnelGoesOn(t *testing.T) {
	l, c := idleTunnel(t)
	for _, n := range []int{1, 1 << 20, 3, 1 << 21} {
		echoes(t, c, bytes.Repeat([]byte{byte(n)}, n))
		l.parkAll()
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if rec := l.next(); rec.str("error_class") != "" || rec["bytes_in"] != float64(5+1+1<<20+3+1<<21) {
		t.Errorf("record %v", rec)
	}
	if n := parkedDirections(); n != 0 {
		t.Errorf("%d directions still parked", n)
	}
}

// TestTunnelsParkByThemselves waits for the registry to do it.
func TestTunnelsParkByThemselves(t *testing.T) {
	l := newLab(t)
	l.connectTo(l.target("pass.ok.test"), "")
	waitUntil(t, func() bool { return parkedDirections() == 2 })
}

func TestParkedTunnelIsCut(t *testing.T) {
	l, c := idleTunnel(t)
	began := time.Now()
	l.revoke(killswitch.Selector{All: true})
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("ended with %v, expected a reset", err)
	}
	t.Logf("cut after %v", time.Since(began))
	if rec := l.next(); rec.str("code") != "revoked" {
		t.Errorf("record %v", rec)
	}
	if n := parkedDirections(); n != 0 {
		t.Errorf("%d directions still parked", n)
	}
}

// TestParkedTunnelSeesTheClientGo: a reset wakes it too.
func TestParkedTunnelSeesTheClientGo(t *testing.T) {
	l, c := idleTunnel(t)
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if rec := l.next(); rec.str("error_class") != "connection" {
		t.Errorf("record %v", rec)
	}
}

// TestParkingUnderTraffic tells tunnels to rest all the time while bytes move through them.
func TestParkingUnderTraffic(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) {
		_, _ = io.Copy(c, c)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	stop := make(chan struct{})
	var resting, busy sync.WaitGroup
	resting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				for _, o := range l.proxy.tunnels.list(func(*open) bool { return true }) {
					o.rest()
				}
			}
		}
	})
	for i := range 8 {
		c := l.connectTo(target, "")
		busy.Go(func() {
			for n := range 200 {
				size := 1 + (n*7919+i*104729)%5000
				echoes(t, c, bytes.Repeat([]byte{byte(n)}, size))
			}
			_ = c.CloseWrite()
			if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	busy.Wait()
	close(stop)
	resting.Wait()
	for range 8 {
		if rec := l.next(); rec.str("error_class") != "" || rec["bytes_in"] != rec["bytes_out"] {
			t.Errorf("record %v", rec)
		}
	}
}
