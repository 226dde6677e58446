package egress

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"testing"
	"time"
)

// TestGatewayDialerJudges: what is no name, and what is out of bounds, never reaches a gateway; what is one is not resolved.
func TestGatewayDialerJudges(t *testing.T) {
	asked := false
	d := &GatewayDialer{
		Dialer: &Dialer{Addresses: &Addresses{Exempt: []Exemption{{Prefix: netip.MustParsePrefix("10.1.2.3/32"), Ports: []uint16{443}, Tools: []string{"t"}}}}},
		Host:   "gateway.test", Port: 15443,
		TLS: func() (*tls.Config, error) { asked = true; return nil, errors.New("asked") },
	}
	for host, fine := range map[string]bool{
		"api.example.com": true, "10.1.2.3": true, "93.184.216.34": true, "2606:4700::1111": true,
		"10.1.2.4": false, "127.0.0.1": false, "169.254.169.254": false, "::1": false, "localhost": false, "x.localhost": false,
		"127.1": false, "API.example.com": false, "a\r\nX: y": false, "": false, "::ffff:127.0.0.1": false,
	} {
		asked = false
		_, err := d.Dial(t.Context(), "t", host, 443, nil, nil)
		if errors.As(err, new(*AddressError)) == fine || asked != fine {
			t.Errorf("%q: %v, gateway asked: %v", host, err, asked)
		}
		if checked := d.Check(t.Context(), "t", host, 443); (checked == nil) != fine {
			t.Errorf("%q: check says %v", host, checked)
		}
	}
}

// TestGatewaysWords: what a gateway says is kept in its form or not at all.
func TestGatewaysWords(t *testing.T) {
	for head, want := range map[string]answer{
		"Toolgate-Denial: domain_not_allowed\r\nToolgate-Decision: 0198-ab\r\nRetry-After: 7": {403, "domain_not_allowed", "0198-ab", 7 * time.Second},
		"toolgate-denial:revoked":                     {403, "revoked", "", 0},
		"Toolgate-Denial: revoked, x":                 {status: 403},
		"Toolgate-Denial: Revoked":                    {status: 403},
		"Toolgate-Decision: a\"b":                     {status: 403},
		"Retry-After: -1":                             {status: 403},
		"Retry-After: 99999999":                       {403, "", "", time.Hour},
		"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT":  {status: 403},
		"Toolgate-Denial: " + string(make([]byte, 0)): {status: 403},
	} {
		got, err := parseAnswer([]byte("HTTP/1.1 403 Forbidden\r\n" + head + "\r\n\r\n"))
		if err != nil || got != want {
			t.Errorf("%q: %+v %v", head, got, err)
		}
	}
	for _, bad := range []string{"", "A", "a b", "a\r\n", "é"} {
		if IsDecisionID(bad) {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}
