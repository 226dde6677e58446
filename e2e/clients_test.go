package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestClients takes each client through both paths, with each way of giving a token that there is on that path. On either
// path the client trusts only the CA that it must meet there, so that a call on the wrong path fails.
func TestClients(t *testing.T) {
	w := newWorld(t, gitRoot(t), devAuthority)
	s := w.start(t)
	token := w.task(t, "user:carol") // the listener's token file says user:alice
	// The header is read on a request that can be seen; the tunnel that carries it must have been opened for somebody already.
	userinfo := errand{proxy: proxyURL(s.tool, token)}
	header := errand{proxy: proxyURL(s.tokenFile, ""), header: token}
	file := errand{proxy: proxyURL(s.tokenFile, "")}
	cases := []struct {
		name    string
		errand  errand
		host    string
		subject string
	}{
		{"intercepted, token in HTTPS_PROXY", userinfo, ordersHost, "user:carol"},
		{"intercepted, token in Toolgate-Authorization", header, ordersHost, "user:carol"},
		{"intercepted, token file", file, ordersHost, "user:alice"},
		{"passthrough, token in HTTPS_PROXY", userinfo, plainHost, "user:carol"},
		{"passthrough, token file", file, plainHost, "user:alice"},
	}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			for _, tt := range cases {
				t.Run(tt.name, func(t *testing.T) { checkArrives(t, w, s, c, tt.errand, tt.host, tt.subject) })
			}
			t.Run("no token", func(t *testing.T) { checkNoToken(t, w, s, c, "") })
			t.Run("no token at the CONNECT", func(t *testing.T) { checkNoToken(t, w, s, c, token) })
			t.Run("denied host", func(t *testing.T) { checkDenied(t, w, s, c, userinfo) })
		})
	}
	if n := w.dns.count(deniedHost); n != 0 {
		t.Errorf("%d DNS queries for a denied name", n)
	}
}

// caOf returns the CA that a client meets at host.
func (w *world) caOf(s *sidecar, host string) string {
	if host == ordersHost {
		return s.caFile
	}
	return filepath.Join(w.dir, "upstream-ca.pem")
}

func checkArrives(t *testing.T, w *world, s *sidecar, c client, e errand, host, subject string) {
	t.Helper()
	e.url, e.caFile = w.up.url(host, c.path), w.caOf(s, host)
	named := func(r record) bool { return r.Subject == subject && r.Decision == "allow" && r.Code == "" }
	before, recorded := len(w.up.arrivals(host)), count(s.records(t, host), named)
	out, err := c.do(t, e)
	if err != nil || !strings.Contains(out, c.want) {
		t.Fatalf("%v, output:\n%s", err, out)
	}
	arrivals := w.up.arrivals(host)[before:]
	if len(arrivals) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	for _, a := range arrivals {
		bound := host == ordersHost
		if bound && a.Claims.Sub != subject || !bound && a.Token != "" {
			t.Errorf("%s came for %q, want %q", a.Path, a.Claims.Sub, subject)
		}
		if a.Header.Get("Toolgate-Authorization") != "" || a.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("%s carried the caller's token to the upstream", a.Path)
		}
		if bound && a.Token != "" && strings.Contains(out, a.Token) {
			t.Error("the client printed the credential")
		}
	}
	eventually(t, "there is a record of the call", func() bool { return count(s.records(t, host), named) > recorded })
}

// checkNoToken makes calls of nobody. A header token alone comes too late: the CONNECT must be answered with 407, or clients
// such as git would never offer their proxy password.
func checkNoToken(t *testing.T, w *world, s *sidecar, c client, header string) {
	t.Helper()
	for _, host := range []string{ordersHost, plainHost} {
		before := len(w.up.arrivals(host))
		out, err := c.do(t, errand{proxy: proxyURL(s.tool, ""), header: header, url: w.up.url(host, c.path), caFile: w.caOf(s, host)})
		if err == nil || !strings.Contains(out, "407") && !strings.Contains(out, "unauthenticated") {
			t.Errorf("%s: %v, output:\n%s", host, err, out)
		}
		if n := len(w.up.arrivals(host)) - before; n != 0 {
			t.Errorf("%s: %d requests of nobody reached the upstream", host, n)
		}
	}
}

func checkDenied(t *testing.T, w *world, s *sidecar, c client, e errand) {
	t.Helper()
	e.url, e.caFile = w.up.url(deniedHost, c.path), w.caOf(s, deniedHost)
	denied := func(r record) bool { return r.Decision == "deny" && r.Code == denialCode }
	before := count(s.records(t, deniedHost), denied)
	if out, err := c.do(t, e); err == nil || !strings.Contains(out, c.denied) {
		t.Errorf("%v, want %q in the output:\n%s", err, c.denied, out)
	}
	if n := len(w.up.arrivals(deniedHost)); n != 0 {
		t.Errorf("%d requests reached a denied host", n)
	}
	eventually(t, "there is a record of the denial", func() bool { return count(s.records(t, deniedHost), denied) > before })
}
