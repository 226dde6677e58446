package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer answers 127.0.0.1 for every name below "test.", over UDP and TCP, and remembers what it was asked.
type dnsServer struct {
	addr  string
	mu    sync.Mutex
	asked map[string]int // by name, without the trailing dot
}

func newDNS(t *testing.T) *dnsServer {
	t.Helper()
	udp, tcp := sameport(t)
	d := &dnsServer{addr: tcp.Addr().String(), asked: map[string]int{}}
	t.Cleanup(func() { _ = udp.Close(); _ = tcp.Close() })
	go d.serveUDP(udp)
	go d.serveTCP(tcp)
	return d
}

// sameport returns a UDP and a TCP socket of one port. The port that the system chooses for one may be taken for the other.
func sameport(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return udp, tcp
		}
		_ = tcp.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

func (d *dnsServer) serveUDP(pc net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		if out, ok := d.answer(buf[:n]); ok {
			_, _ = pc.WriteTo(out, from)
		}
	}
}

func (d *dnsServer) serveTCP(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			for d.serveOne(c) == nil {
			}
		}()
	}
}

// serveOne answers one query of a TCP connection (RFC 1035, section 4.2.2).
func (d *dnsServer) serveOne(c net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, query); err != nil {
		return err
	}
	out, ok := d.answer(query)
	if !ok {
		return io.ErrUnexpectedEOF
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err
}

func (d *dnsServer) answer(query []byte) ([]byte, bool) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil, false
	}
	q, err := p.Question()
	if err != nil {
		return nil, false
	}
	name := strings.TrimSuffix(q.Name.String(), ".")
	d.mu.Lock()
	d.asked[name]++
	d.mu.Unlock()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	switch {
	case !strings.HasSuffix(name, ".test"):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	out, err := m.Pack()
	return out, err == nil
}

// count returns how often name was asked for.
func (d *dnsServer) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[name]
}
