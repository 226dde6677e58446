//go:build linux

package cases

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// reply is what the name server says about one name.
type reply struct {
	code    dnsmessage.RCode
	aliases []string // CNAMEs in turn before the addresses, which belong to the last
	addrs   []netip.Addr
	silent  bool
}

// at is a reply with these addresses.
func at(addrs ...string) reply {
	var r reply
	for _, a := range addrs {
		r.addrs = append(r.addrs, netip.MustParseAddr(a))
	}
	return r
}

// question is one query.
type question struct {
	name string // without the trailing dot
	typ  dnsmessage.Type
}

// addrNS is where the name server is, besides 127.0.0.1: a pod has a loopback of its own.
const addrNS = "203.0.113.53"

// nameServer answers on port 53, over UDP and TCP, and remembers what it was asked.
type nameServer struct {
	mu      sync.Mutex
	zone    map[string]func(n int) reply // n counts the questions of one type for the name, from 0
	asked   []question
	silent  bool
	counted map[question]int
}

// udpSize is what fits into an answer over UDP; for more the client has to ask over TCP.
const udpSize = 1232

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	d := new(nameServer)
	d.reset()
	for _, address := range []string{"127.0.0.1:53", addrNS + ":53"} {
		tcp, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = udp.Close(); _ = tcp.Close() })
		go d.serveUDP(udp)
		go d.serveTCP(tcp)
	}
	return d
}

// reset goes back to the names of every case.
func (d *nameServer) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone, d.counted, d.asked, d.silent = map[string]func(int) reply{}, map[question]int{}, nil, false
	for name, addr := range map[string]string{
		"api.ok.test": addrU1, "*.wild.test": addrU2, "wild.test": addrU2, "evil.test": addrE1, "*.evil.test": addrE1,
		"notwild.test": addrE1, "evilwild.test": addrE1, "k.ok.test": addrE1, "i.ok.test": addrE1,
	} {
		d.zone[name] = func(int) reply { return at(addr) }
	}
}

// set gives a name one reply.
func (d *nameServer) set(name string, r reply) { d.setFunc(name, func(int) reply { return r }) }

func (d *nameServer) setFunc(name string, f func(n int) reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone[name] = f
}

// hush makes the server drop every query, or answer again.
func (d *nameServer) hush(silent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = silent
}

// forget drops what was asked so far.
func (d *nameServer) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = nil
}

// questions returns what was asked so far.
func (d *nameServer) questions() []question {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]question(nil), d.asked...)
}

func (d *nameServer) serveUDP(pc net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		if out := d.answer(buf[:n], udpSize); out != nil {
			_, _ = pc.WriteTo(out, from)
		}
	}
}

func (d *nameServer) serveTCP(ln net.Listener) {
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
func (d *nameServer) serveOne(c net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, query); err != nil {
		return err
	}
	out := d.answer(query, 65535)
	if out == nil {
		return io.ErrUnexpectedEOF
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err
}

func (d *nameServer) answer(query []byte, size int) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	r := d.lookup(q)
	if r.silent {
		return nil
	}
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true, RCode: r.code},
		Questions: m.Questions, Answers: r.records(q),
	}
	packed, err := out.Pack()
	if err == nil && len(packed) > size {
		out.Truncated, out.Answers = true, nil
		packed, err = out.Pack()
	}
	if err != nil {
		return nil
	}
	return packed
}

// lookup notes the question and finds its reply: the name's own, else that of the nearest wildcard above it.
func (d *nameServer) lookup(q dnsmessage.Question) reply {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	d.mu.Lock()
	defer d.mu.Unlock()
	key := question{name, q.Type}
	d.asked = append(d.asked, key)
	n := d.counted[key]
	d.counted[key]++
	if d.silent {
		return reply{silent: true}
	}
	f := d.zone[name]
	for rest := name; f == nil; f = d.zone["*."+rest] {
		var found bool
		if _, rest, found = strings.Cut(rest, "."); !found {
			return reply{code: dnsmessage.RCodeNameError}
		}
	}
	return f(n)
}

func (r reply) records(q dnsmessage.Question) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	name := q.Name
	add := func(typ dnsmessage.Type, body dnsmessage.ResourceBody) {
		h := dnsmessage.ResourceHeader{Name: name, Type: typ, Class: dnsmessage.ClassINET} // TTL 0
		out = append(out, dnsmessage.Resource{Header: h, Body: body})
	}
	for _, alias := range r.aliases {
		next := dnsmessage.MustNewName(alias + ".")
		add(dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: next})
		name = next
	}
	for _, a := range r.addrs {
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			add(dnsmessage.TypeA, &dnsmessage.AResource{A: a.As4()})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			add(dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	return out
}
