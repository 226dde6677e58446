package egress

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestCheckJudgesAndConnectsToNobody(t *testing.T) {
	canary, port := listen(t, "127.0.0.2")
	s := startDNS(t, fixed(addrs("127.0.0.2")))
	if err := dialerTo(s, port, "127.0.0.2/32").Check(t.Context(), "t", "api.ok.test", port); err != nil {
		t.Error(err)
	}
	var denied *AddressError
	if err := dialerTo(s, port).Check(t.Context(), "t", "api.ok.test", port); !errors.As(err, &denied) {
		t.Errorf("%v, want an address error", err)
	}
	silent(t, canary)

	s = startDNS(t, fixed(dnsReply{code: dnsmessage.RCodeNameError}))
	var missing *net.DNSError
	if err := dialerTo(s, port).Check(t.Context(), "t", "api.ok.test", port); !errors.As(err, &missing) {
		t.Errorf("%v, want a DNS error", err)
	}
}
