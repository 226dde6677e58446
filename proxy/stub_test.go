package proxy

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/toolgate/toolgate/egress"
)

// startStub serves DNS beside a lab, for the lab's tool.
func startStub(t *testing.T) (*lab, string) {
	t.Helper()
	l := newLab(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- (&stub{proxy: l.proxy, listener: "tool"}).serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	at := ln.Addr().String()
	waitUntil(t, func() bool { // its UDP port is opened after the TCP one
		_, _, err := (&dns.Client{Timeout: time.Second}).Exchange(new(dns.Msg).SetQuestion("pass.ok.test.", dns.TypeA), at)
		return err == nil
	})
	return l, at
}

func TestNamesAreAnsweredForTheAllowedOnly(t *testing.T) {
	l, at := startStub(t)
	for _, network := range []string{"udp", "tcp"} {
		client := &dns.Client{Net: network, Timeout: 5 * time.Second}
		for _, c := range []struct {
			name    string
			kind    uint16
			rcode   int
			answers int
		}{
			{"pass.ok.test.", dns.TypeA, dns.RcodeSuccess, 1},
			{"PASS.ok.TEST.", dns.TypeA, dns.RcodeSuccess, 1},
			{"ruled.ok.test.", dns.TypeA, dns.RcodeSuccess, 1},
			{"secret-as-a-label.wild.ok.test.", dns.TypeA, dns.RcodeSuccess, 1},
			{"wild.ok.test.", dns.TypeA, dns.RcodeNameError, 0},
			{"evil.test.", dns.TypeA, dns.RcodeNameError, 0},
			{"notpass.ok.test.", dns.TypeA, dns.RcodeNameError, 0},
			{"pass.ok.test.evil.test.", dns.TypeA, dns.RcodeNameError, 0},
			{"1.2.0.192.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, 0},
			{".", dns.TypeNS, dns.RcodeNameError, 0},
			{"pass.ok.test.", dns.TypeAAAA, dns.RcodeSuccess, 0},
			{"pass.ok.test.", dns.TypeHTTPS, dns.RcodeSuccess, 0},
			{"pass.ok.test.", dns.TypeTXT, dns.RcodeSuccess, 0},
			{"evil.test.", dns.TypeTXT, dns.RcodeNameError, 0},
		} {
			res, _, err := client.Exchange(new(dns.Msg).SetQuestion(c.name, c.kind), at)
			if err != nil {
				t.Fatalf("%s %s: %v", network, c.name, err)
			}
			if res.Rcode != c.rcode || len(res.Answer) != c.answers || len(res.Extra)+len(res.Ns) != 0 {
				t.Errorf("%s %s %s: %v", network, c.name, dns.TypeToString[c.kind], res)
			}
			for _, rr := range res.Answer {
				if a, ok := rr.(*dns.A); !ok || a.A.String() != egress.Placeholder.String() {
					t.Errorf("%s %s: %v", network, c.name, rr)
				}
			}
		}
	}
	if asked := l.names.asked(); len(asked) != 0 {
		t.Errorf("a query left the pod: %v", asked)
	}
	if !netip.MustParsePrefix("192.0.2.0/24").Contains(egress.Placeholder) {
		t.Error("the placeholder could be somebody's address")
	}
}

func TestNamesFollowAReload(t *testing.T) {
	l, at := startStub(t)
	l.reload(`"pass.ok.test:`, `"other.ok.test:`)
	for name, rcode := range map[string]int{"pass.ok.test.": dns.RcodeNameError, "other.ok.test.": dns.RcodeSuccess} {
		res, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), at)
		if err != nil || res.Rcode != rcode {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
}

func TestOddQueriesAreRefused(t *testing.T) {
	_, at := startStub(t)
	update := new(dns.Msg).SetUpdate("ok.test.")
	two := new(dns.Msg).SetQuestion("pass.ok.test.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	chaos := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	for name, q := range map[string]*dns.Msg{"update": update, "two questions": two, "chaos": chaos} {
		if res, err := dns.Exchange(q, at); err == nil && (res.Rcode == dns.RcodeSuccess || len(res.Answer) != 0) {
			t.Errorf("%s: %v", name, res)
		}
	}
	conn, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	for _, junk := range []string{"x", "\x00\x01", string(make([]byte, 600))} {
		_, _ = conn.Write([]byte(junk))
	}
	if res, err := dns.Exchange(new(dns.Msg).SetQuestion("pass.ok.test.", dns.TypeA), at); err != nil || res.Rcode != dns.RcodeSuccess {
		t.Errorf("after junk: %v %v", res, err)
	}
}
