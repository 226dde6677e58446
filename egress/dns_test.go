package egress

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer is a DNS server on loopback, over UDP and TCP on one port, that records every question.
type dnsServer struct {
	addr   string
	answer func(name string, typ dnsmessage.Type) dnsReply

	mu   sync.Mutex
	seen []dnsQuery
}

type dnsQuery struct {
	name string
	typ  dnsmessage.Type
	tcp  bool
}

type dnsReply struct {
	code  dnsmessage.RCode
	alias string // a CNAME before the addresses, which then belong to it
	addrs []netip.Addr
	drop  bool
}

func addrs(texts ...string) dnsReply {
	var r dnsReply
	for _, s := range texts {
		r.addrs = append(r.addrs, netip.MustParseAddr(s))
	}
	return r
}

// udpSize is what fits in an answer over UDP; beyond it the resolver has to ask over TCP.
const udpSize = 1232

func startDNS(t *testing.T, answer func(string, dnsmessage.Type) dnsReply) *dnsServer {
	t.Helper()
	for range 20 { // the free TCP port may be taken for UDP
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			_ = l.Close()
			continue
		}
		s := &dnsServer{addr: l.Addr().String(), answer: answer}
		var wg sync.WaitGroup
		wg.Go(func() { s.serveUDP(pc) })
		wg.Go(func() { s.serveTCP(l) })
		t.Cleanup(func() {
			_, _ = l.Close(), pc.Close()
			wg.Wait()
		})
		return s
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil
}

// queries returns the questions so far and forgets them.
func (s *dnsServer) queries() []dnsQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

func (s *dnsServer) serveUDP(pc net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		if out := s.reply(buf[:n], false); out != nil {
			_, _ = pc.WriteTo(out, from)
		}
	}
}

func (s *dnsServer) serveTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, query); err != nil {
				return
			}
			if out := s.reply(query, true); out != nil {
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
			}
		}()
	}
}

func (s *dnsServer) reply(query []byte, tcp bool) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	s.mu.Lock()
	s.seen = append(s.seen, dnsQuery{q.Name.String(), q.Type, tcp})
	r := s.answer(q.Name.String(), q.Type)
	s.mu.Unlock()
	if r.drop {
		return nil
	}
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true, RCode: r.code},
		Questions: m.Questions,
		Answers:   r.records(q),
	}
	packed, err := out.Pack()
	if err == nil && !tcp && len(packed) > udpSize {
		out.Truncated, out.Answers = true, nil
		packed, err = out.Pack()
	}
	if err != nil {
		return nil
	}
	return packed
}

func (r dnsReply) records(q dnsmessage.Question) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	name := q.Name
	add := func(typ dnsmessage.Type, body dnsmessage.ResourceBody) {
		h := dnsmessage.ResourceHeader{Name: name, Type: typ, Class: dnsmessage.ClassINET}
		out = append(out, dnsmessage.Resource{Header: h, Body: body})
	}
	if r.alias != "" {
		alias := dnsmessage.MustNewName(r.alias)
		add(dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: alias})
		name = alias
	}
	for _, a := range r.addrs {
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			add(q.Type, &dnsmessage.AResource{A: a.As4()})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			add(q.Type, &dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	return out
}
