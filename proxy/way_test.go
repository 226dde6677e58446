package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// impostor is a gateway of the test's own, with a certificate of the chain's CA, that answers as it likes.
func (c *chain) impostor(name string, answer func(conn *tls.Conn)) string {
	c.t.Helper()
	cert, key := c.ca.issue(name)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		c.t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buf := make([]byte, 8<<10)
				if n, err := conn.Read(buf); err == nil && bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
					answer(conn.(*tls.Conn))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// TestGatewaysThatFail: each is told apart in the record, and the tool may try again unless the gateway has decided.
func TestGatewaysThatFail(t *testing.T) {
	say := func(text string) func(*tls.Conn) {
		return func(conn *tls.Conn) { _, _ = io.WriteString(conn, text) }
	}
	for name, tt := range map[string]struct {
		name   string
		answer func(*tls.Conn)
		code   Code
		class  string
	}{
		"another name":    {"elsewhere.test", say(established), UpstreamUnreachable, "gateway_tls"},
		"no answer":       {gatewayName, func(*tls.Conn) {}, UpstreamUnreachable, "gateway"},
		"garbage":         {gatewayName, say("gateway-text\r\n\r\n"), UpstreamUnreachable, "gateway"},
		"refusal":         {gatewayName, say("HTTP/1.1 403 gateway-text\r\n\r\n"), UpstreamUnreachable, "gateway"},
		"unknown code":    {gatewayName, say("HTTP/1.1 403 gateway-text\r\nToolgate-Denial: gateway_text\r\n\r\n"), UpstreamUnreachable, "gateway"},
		"malformed code":  {gatewayName, say("HTTP/1.1 403 gateway-text\r\nToolgate-Denial: revoked; gateway-text\r\n\r\n"), UpstreamUnreachable, "gateway"},
		"malformed id":    {gatewayName, say("HTTP/1.1 403 gateway-text\r\nToolgate-Denial: revoked\r\nToolgate-Decision: gateway-text\"}\r\n\r\n"), Revoked, "gateway"},
		"blames the tool": {gatewayName, say("HTTP/1.1 400 gateway-text\r\nToolgate-Denial: bad_request\r\n\r\n"), UpstreamUnreachable, "gateway"},
		"stale":           {gatewayName, say("HTTP/1.1 503 gateway-text\r\nToolgate-Denial: kill_switch_stale\r\nRetry-After: 999999\r\n\r\n"), KillSwitchStale, "gateway"},
		"timeout":         {gatewayName, say("HTTP/1.1 504 gateway-text\r\nToolgate-Denial: upstream_timeout\r\n\r\n"), UpstreamTimeout, "gateway"},
		"hangs":           {gatewayName, func(conn *tls.Conn) { _, _ = io.Copy(io.Discard, conn) }, UpstreamTimeout, "gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, showCert)
			timeout := "dialTimeout: 3s"
			if name == "hangs" {
				timeout = "dialTimeout: 200ms"
			}
			c.direct(c.impostor(tt.name, tt.answer), showCert, replaced(t, "dialTimeout: 3s", timeout))
			for _, r := range routes {
				p := c.checkFailure(c.client(c.token, r.h2), c.url(r.scheme, r.host, "/"), meanings[tt.code].status, tt.code, tt.class)
				if p.RetryAfterMS > time.Minute.Milliseconds() {
					t.Errorf("retry after %d ms", p.RetryAfterMS)
				}
			}
			c.refusedConnect(c.target("pass.ok.test"), string(tt.code))
			c.next()
			if said := c.printed(); strings.Contains(said, "gateway-text") || strings.Contains(said, "gateway_text") && tt.class != "gateway" {
				t.Error("the log or a record repeats what the gateway said")
			}
			c.gateway.noMore()
		})
	}
}

// TestGatewayThatIsNotThere: no direct dial takes its place, and the call may be tried again.
func TestGatewayThatIsNotThere(t *testing.T) {
	c := newChain(t, showCert)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	c.direct(ln.Addr().String(), showCert)
	if p := c.checkFailure(c.client(c.token, false), c.url("http", "plain.ok.test", "/"), 502, UpstreamUnreachable, "gateway"); !p.Retryable {
		t.Error("not retryable")
	}
}

// TestGatewayThatLeaves: one that connects and goes ends the call, and is not taken for the upstream's answer.
func TestGatewayThatLeaves(t *testing.T) {
	c := newChain(t, showCert)
	c.direct(c.impostor(gatewayName, func(conn *tls.Conn) {
		_, _ = io.WriteString(conn, established)
		reset(conn)
	}), showCert)
	for _, r := range routes {
		status, _, err := get(c.client(c.token, r.h2), c.url(r.scheme, r.host, "/"))
		if err != nil || status != 502 {
			t.Errorf("%s: %d %v", r.name, status, err)
		}
		c.next()
	}
	tunnel := c.connectTo(c.target("pass.ok.test"), "")
	if _, err := tunnel.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the tunnel ended with %v, expected a reset", err)
	}
	c.next()
}

// TestWorkloadWithoutProof: nothing is sent to the gateway when there is nothing to show.
func TestWorkloadWithoutProof(t *testing.T) {
	c := newChain(t, showToken)
	if err := os.Remove(c.path(c.lab, "workload-gateway.jwt")); err != nil {
		t.Fatal(err)
	}
	c.checkFailure(c.client(c.token, false), c.url("http", "plain.ok.test", "/"), 502, UpstreamUnreachable, "gateway_workload")
	c.gateway.noMore()
}

// TestCallersDoNotShareTunnels: the gateway decides for the caller of each, so that one must not ride on what another was allowed.
func TestCallersDoNotShareTunnels(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			c := newChain(t, showCert)
			c.tls.TLS.NextProtos = []string{"h2", "http/1.1"}
			c.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			ids := map[string][]string{}
			call := func(token string) {
				t.Helper()
				client := c.client(token, r.h2)
				if status, body, err := get(client, c.url(r.scheme, r.host, "/")); err != nil || status != 200 {
					t.Fatalf("%d %q %v", status, body, err)
				}
				client.CloseIdleConnections()
				rec := c.next()
				ids[rec.str("subject")] = append(ids[rec.str("subject")], rec.str("gateway_decision_id"))
			}
			bob := c.mint(map[string]any{"sub": "user:bob"})
			for range 2 {
				call(c.token)
				call(bob)
			}
			a, b := ids["user:alice"], ids["user:bob"]
			if len(a) != 2 || len(b) != 2 || a[0] == "" || a[0] != a[1] || b[0] != b[1] || a[0] == b[0] {
				t.Errorf("tunnels %v", ids)
			}
		})
	}
}

// TestGatewayReload: what the gateway's new config would not let in is cut, and the rest stays.
func TestGatewayReload(t *testing.T) {
	for name, change := range map[string]func(c *chain) labOption{
		"another tenant": func(*chain) labOption {
			return replaced(t, "      tools: [t1]\n    -", "      tools: [t1]\n      tenants: [other]\n    -")
		},
		"another workload": func(*chain) labOption { return replaced(t, "ns/{tenant}/sa/*", "ns/{tenant}/sa/other") },
		"another host":     func(*chain) labOption { return replaced(t, `"pass.ok.test:`, `"other.ok.test:`) },
		"another CA": func(c *chain) labOption {
			c.gateway.write("ca.crt", newAuthority(t).pem())
			return func(*labFiles) {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, showCert)
			tunnel := c.connectTo(c.target("pass.ok.test"), "")
			c.reconfigure()
			select {
			case <-c.gateway.records.more:
				t.Fatal("a reload that changes nothing has cut the tunnel")
			default:
			}
			c.reconfigure(change(c))
			code := "workload_not_allowed"
			if name == "another host" {
				code = "domain_not_allowed"
			}
			if at := c.gateway.next(); at.str("error_class") != "policy_changed" {
				t.Errorf("record %v", at)
			}
			if _, err := tunnel.Read(make([]byte, 1)); err == nil {
				t.Error("the tunnel goes on")
			}
			c.next()
			c.refusedConnect(c.target("pass.ok.test"), code) // though the sidecar resumes its TLS session
			c.next()
		})
	}
}

// TestRelayThroughTheGateway: megabytes both ways, halves closed one after the other, and a registry that is empty in the end.
func TestRelayThroughTheGateway(t *testing.T) {
	c := newChain(t, showToken)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		all, _ := io.ReadAll(conn) // to the client's end
		_, _ = conn.Write(all)
		_ = conn.Close()
	}()
	place := func(f *labFiles) {
		f.config = strings.ReplaceAll(f.config, port(c.plain), portOf(ln.Addr().String()))
		f.manifest = strings.ReplaceAll(f.manifest, port(c.plain), portOf(ln.Addr().String()))
	}
	c.reconfigure(place)
	c.direct(c.gateway.addr, showToken, place)
	tunnel := c.connectTo("plain.ok.test:"+portOf(ln.Addr().String()), "")
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19)
	go func() {
		_, _ = tunnel.Write(sent)
		_ = tunnel.Conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(tunnel)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
	}
	for _, rec := range []record{c.next(), c.gateway.next()} {
		if rec["bytes_out"] != float64(len(sent)) || rec["bytes_in"] != float64(len(sent)) || rec.str("error_class") != "" {
			t.Errorf("record %v", rec)
		}
	}
}

// TestRotationUnderLoad: certificates of both sides are replaced, file by file, while calls and new tunnels go on. None fails.
func TestRotationUnderLoad(t *testing.T) {
	c := newChain(t, showCert)
	c.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		r := append(routes[:3:3], relayed)[i]
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				client := c.client(c.mint(map[string]any{"jti": fmt.Sprint(i, n)}), r.h2) // another caller: a tunnel of its own
				status, body, err := get(client, c.url(r.scheme, r.host, "/"))
				client.CloseIdleConnections()
				if err != nil || status != 200 {
					t.Errorf("%s: %d %q %v", r.name, status, body, err)
				}
				calls.Add(1)
			}
		})
	}
	for range 5 {
		for _, side := range []struct {
			l        *lab
			name, id string
		}{{c.gateway, "gateway", gatewayName}, {c.lab, "workload", sidecarID}} {
			cert, key := c.ca.issue(side.id)
			side.l.write(side.name+".key", key) // for a moment the key is another certificate's
			waitCalls(t, &calls, 20)
			side.l.write(side.name+".crt", cert)
			waitCalls(t, &calls, 20)
		}
	}
	cancel()
	wg.Wait()
	shown, err := c.proxy.Gates().way.pair.get()
	want, _ := os.ReadFile(c.path(c.lab, "workload.crt"))
	if err != nil || !bytes.Contains(want, []byte("CERTIFICATE")) || shown.Leaf == nil {
		t.Fatal(err)
	}
	if pair, err := tls.LoadX509KeyPair(c.path(c.lab, "workload.crt"), c.path(c.lab, "workload.key")); err != nil || !pair.Leaf.Equal(shown.Leaf) {
		t.Errorf("the sidecar does not show its newest certificate: %v", err)
	}
}

// waitCalls waits until so many more calls have ended.
func waitCalls(t *testing.T, calls *atomic.Int64, n int64) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for until := calls.Load() + n; calls.Load() < until; {
		if time.Now().After(deadline) {
			t.Fatal("no more calls end")
		}
		time.Sleep(time.Millisecond) // polling
	}
}

// TestTunnelsResume: a new tunnel resumes TLS, which spares signatures, and a new certificate is shown at once.
func TestTunnelsResume(t *testing.T) {
	c := newChain(t, showCert)
	states := make(chan tls.ConnectionState, 1)
	c.direct(c.impostor(gatewayName, func(conn *tls.Conn) {
		states <- conn.ConnectionState()
		_, _ = io.WriteString(conn, established)
		_, _ = io.Copy(io.Discard, conn)
	}), showCert)
	open := func() tls.ConnectionState {
		t.Helper()
		tunnel := c.connectTo(c.target("pass.ok.test"), "")
		_ = tunnel.Close()
		c.next()
		return <-states
	}
	first, second := open(), open()
	if first.DidResume || !second.DidResume || !second.PeerCertificates[0].Equal(first.PeerCertificates[0]) {
		t.Errorf("resumed: %v, then %v", first.DidResume, second.DidResume)
	}
	c.certify(c.lab, "workload", sidecarID)
	if third := open(); third.DidResume || third.PeerCertificates[0].Equal(first.PeerCertificates[0]) {
		t.Error("the old certificate is still shown")
	}
}
