package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// rawUpstream replaces the TLS upstream's place in the relay tests: a plain TCP server on a port that the tool may reach.
func rawUpstream(t *testing.T, serve func(net.Conn), options ...labOption) (*lab, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, p, _ := net.SplitHostPort(ln.Addr().String())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	t.Cleanup(func() { _ = ln.Close() })
	l := newLab(t, append([]labOption{func(f *labFiles) {
		f.config = replaceOnce(f.config, "tools: [t1]}]", "tools: [t1]}, {prefix: \"127.0.0.1/32\", ports: ["+p+"], tools: [t1]}]")
		f.manifest = replaceOnce(f.manifest, "allowedDomains: [", "allowedDomains: [\"raw.ok.test:"+p+"\", ")
	}}, options...)...)
	return l, "raw.ok.test:" + p
}

func replaceOnce(s, old, new string) string {
	return string(bytes.Replace([]byte(s), []byte(old), []byte(new), 1))
}

func TestRelayLeavesTLSToTheEnds(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.TLS.ServerName) })
	res, err := l.client(l.token, true).Get(l.url("https", "pass.ok.test", "/"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if string(body) != "pass.ok.test" {
		t.Errorf("body %q", body)
	}
	if !bytes.Equal(res.TLS.PeerCertificates[0].Raw, l.tls.TLS.Certificates[0].Certificate[0]) {
		t.Error("the client did not see the upstream's own certificate")
	}
}

// TestRelayKeepsBytes sends more than the relay copies before it splices, both ways, after early bytes, and compares.
func TestRelayKeepsBytes(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) { // echoes, and ends its side when the client has ended its own
		_, _ = io.Copy(c, c)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	early := "early bytes"
	c := l.connectTo(target, early)
	sent := sha256.New()
	sent.Write([]byte(early))
	go func() {
		chunk := make([]byte, 100_003)
		for range 100 {
			_, _ = rand.Read(chunk)
			sent.Write(chunk)
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
		_ = c.CloseWrite()
	}()
	got := sha256.New()
	n, err := io.Copy(got, c)
	if err != nil || n != int64(len(early)+100*100_003) {
		t.Fatalf("%d bytes came back: %v", n, err)
	}
	if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		t.Error("the bytes changed on their way")
	}
	rec := l.next()
	if rec["bytes_out"] != float64(n) || rec["bytes_in"] != float64(n) || rec.str("decision") != "allow" || rec.str("kind") != "tunnel" {
		t.Errorf("record %v", rec)
	}
	l.noMore()
}

// TestRelayHalfClose: the client ends its side first; the upstream answers after that.
func TestRelayHalfClose(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) {
		b, _ := io.ReadAll(c) // until the client's end
		_, _ = c.Write(append([]byte("after: "), b...))
		_, _ = c.Write(bytes.Repeat([]byte("x"), 1<<20))
		_ = c.Close()
	})
	c := l.connectTo(target, "")
	if _, err := c.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil || len(b) != len("after: request")+1<<20 || !bytes.HasPrefix(b, []byte("after: request")) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if rec := l.next(); rec.str("error_class") != "" {
		t.Errorf("record %v", rec)
	}
}

func TestRelayCutByTheKillSwitch(t *testing.T) {
	held := make(chan net.Conn, 1)
	l, target := rawUpstream(t, func(c net.Conn) { held <- c })
	c := l.connectTo(target, "")
	up := <-held
	began := time.Now()
	l.revoke(killswitch.Selector{Tool: []string{"t1"}})
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the client's side ended with %v, expected a reset", err)
	}
	_ = up.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := up.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the upstream's side ended with %v, expected a reset", err)
	}
	t.Logf("cut after %v", time.Since(began))
	rec := l.next()
	if rec.str("code") != "revoked" || rec.str("revocation_id") != "r0" || rec.str("decision") != "allow" {
		t.Errorf("record %v", rec)
	}
	if n := len(l.proxy.tunnels.list(func(*open) bool { return true })); n != 0 {
		t.Errorf("%d tunnels still registered", n)
	}
}

func TestIdleTunnelEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
	c := l.connectTo(l.target("pass.ok.test"), "")
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read something")
	}
	if rec := l.next(); rec.str("error_class") != "idle" {
		t.Errorf("record %v", rec)
	}
}

func TestTunnelsAreBounded(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 2"))
	first := l.connectTo(l.target("pass.ok.test"), "")
	l.connectTo(l.target("bound.ok.test"), "")
	if _, err := l.client(l.token, false).Get(l.url("https", "pass.ok.test", "/")); err == nil || !bytes.Contains([]byte(err.Error()), []byte("overloaded")) {
		t.Errorf("error %v", err)
	}
	if rec := l.next(); rec.str("code") != "overloaded" {
		t.Errorf("record %v", rec)
	}
	_ = first.Close()
	if rec := l.next(); rec.str("code") != "" {
		t.Errorf("record %v", rec)
	}
	l.connectTo(l.target("pass.ok.test"), "")
}
