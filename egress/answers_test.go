package egress

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// allowedPeer is the one address that the dialer of FuzzDNSAnswers may reach. All others that answers hold lead to this host, too, if
// anything connects to them, or to nobody.
var (
	allowedPeer  = netip.MustParseAddr("127.0.0.2")
	answerValues = []netip.Addr{
		allowedPeer, allowedPeer, allowedPeer, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("10.255.255.1"),
		netip.MustParseAddr("::ffff:127.0.0.2"), netip.MustParseAddr("::1"), netip.MustParseAddr("::"), netip.MustParseAddr("::ffff:127.0.0.3"), netip.MustParseAddr("::127.0.0.3"),
		netip.MustParseAddr("64:ff9b::7f00:1"), netip.MustParseAddr("2002:7f00:1::1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fd00::1"),
	}
)

// dnsScript makes answers out of bytes.
type dnsScript []byte

func (s *dnsScript) next() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// answers returns the messages that are sent in answer to a query: some made by the script, then one that says no, so that a resolver
// which believed none of them need not wait.
func (s dnsScript) answers(query []byte, tcp bool) [][]byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	var out [][]byte
	for range 1 + s.next()%3 {
		if b, err := s.message(&m, tcp).Pack(); err == nil {
			out = append(out, s.damage(b))
		}
	}
	no := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RCode: dnsmessage.RCodeNameError}, Questions: m.Questions}
	b, err := no.Pack()
	if err != nil {
		return out
	}
	return append(out, b)
}

func (s *dnsScript) message(query *dnsmessage.Message, tcp bool) *dnsmessage.Message {
	h := dnsmessage.Header{ID: query.ID, Response: true, Authoritative: s.next()%2 == 0, RecursionAvailable: true}
	questions := query.Questions
	switch s.next() % 16 {
	case 11:
		h.ID++
	case 12:
		h.Response = false
	case 13:
		h.Truncated = !tcp
	case 14:
		h.RCode = dnsmessage.RCode(s.next() % 16)
	case 15:
		questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName("other.ok.test."), Type: query.Questions[0].Type, Class: dnsmessage.ClassINET}}
	}
	out := &dnsmessage.Message{Header: h, Questions: questions}
	owner := query.Questions[0].Name
	for range s.next() % 40 {
		out.Answers = append(out.Answers, s.record(&owner))
	}
	if s.next()%4 == 0 {
		out.Additionals = append(out.Additionals, s.record(&owner))
	}
	return out
}

// record is an address of some owner, or an alias, which the records behind it then belong to.
func (s *dnsScript) record(owner *dnsmessage.Name) dnsmessage.Resource {
	h := dnsmessage.ResourceHeader{Name: *owner, Class: dnsmessage.ClassINET, TTL: uint32(s.next() % 3)}
	how := s.next()
	if how%8 == 7 {
		h.Name = dnsmessage.MustNewName([]string{"other.ok.test.", "API.OK.TEST.", ".", "api.ok.test."}[s.next()%4])
	}
	if how%8 == 6 {
		h.Type = dnsmessage.TypeCNAME
		*owner = dnsmessage.MustNewName([]string{"alias.ok.test.", "metadata.google.internal.", "api.ok.test.", "localhost."}[s.next()%4])
		return dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: *owner}}
	}
	if addr := answerValues[int(s.next())%len(answerValues)]; addr.Is4() {
		h.Type = dnsmessage.TypeA
		return dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}}
	} else {
		h.Type = dnsmessage.TypeAAAA
		return dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}
	}
}

// damage changes or cuts some bytes of one message in four.
func (s *dnsScript) damage(b []byte) []byte {
	switch s.next() % 16 {
	case 13:
		b[12+int(s.next())%(len(b)-12)] ^= 1 << (s.next() % 8)
	case 14:
		return b[:12+int(s.next())%(len(b)-12)]
	case 15:
		return append(b, b[12:]...)
	}
	return b
}

// serveScripts is a name server on loopback whose answers are those of the script at hand.
func serveScripts(f *testing.F, script *atomic.Pointer[dnsScript]) (addr string) {
	f.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	ln, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		f.Skipf("NOT TESTED: the port of UDP is taken for TCP: %v", err)
	}
	f.Cleanup(func() { _, _ = pc.Close(), ln.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, b := range script.Load().answers(buf[:n], false) {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serveScript(c, script)
		}
	}()
	return pc.LocalAddr().String()
}

func serveScript(c net.Conn, script *atomic.Pointer[dnsScript]) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, query); err != nil {
		return
	}
	for _, b := range script.Load().answers(query, true) {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	}
}

// arrivals listens on every address of this host and remembers which were connected to.
type arrivals struct {
	mu   sync.Mutex
	seen []netip.Addr
}

func (a *arrivals) listen(f *testing.F) (port uint16) {
	f.Helper()
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.seen = append(a.seen, c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
			a.mu.Unlock()
			_ = c.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort().Port()
}

func (a *arrivals) others() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []netip.Addr
	for _, addr := range a.seen {
		if addr != allowedPeer {
			out = append(out, addr)
		}
	}
	return out
}

// FuzzDNSAnswers: whatever a name server says, in whatever order and however often, nobody is connected to but the one address that
// the tool may reach.
func FuzzDNSAnswers(f *testing.F) {
	for i := range 60 {
		script := make([]byte, 90)
		for j := range script {
			script[j] = byte((i*7919 + j*j*104729 + i*j*31) >> 3)
		}
		f.Add(script)
	}
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0}) // the one good address alone
	var script atomic.Pointer[dnsScript]
	script.Store(&dnsScript{})
	server := serveScripts(f, &script)
	var came arrivals
	port := came.listen(f)
	d := &Dialer{
		Addresses: &Addresses{Exempt: []Exemption{exempt("127.0.0.2/32", []uint16{port}, "t")}}, Resolver: NewResolver(server), Timeout: 500 * time.Millisecond,
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s := dnsScript(bytes)
		script.Store(&s)
		var at Attempts
		conn, err := d.Dial(t.Context(), "t", "api.ok.test", port, &at)
		if err == nil {
			_ = conn.Close()
			if peer := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(); peer != allowedPeer {
				t.Fatalf("connected to %v", peer)
			}
		}
		if at.Refused.Load() > 0 && at.Dialed.Load() > 0 {
			t.Fatalf("%d addresses were denied, and %d dialled", at.Refused.Load(), at.Dialed.Load())
		}
		if others := came.others(); len(others) > 0 {
			t.Fatalf("somebody connected to %v", others)
		}
	})
}
