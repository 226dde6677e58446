package interop

import (
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// serveNames answers with one address for every name below "test." and those of clouds, over UDP, and returns where it listens.
func serveNames(t *testing.T, address [4]byte) string {
	t.Helper()
	pc := must[net.PacketConn](t)(net.ListenPacket("udp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if out, err := answer(buf[:n], address); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}

func answer(query []byte, address [4]byte) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	switch {
	case !strings.HasSuffix(q.Name.String(), ".test.") && !slices.Contains(cloudHosts, strings.TrimSuffix(q.Name.String(), ".")):
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	return m.Pack()
}
