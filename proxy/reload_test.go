package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
)

// reload changes the lab's manifest and puts it in force.
func (l *lab) reload(old, new string) {
	l.t.Helper()
	f := l.files()
	if !strings.Contains(f.manifest, old) {
		l.t.Fatalf("the manifest has no %q", old)
	}
	l.write("manifests/t1.yaml", strings.ReplaceAll(f.manifest, old, new))
	l.proxy.Reload(l.load())
}

// TestReloadReachesKeptConnections: a request on a connection that was opened before is judged by the policy of now.
func TestReloadReachesKeptConnections(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		l := newLab(t)
		l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		client := l.client(l.token, h2)
		for _, want := range []string{"", "path_not_allowed", ""} {
			switch want {
			case "":
				l.reload("/ok/*", "/ok/*")
			default:
				l.reload("/ok/*", "/other/*")
			}
			res, err := client.Get(l.url("https", "ruled.ok.test", "/ok/1"))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Toolgate-Denial"); got != want {
				t.Errorf("h2=%v: code %q, expected %q", h2, got, want)
			}
			rec := l.next()
			if rec.str("policy_revision") != l.proxy.gates.Load().snapshot.Revision {
				t.Errorf("record %v", rec)
			}
		}
		l.noMore()
	}
}

func TestReportModeLetsPolicyDenialsPass(t *testing.T) {
	l := newLab(t, replaced(t, "mode: enforce", "mode: report"))
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, false)
	for _, c := range []struct {
		target, code string
		status       int
	}{
		{l.url("https", "other.ok.test", "/"), "domain_not_allowed", 200},
		{l.url("https", "ruled.ok.test", "/elsewhere"), "path_not_allowed", 200},
		{l.url("http", "plain.ok.test", "/"), "", 200},
		{"http://10.0.0.5/", "private_network", 403},
	} {
		status, body, err := get(client, c.target)
		if err != nil || status != c.status {
			t.Errorf("%s: %d %q %v", c.target, status, body, err)
		}
		client.CloseIdleConnections() // ends a relay, which is recorded when it ends
		rec := l.next()
		if rec.str("code") != c.code || rec.str("mode") != "report" || (rec.str("decision") == "deny") != (c.status == 403) {
			t.Errorf("%s: record %v", c.target, rec)
		}
	}
}

// TestDenialInsideTheTunnel: the client gets the whole reason, over TLS, and nobody was asked or dialled for it.
func TestDenialInsideTheTunnel(t *testing.T) {
	l := newLab(t, replaced(t, "inTunnel: false", "inTunnel: true"))
	client := l.client(l.token, true)
	status, body, err := get(client, "https://evil.test:8443/path")
	if err != nil || status != 403 {
		t.Fatalf("%d %q %v", status, body, err)
	}
	if p := problemOf(t, body); p.Code != DomainNotAllowed || p.Tool != "t1" {
		t.Errorf("problem %+v", p)
	}
	if n := l.names.asked(); len(n) != 0 {
		t.Errorf("asked for %v", n)
	}
	rec := l.next()
	if rec.str("code") != "domain_not_allowed" || rec.str("kind") != "request" || rec.str("host") != "evil.test" {
		t.Errorf("record %v", rec)
	}
	client.CloseIdleConnections()
	// A malformed target and an unknown caller are refused at the CONNECT all the same.
	for auth, want := range map[string]string{"": "407 ", l.basic(l.token): "400 "} {
		c := l.dial()
		target := "evil.test:443"
		if auth != "" {
			target = "127.1:443"
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: %s\r\n\r\n", target, auth)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%q %v", line, err)
		}
		l.next()
	}
	// A client that gives up on the tunnel leaves one record, with the denial.
	c := l.connectTo("evil.test:443", "")
	_ = c.Close()
	if rec := l.next(); rec.str("code") != "domain_not_allowed" || rec.str("decision") != "deny" || rec.str("kind") != "tunnel" {
		t.Errorf("record %v", rec)
	}
	l.noMore()
}

func TestPlainRequestToABoundHostIsRefused(t *testing.T) {
	l := newLab(t)
	status, body, err := get(l.client(l.token, false), "http://"+l.target("bound.ok.test")+"/")
	if err != nil || status != 403 || problemOf(t, body).Code != CredentialDenied {
		t.Errorf("%d %q %v", status, body, err)
	}
	if n := l.issuer.Count("/token"); n != 0 {
		t.Error("a credential was asked for")
	}
}

// TestHTTPSByAbsoluteForm: a client may leave TLS to the proxy; the credential still goes over verified TLS only.
func TestHTTPSByAbsoluteForm(t *testing.T) {
	l := newLab(t)
	var got seen
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { got.add(r) })
	c := l.dial()
	fmt.Fprintf(c, "GET https://%s/x HTTP/1.1\r\nHost: evil.test\r\nToolgate-Authorization: Bearer %s\r\nConnection: close\r\n\r\n", l.target("bound.ok.test"), l.token)
	b, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
		t.Fatalf("%q %v", b, err)
	}
	r := got.last(t)
	if r.TLS == nil || r.Host != l.target("bound.ok.test") || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
		t.Errorf("the upstream got %v %v", r.Host, r.Header)
	}
}

// TestReloadDuringAnIssuersOutage: the keys that are held outlive the gates that fetched them.
func TestReloadDuringAnIssuersOutage(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	if status, _, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	other := l.mint(map[string]any{"sub": "user:carol"})
	l.issuer.SetFaults(devissuer.Faults{DiscoveryStatus: 500, JWKSStatus: 500})
	s, err := config.Load(filepath.Join(l.dir, "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGates(s, nil, nil, l.proxy.Gates())
	if err != nil {
		t.Fatal(err)
	}
	l.proxy.Reload(g)
	if status, body, err := get(l.client(other, false), l.url("http", "plain.ok.test", "/")); err != nil || status != 200 {
		t.Errorf("after the reload: %d %q %v", status, body, err)
	}
}

// TestReloadEndsTunnels that the new policy would not have let through, and no others.
func TestReloadEndsTunnels(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string // in the manifest or the config
		host     string // of the tunnel
		ends     bool
	}{
		"relayed, host gone":            {`"pass.ok.test:`, `"other.ok.test:`, "pass.ok.test", true},
		"relayed, another host gone":    {`"bound.ok.test:`, `"bound.ok.test:443", "bound.ok.test:`, "pass.ok.test", false},
		"relayed, to be intercepted":    {"intercept: {}", `intercept: {targets: ["pass.ok.test:%TLS"]}`, "pass.ok.test", true},
		"relayed, address out of bound": {`ports: [%TLS, `, `ports: [1, `, "pass.ok.test", true},
		"intercepted, host gone":        {`"ruled.ok.test:%TLS", "pass`, `"pass`, "ruled.ok.test", true},
		"intercepted, other rules":      {"/ok/*", "/other/*", "ruled.ok.test", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, func(f *labFiles) { f.config += "intercept: {}\n" })
			conn := l.connectTo(l.target(c.host), "")
			f := l.files()
			f.config += "intercept: {}\n"
			fill := strings.NewReplacer("%TLS", port(l.tls))
			old, new := fill.Replace(c.old), fill.Replace(c.new)
			if !strings.Contains(f.manifest+f.config, old) {
				t.Fatalf("the files have no %q", old)
			}
			f.manifest, f.config = strings.ReplaceAll(f.manifest, old, new), strings.ReplaceAll(f.config, old, new)
			if strings.HasPrefix(name, "intercepted, host gone") { // with its rules
				f.manifest = strings.Replace(f.manifest, "ruled.ok.test", "pass.ok.test", 1)
			}
			l.write("manifests/t1.yaml", f.manifest)
			l.write("sidecar.yaml", f.config)
			l.proxy.Reload(l.load())
			if !c.ends {
				if n := len(l.proxy.tunnels.byTool()); n != 1 {
					t.Error("the tunnel was cut")
				}
				return
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("the tunnel goes on")
			}
			if rec := l.next(); rec.str("error_class") != "policy_changed" || rec.str("code") != "domain_not_allowed" {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestReloadRacesWithATunnel: a tunnel that was decided under gates which are replaced before it is registered is reviewed all the
// same.
func TestReloadRacesWithATunnel(t *testing.T) {
	l := newLab(t)
	c := l.proxy.begin("tool", "tunnel")
	c.caller, c.asked = &identity.Caller{Issuer: l.issuer.URL()}, &ask{}
	c.tool, c.target = c.gates.snapshot.Tools["t1"], egress.Target{Host: "pass.ok.test", Port: 1}
	l.reload("/ok/*", "/other/*")
	o := &open{tool: "t1", cut: func(error) { t.Error("cut without an answer") }, stands: c.stands}
	if d := l.proxy.admit(o, c); d == nil || d.Code != DomainNotAllowed {
		t.Errorf("admitted: %v", d)
	}
	if n := len(l.proxy.tunnels.byTool()); n != 0 {
		t.Errorf("%d tunnels registered", n)
	}
}
