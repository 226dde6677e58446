package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// labAddresses are the addresses of the names that are not at 127.0.0.1.
var labAddresses = map[string][]string{
	"private.ok.test.":  {"10.0.0.5"},
	"rprivate.ok.test.": {"192.168.3.4"},
	"mixed.ok.test.":    {"127.0.0.1", "10.0.0.5"},
	"meta.ok.test.":     {"169.254.169.254"},
	"loop2.ok.test.":    {"127.0.0.2"},
	"six.ok.test.":      {"fd00::5"},
	"absent.ok.test.":   nil,
}

// startLabNames serves DNS for *.ok.test and returns its address.
func startLabNames(t *testing.T) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerLab(buf[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return conn.LocalAddr().String()
}

func answerLab(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	addresses, special := labAddresses[q.Name.String()]
	if !special && strings.HasSuffix(q.Name.String(), ".ok.test.") {
		addresses = []string{"127.0.0.1"}
	}
	header.Response = true
	if len(addresses) == 0 {
		header.RCode = dnsmessage.RCodeNameError
	}
	m := dnsmessage.Message{Header: header, Questions: []dnsmessage.Question{q}}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}
