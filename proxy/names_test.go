package proxy

import (
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers for *.ok.test on loopback and remembers what it was asked.
type nameServer struct {
	addr string
	mu   sync.Mutex
	seen []string
	to   map[string][4]byte // other addresses than 127.0.0.1
	hold chan struct{}      // answers wait for its end; nil: they do not
}

func startNameServer(t testing.TB) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{addr: conn.LocalAddr().String(), to: map[string][4]byte{"private.ok.test.": {10, 0, 0, 5}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if b := s.answer(buf[:n]); b != nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

func (s *nameServer) answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := q.Name.String()
	s.mu.Lock()
	s.seen = append(s.seen, name)
	ip, other := s.to[name]
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if !other {
		ip = [4]byte{127, 0, 0, 1}
	}
	h.Response = true
	m := dnsmessage.Message{Header: h, Questions: []dnsmessage.Question{q}}
	switch {
	case !strings.HasSuffix(name, ".ok.test.") || strings.HasPrefix(name, "absent."):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: ip},
		}}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// asked returns the names that were asked for so far.
func (s *nameServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}
