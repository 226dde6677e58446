package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/killswitch"
)

// writePair makes a client certificate of that name in the lab's folder, in the place of the one before.
func (l *lab) writePair(file, name string) {
	l.t.Helper()
	ca, err := NewCA()
	if err != nil {
		l.t.Fatal(err)
	}
	pair, err := ca.Leaf(name)
	if err != nil {
		l.t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		l.t.Fatal(err)
	}
	var chain bytes.Buffer
	for _, der := range pair.Certificate {
		_ = pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	l.write(file+".pem", chain.String())
	l.write(file+"-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// newcomers are what the upstream saw: as whom each connection came, and what was asked on it.
type newcomers struct {
	mu   sync.Mutex
	seen []newcomer
}

type newcomer struct{ host, as, conn, proto, auth string }

func (n *newcomers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newcomer{conn: r.RemoteAddr, proto: r.Proto, auth: r.Header.Get("Authorization")}
	c.host, _, _ = strings.Cut(r.Host, ":")
	if certs := r.TLS.PeerCertificates; len(certs) > 0 {
		c.as = certs[0].DNSNames[0]
	}
	n.mu.Lock()
	n.seen = append(n.seen, c)
	n.mu.Unlock()
	if r.URL.Path == "/redirect" {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
		return
	}
	_, _ = io.Copy(w, r.Body)
}

// last returns the newest of a host.
func (n *newcomers) last(t *testing.T, host string) newcomer {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range slices.Backward(n.seen) {
		if c.host == host {
			return c
		}
	}
	t.Fatalf("nothing came for %s", host)
	return newcomer{}
}

// mtlsLab has two bindings with certificates beside hosts without, all at one address: bound.ok.test has a token and certificate one,
// pass.ok.test certificate two alone.
func mtlsLab(t *testing.T) (*lab, *newcomers) {
	t.Helper()
	l := newLab(t, func(f *labFiles) {
		pairs := &lab{t: t, dir: t.TempDir()}
		pairs.writePair("one", "one.test")
		pairs.writePair("two", "two.test")
		f.config = replaceOnce(f.config, "secretFile: secret}\n", "secretFile: secret}\n      mtls: {certFile: "+pairs.dir+"/one.pem, keyFile: "+pairs.dir+"/one-key.pem}\n"+
			"    - name: second\n      tools: [t1]\n      targets: [\"pass.ok.test:%PORT\"]\n      mtls: {certFile: "+pairs.dir+"/two.pem, keyFile: "+pairs.dir+"/two-key.pem}\n")
		port := f.config[strings.Index(f.config, "bound.ok.test:")+len("bound.ok.test:"):]
		f.config = strings.ReplaceAll(f.config, "%PORT", port[:strings.Index(port, `"`)])
	})
	n := &newcomers{}
	l.mux.Handle("/", n)
	return l, n
}

// postOpen makes a call that an h2 client's needs HTTP/2 for.
func postOpen(t *testing.T, c *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", url, res.StatusCode, b, err)
	}
}

// TestCertificatesReachTheirTargetsOnly, over whatever protocol, and whoever else is at the same address.
func TestCertificatesReachTheirTargetsOnly(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			l, n := mtlsLab(t)
			client := l.client(l.token, h2)
			want := map[string]string{"bound.ok.test": "one.test", "pass.ok.test": "two.test", "ruled.ok.test": ""}
			for range 3 {
				for host := range want {
					postOpen(t, client, l.url("https", host, "/ok/x"))
					if status, _, err := get(client, l.url("https", host, "/ok")); err != nil || status != 200 {
						t.Fatal(status, err)
					}
				}
			}
			conns := map[string]string{}
			protos := map[string]bool{}
			for _, c := range n.seen {
				protos[c.proto] = true
				if c.as != want[c.host] {
					t.Errorf("%s was shown %q, want %q", c.host, c.as, want[c.host])
				}
				if strings.HasPrefix(c.auth, "Bearer ") != (c.host == "bound.ok.test") {
					t.Errorf("%s: authorization %q", c.host, c.auth)
				}
				if as, ok := conns[c.conn]; ok && as != c.host {
					t.Errorf("one connection carried %s and %s", as, c.host)
				}
				conns[c.conn] = c.host
			}
			if len(n.seen) != 18 || protos["HTTP/2.0"] != h2 || protos["HTTP/1.1"] == h2 || len(conns) > 6 {
				t.Errorf("%d requests on %d connections by %v", len(n.seen), len(conns), protos)
			}
		})
	}
}

// TestCertificateIsNotTakenAlong to where a redirect points.
func TestCertificateIsNotTakenAlong(t *testing.T) {
	l, n := mtlsLab(t)
	client := l.client(l.token, false)
	client.CheckRedirect = nil
	if status, _, err := get(client, l.url("https", "bound.ok.test", "/redirect?to="+l.url("https", "ruled.ok.test", "/ok/there"))); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if from, to := n.last(t, "bound.ok.test"), n.last(t, "ruled.ok.test"); from.as != "one.test" || to.as != "" || to.auth != "" || from.conn == to.conn {
		t.Errorf("from %+v to %+v", from, to)
	}
}

// TestWebSocketShowsTheCertificate as any other request does.
func TestWebSocketShowsTheCertificate(t *testing.T) {
	l, _ := mtlsLab(t)
	shown := make(chan string, 1)
	l.sockets(func(c *bufferedConn, r *http.Request) {
		as := ""
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			as = certs[0].DNSNames[0]
		}
		shown <- as
		echo(c, r)
	})
	w := l.wire(route{scheme: "https", host: "pass.ok.test"}, "")
	w.send("GET", "/ws", "HTTP/1.1", handshake, "")
	if line, err := w.r.ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q %v", line, err)
	}
	if as := <-shown; as != "two.test" {
		t.Errorf("shown %q", as)
	}
}

// TestRotatedCertificateMakesConnections: none that was made with the old one is used again, and the old session is not resumed.
func TestRotatedCertificateMakesConnections(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			l, n := mtlsLab(t)
			client, at := l.client(l.token, h2), l.url("https", "pass.ok.test", "/")
			file := l.proxy.gates.Load().snapshot.Bindings[1].MTLS.CertFile
			postOpen(t, client, at)
			postOpen(t, client, at)
			before := n.last(t, "pass.ok.test")
			(&lab{t: t, dir: filepath.Dir(file)}).writePair("two", "newer.test")
			postOpen(t, client, at)
			if after := n.last(t, "pass.ok.test"); before.as != "two.test" || after.as != "newer.test" || after.conn == before.conn {
				t.Errorf("before %+v, after %+v", before, after)
			}
			if err := os.WriteFile(file, []byte("half written"), 0o600); err != nil {
				t.Fatal(err)
			}
			seen := len(n.seen)
			if status, body, err := get(client, at); err != nil || status != 503 || problemOf(t, body).Code != "credential_unavailable" || len(n.seen) != seen {
				t.Errorf("without a certificate: %d %s %v", status, body, err)
			}
		})
	}
}

// TestKillClosesCertifiedConnections of the tool and host that it covers, and no others.
func TestKillClosesCertifiedConnections(t *testing.T) {
	l, n := mtlsLab(t)
	conns := func() (first, second string) {
		client := l.client(l.token, false) // the revocation closes the old one's tunnels
		postOpen(t, client, l.url("https", "bound.ok.test", "/"))
		postOpen(t, client, l.url("https", "pass.ok.test", "/"))
		return n.last(t, "bound.ok.test").conn, n.last(t, "pass.ok.test").conn
	}
	first, second := conns()
	kept := false
	for range 20 { // a connection may be taken back a moment after the answer
		a, b := conns()
		if kept = a == first && b == second; kept {
			break
		}
		first, second = a, b
	}
	if !kept {
		t.Fatal("connections are not kept at all")
	}
	l.revoke(killswitch.Selector{Host: []string{"pass.ok.test"}})
	if _, err := l.kill.Apply("test", nil); err != nil {
		t.Fatal(err)
	}
	if a, b := conns(); a != first || b == second {
		t.Errorf("the other host's connection is kept: %v; the revoked one's is closed: %v", a == first, b != second)
	}
}

// TestNoCertificateForAnImpostor: whoever is not who the target names learns nothing of the certificate.
func TestNoCertificateForAnImpostor(t *testing.T) {
	impostor, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			l, _ := mtlsLab(t)
			leaf, err := impostor.Leaf("pass.ok.test")
			if err != nil {
				t.Fatal(err)
			}
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ln.Close() })
			shown := make(chan int, 1)
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = c.Close() }()
				_ = c.(*tls.Conn).Handshake()
				shown <- len(c.(*tls.Conn).ConnectionState().PeerCertificates)
			}()
			s := &certified{tool: "t1", dialer: dialTo(ln.Addr().String()), roots: l.roots, limits: config.Limits{DialTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 10}}
			cert, err := l.upstreamCA.Leaf("client.test")
			if err != nil {
				t.Fatal(err)
			}
			u := s.pool("second", &broker.ClientCertificate{ID: "x", TLS: cert})
			if c, err := u.h1.open(t.Context(), origin{tls: true, host: "pass.ok.test", port: 443}, nil); err == nil {
				_ = c.conn.Close()
				t.Error("an impostor was believed")
			}
			if n := <-shown; n != 0 {
				t.Errorf("it was shown %d certificates", n)
			}
		})
	}
}

// dialTo connects to one address, whatever is asked for.
type dialTo string

func (d dialTo) Dial(ctx context.Context, _, _ string, _ uint16, _ *egress.Attempts) (duplex, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", string(d))
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func (dialTo) Check(context.Context, string, string, uint16) error { return nil }
