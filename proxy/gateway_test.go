package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/killswitch"
)

// TestEveryRouteGoesThroughTheGateway, by certificate and by token, and both records name each other. The gateway alone resolves names.
func TestEveryRouteGoesThroughTheGateway(t *testing.T) {
	for name, show := range map[string]string{sidecarID: showCert, "system:serviceaccount:acme:tool": showToken} {
		for _, r := range append(slices.Clone(routes), relayed) {
			t.Run(strings.Fields(show)[0]+r.name, func(t *testing.T) {
				c := newChain(t, show)
				c.tls.TLS.NextProtos = []string{"h2", "http/1.1"} // without a choice, the first call would connect twice
				c.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
					if req.Header.Get("Proxy-Authorization")+req.Header.Get(workloadHeader)+req.Header.Get(decisionHeader) != "" {
						t.Errorf("the upstream got %v", req.Header)
					}
					_, _ = io.WriteString(w, strings.Repeat("hello", 1<<16))
				})
				client := c.client(c.token, r.h2)
				status, body, err := get(client, c.url(r.scheme, r.host, "/"))
				if err != nil || status != 200 || len(body) != 5<<16 {
					t.Fatalf("%d %d bytes %v", status, len(body), err)
				}
				client.CloseIdleConnections()
				rec := c.next()
				if r.scheme == "https" && r != relayed && rec.str("kind") != "request" { // the tunnel's comes in its own time
					rec = c.next()
				}
				c.proxy.Gates().retire() // closes what idles, so that the gateway's record is written
				at := c.gateway.next()
				if rec.str("decision") != "allow" || at.str("decision") != "allow" || rec.str("gateway_decision_id") != at.str("id") ||
					at.str("sidecar_decision_id") != rec.str("id") || at.str("workload") != name || at.str("tenant") != "acme" {
					t.Errorf("records\n%v\n%v", rec, at)
				}
				for _, said := range []string{c.printed(), c.gateway.printed()} {
					if strings.Contains(said, c.token) || strings.Contains(said, "eyJ") {
						t.Error("a log or a record shows a token")
					}
				}
			})
		}
	}
}

// TestGatewayDecidesAgain: what its own policy denies is denied, whatever the sidecar allows, and the tool is told as if the sidecar had.
func TestGatewayDecidesAgain(t *testing.T) {
	c := newChain(t, showCert)
	for _, tt := range []struct {
		target string
		code   Code
	}{
		{c.target("lied.ok.test"), DomainNotAllowed}, // only the sidecar's manifest lists it
		{c.target("private.ok.test"), PrivateNetwork},
		{c.target("absent.ok.test"), UpstreamUnreachable},
	} {
		c.refusedConnect(tt.target, string(tt.code))
		rec, at := c.next(), c.gateway.next()
		if rec.str("error_class") != "gateway" || rec.str("code") != string(tt.code) || rec.str("gateway_decision_id") != at.str("id") ||
			at.str("code") != string(tt.code) || rec.str("decision") != at.str("decision") {
			t.Errorf("records\n%v\n%v", rec, at)
		}
	}
	for r, p := range map[route]problem{ // of intercepted and plain requests, too
		{"", "https", "bound.ok.test", false}: {Code: Revoked, Status: 403},
		{"", "https", "bound.ok.test", true}:  {Code: Revoked, Status: 403},
		{"", "http", "plain.ok.test", false}:  {Code: Revoked, Status: 403},
	} {
		c.gateway.revoke(killswitch.Selector{Tool: []string{"t1"}})
		status, body, err := get(c.client(c.token, r.h2), c.url(r.scheme, r.host, "/"))
		if got := problemOf(t, body); err != nil || status != p.Status || got.Code != p.Code || got.Retryable {
			t.Errorf("%v: %d %q %v", r, status, body, err)
		}
	}
}

// TestGatewayCutsTunnels when its own kill switch says so.
func TestGatewayCutsTunnels(t *testing.T) {
	c := newChain(t, showCert)
	tunnel := c.connectTo(c.target("pass.ok.test"), "")
	c.gateway.revoke(killswitch.Selector{Tenant: []string{"acme"}})
	if at := c.gateway.next(); at.str("code") != "revoked" || at.str("error_class") != "cut" {
		t.Errorf("record %v", at)
	}
	if _, err := tunnel.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the tunnel ended with %v, expected a reset", err)
	}
	if rec := c.next(); rec.str("decision") != "allow" || rec.str("error_class") != "connection" {
		t.Errorf("record %v", rec)
	}
}

// visitor comes to a gateway by hand.
type visitor struct {
	cert, key, head string
	max             uint16 // version of TLS
}

// visit returns the gateway's answer and its code, or the error of the handshake.
func (c *chain) visit(v visitor) (string, error) {
	c.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(c.ca.cert)
	conf := &tls.Config{RootCAs: pool, ServerName: gatewayName, MaxVersion: v.max}
	if v.cert != "" {
		pair, err := tls.X509KeyPair([]byte(v.cert), []byte(v.key))
		if err != nil {
			c.t.Fatal(err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	tcp, err := net.Dial("tcp", c.gateway.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	_ = tcp.SetDeadline(time.Now().Add(10 * time.Second))
	conn := tls.Client(tcp, conf)
	if _, err := io.WriteString(conn, v.head); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "", err
	}
	if res.StatusCode == 200 {
		return "200", nil
	}
	return res.Header.Get("Toolgate-Denial"), nil
}

// head is a CONNECT as a sidecar writes it.
func (c *chain) head(user, token, more string) string {
	target := c.target("pass.ok.test")
	return fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n%s\r\n", target, target,
		base64.StdEncoding.EncodeToString([]byte(user+":"+token)), more)
}

// TestGatewayLetsInNobodyElse: each of these would get through without one of its checks.
func TestGatewayLetsInNobodyElse(t *testing.T) {
	c := newChain(t, showCert)
	issue := func(a *authority, id string, change ...func(*x509.Certificate)) func(*visitor) {
		return func(v *visitor) { v.cert, v.key = a.issue(id, change...) }
	}
	good := c.head("t1", c.token, "")
	showing := func(token string) func(*visitor) {
		return func(v *visitor) { v.head = c.head("t1", c.token, workloadHeader+": "+token+"\r\n") }
	}
	stranger := newAuthority(t)
	cert := issue(c.ca, sidecarID)
	for _, tt := range []struct {
		name string
		want string // 200, a code, or "handshake"
		do   []func(*visitor)
	}{
		{"certificate", "200", []func(*visitor){cert}},
		{"workload token", "200", []func(*visitor){showing(c.workloadToken("system:serviceaccount:acme:tool"))}},
		{"nothing: a tool with its caller's token", "workload_not_allowed", nil},
		{"another CA", "workload_not_allowed", []func(*visitor){issue(stranger, sidecarID)}},
		{"expired", "workload_not_allowed", []func(*visitor){issue(c.ca, sidecarID, func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) })}},
		{"not yet valid", "workload_not_allowed", []func(*visitor){issue(c.ca, sidecarID, func(x *x509.Certificate) { x.NotBefore = time.Now().Add(time.Minute) })}},
		{"a server's certificate", "workload_not_allowed", []func(*visitor){issue(c.ca, sidecarID, func(x *x509.Certificate) { x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}},
		{"a CA's certificate", "workload_not_allowed", []func(*visitor){issue(c.ca, sidecarID, func(x *x509.Certificate) { x.IsCA, x.BasicConstraintsValid = true, true })}},
		{"two identities", "workload_not_allowed", []func(*visitor){issue(c.ca, sidecarID, func(x *x509.Certificate) { x.URIs = append(x.URIs, x.URIs[0]) })}},
		{"another tenant's workload", "workload_not_allowed", []func(*visitor){issue(c.ca, "spiffe://cluster.test/ns/other/sa/tool")}},
		{"another trust domain", "workload_not_allowed", []func(*visitor){issue(c.ca, "spiffe://evil.test/ns/acme/sa/tool")}},
		{"a deeper path", "workload_not_allowed", []func(*visitor){issue(c.ca, "spiffe://cluster.test/ns/acme/sa/tool/x")}},
		{"a name", "workload_not_allowed", []func(*visitor){issue(c.ca, "tool.acme.test")}},
		{"the caller's token as the workload's", "workload_not_allowed", []func(*visitor){showing(c.token)}},
		{"another tenant's workload token", "workload_not_allowed", []func(*visitor){showing(c.workloadToken("system:serviceaccount:other:tool"))}},
		{"certificate and token", "workload_not_allowed", []func(*visitor){cert, showing(c.workloadToken("system:serviceaccount:acme:tool"))}},
		{"replay of another tenant's caller", "workload_not_allowed", []func(*visitor){cert, func(v *visitor) {
			v.head = c.head("t1", c.mint(map[string]any{"tenant": "other"}), "")
		}}},
		{"a caller without tenant", "workload_not_allowed", []func(*visitor){cert, func(v *visitor) {
			v.head = c.head("t1", c.mint(map[string]any{"tenant": nil}), "")
		}}},
		{"no caller", "unauthenticated", []func(*visitor){cert, func(v *visitor) { v.head = c.head("t1", "", "") }}},
		{"a workload's token as the caller's", "unauthenticated", []func(*visitor){cert, func(v *visitor) {
			v.head = c.head("t1", c.workloadToken("system:serviceaccount:acme:tool"), "")
		}}},
		{"expired caller", "unauthenticated", []func(*visitor){cert, func(v *visitor) {
			v.head = c.head("t1", c.mint(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "")
		}}},
		{"an unknown tool", "tool_unknown", []func(*visitor){cert, func(v *visitor) { v.head = c.head("t3", c.token, "") }}},
		{"another workload's tool", "workload_not_allowed", []func(*visitor){cert, func(v *visitor) { v.head = c.head("t2", c.token, "") }}},
		{"that tool's workload", "200", []func(*visitor){issue(c.ca, "spiffe://cluster.test/ns/acme/second/x"), func(v *visitor) { v.head = c.head("t2", c.token, "") }}},
		{"that tool's workload by name", "200", []func(*visitor){issue(c.ca, "second.acme.test"), func(v *visitor) { v.head = c.head("t2", c.token, "") }}},
		{"tool with a line break", "unauthenticated", []func(*visitor){cert, func(v *visitor) { v.head = c.head("t1\r\nX: y", c.token, "") }}},
		{"old TLS", "handshake", []func(*visitor){cert, func(v *visitor) { v.max = tls.VersionTLS12 }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := visitor{head: good}
			for _, f := range tt.do {
				f(&v)
			}
			got, err := c.visit(v)
			if tt.want == "handshake" {
				if err == nil {
					t.Errorf("let in: %s", got)
				}
				c.gateway.noMore()
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q %v", got, err)
			}
			if rec := c.gateway.next(); rec.str("decision") != map[bool]string{true: "allow", false: "deny"}[tt.want == "200"] {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestGatewayReadsOneForm: whatever two parsers might read in two ways is read in none.
func TestGatewayReadsOneForm(t *testing.T) {
	c := newChain(t, showCert)
	v := visitor{}
	v.cert, v.key = c.ca.issue(sidecarID)
	target, auth := c.target("pass.ok.test"), "Proxy-Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("t1:"+c.token))+"\r\n"
	evil := "evil.ok.test:443"
	for name, head := range map[string]string{
		"GET":               "GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n" + auth,
		"two hosts":         "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nHost: " + evil + "\r\n" + auth,
		"another host":      "CONNECT " + target + " HTTP/1.1\r\nHost: " + evil + "\r\n" + auth,
		"no host":           "CONNECT " + target + " HTTP/1.1\r\n" + auth,
		"user info":         "CONNECT x@" + target + " HTTP/1.1\r\nHost: x@" + target + "\r\n" + auth,
		"path":              "CONNECT " + target + "/x HTTP/1.1\r\nHost: " + target + "/x\r\n" + auth,
		"upper case":        "CONNECT PASS.ok.test:443 HTTP/1.1\r\nHost: PASS.ok.test:443\r\n" + auth,
		"folded":            "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n x\r\n" + auth,
		"bare line feed":    "CONNECT " + target + " HTTP/1.1\nHost: " + target + "\r\n" + auth,
		"length":            "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nContent-Length: 0\r\n" + auth,
		"two credentials":   "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n" + auth + auth,
		"other credentials": "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nToolgate-Authorization: " + c.token + "\r\n",
		"HTTP/1.0":          "CONNECT " + target + " HTTP/1.0\r\nHost: " + target + "\r\n" + auth,
	} {
		v.head = head + "\r\n"
		if got, err := c.visit(v); err != nil || got != "bad_request" {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if rec := c.gateway.next(); rec.str("decision") != "deny" || rec["host"] != nil {
			t.Errorf("%s: record %v", name, rec)
		}
	}
	v.head = "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nUser-Agent: " + strings.Repeat("x", 70<<10) + "\r\n\r\n"
	if got, err := c.visit(v); err != nil || got != "header_too_large" {
		t.Errorf("long: %q %v", got, err)
	}
	c.gateway.next()
	v.head = "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n" + auth + "\r\n"
	if got, err := c.visit(v); err != nil || got != "private_network" {
		t.Errorf("an IPv6 address: %q %v", got, err)
	}
	c.gateway.next()
}

// TestExplainKnowsTheGateway on both sides.
func TestExplainKnowsTheGateway(t *testing.T) {
	c := newChain(t, showCert)
	for _, tt := range []struct {
		workload, url string
		code          Code
	}{
		{sidecarID, "https://pass.ok.test:" + port(c.tls) + "/", ""},
		{sidecarID, "http://plain.ok.test:" + port(c.plain) + "/", ""},
		{"", c.target("pass.ok.test"), ""},
		{"spiffe://cluster.test/ns/other/sa/tool", c.target("pass.ok.test"), WorkloadNotAllowed},
		{sidecarID, c.target("lied.ok.test"), DomainNotAllowed},
	} {
		e := Explain(t.Context(), c.gateway.proxy.Gates(), killswitch.New(0), Question{
			Tool: "t1", Token: c.token, URL: tt.url, Method: "GET", Workload: tt.workload,
		})
		judged := slices.ContainsFunc(e.Steps, func(s Step) bool { return s.Gate == "workload" })
		if e.Code != tt.code || e.Code == "" && e.Handling != "relay" || !judged && e.Code == "" {
			t.Errorf("%+v: %+v", tt, e)
		}
	}
	e := Explain(t.Context(), c.proxy.Gates(), killswitch.New(0), Question{Tool: "t1", Token: c.token, URL: c.target("pass.ok.test"), Network: true})
	if last := e.Steps[len(e.Steps)-1]; e.Decision != "allow" || last.Gate != "gateway" || !strings.Contains(last.Detail, c.gateway.addr) {
		t.Errorf("%+v", e)
	}
}

// TestGatewayIsBlind: rules for paths are the sidecar's; at the gateway they neither open the tunnel nor cut it at a reload.
func TestGatewayIsBlind(t *testing.T) {
	c := newChain(t, showCert)
	c.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := c.client(c.token, false)
	for path, want := range map[string]int{"/ok": 200, "/other": 403} {
		if status, body, err := get(client, c.url("https", "ruled.ok.test", path)); err != nil || status != want {
			t.Errorf("%s: %d %q %v", path, status, body, err)
		}
		c.next()
	}
	c.reconfigure(func(f *labFiles) { f.manifest += "# another revision\n" })
	if status, body, err := get(client, c.url("https", "ruled.ok.test", "/ok")); err != nil || status != 200 {
		t.Errorf("after a reload: %d %q %v", status, body, err)
	}
	c.next()
	c.gateway.noMore()
}

// TestReloadOfTheGateway: a sidecar that is told of another gateway leaves the first.
func TestReloadOfTheGateway(t *testing.T) {
	c := newChain(t, showCert)
	tunnel := c.connectTo(c.target("pass.ok.test"), "")
	c.direct(c.gateway.addr, showToken) // the same, in another way
	select {
	case <-c.records.more:
		t.Fatal("a tunnel to the same gateway was cut")
	default:
	}
	c.direct(c.impostor(gatewayName, func(*tls.Conn) {}), showCert)
	if rec := c.next(); rec.str("error_class") != "policy_changed" {
		t.Errorf("record %v", rec)
	}
	if _, err := tunnel.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel goes on")
	}
}

// TestRootsOfWorkloadsChange: a certificate that the gateway has verified, and remembers, counts for nothing once a reload takes its root away.
func TestRootsOfWorkloadsChange(t *testing.T) {
	c := newChain(t, showCert)
	v := visitor{head: c.head("t1", c.token, "")}
	v.cert, v.key = c.ca.issue(sidecarID)
	for range 2 {
		if got, err := c.visit(v); err != nil || got != "200" {
			t.Fatalf("got %q %v", got, err)
		}
		c.gateway.next()
	}
	c.gateway.write("ca.crt", newAuthority(t).pem())
	s, err := config.Load(c.path(c.gateway, "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	next, err := NewGates(s, nil, nil, c.gateway.proxy.gates.Load()) // as a reload makes them
	if err != nil {
		t.Fatal(err)
	}
	c.gateway.proxy.Reload(next)
	if got, err := c.visit(v); err != nil || got != "workload_not_allowed" {
		t.Errorf("with other roots: got %q %v", got, err)
	}
	c.gateway.next()
}
