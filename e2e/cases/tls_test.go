//go:build linux

package cases

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func tlsCases() []replay {
	return []replay{
		{"TLS-01", "elazarl/goproxy#698; kernel/hypeman#134",
			"GET of a bound host whose upstream has a certificate that nobody signed", "502; the upstream gets no request and no credential", unsignedUpstream},
		{"TLS-03", "agentcage#214",
			"a TLS hello that names another host than the CONNECT", "the handshake is refused, nothing dialled, the record says target_mismatch", otherSNI},
		{"TLS-05", "coder/httpjail#57",
			"inside a tunnel, a request line with the URL of another host", "421, the other host is neither resolved nor dialled", otherURL},
		{"TLS-06", "zed-industries/zed#59223",
			"two requests on one tunnel, the second with another Host", "200, then 421; the upstream sees the first only", secondHost},
		{"TLS-11", "openai/codex#9859",
			"SSH, and HTTP without TLS, in a tunnel that must be intercepted", "nothing reaches the upstream", notTLS},
		{"TLS-12", "CVE-2024-23656 (dex)",
			"a client and an upstream that know TLS 1.1 and 1.0 only", "the client's handshake is refused; the upstream's is a 502", oldTLS},
		{"TLS-13", "CVE-2026-32283, CVE-2026-56862 (Go crypto/tls)",
			"64 KeyUpdate messages in one record, again and again", "the connection is closed at once, goroutines go", keyUpdates},
		{"TLS-14", "docker/sbx-releases#574; nolabs-ai/nono#982; paradigmxyz/iron-proxy#212",
			"a call in the manner of gRPC, both ways at once, on an intercepted host", "HTTP/2 on both hops, each message passes at once, the trailer arrives", bidirectional},
		{"TLS-16", "elazarl/goproxy#142",
			"two fresh sidecars; the binary; a CA certificate without its key", "two CAs; the key of neither is in the binary; refused at load", ownCA},
		{"TLS-19", "CVE-2025-61729 (Go crypto/x509)",
			"an upstream certificate with 10,000 names, none of them right", "502 within a second; answer and log lines stay short", manyNames},
		{"TLS-21", "CVE-2026-27586 (caddy)",
			"CA files that are missing or hold garbage", "the sidecar does not start and opens no port", brokenCAFiles},
		{"TLS-22", "CVE-2026-48491 (traefik)",
			"with rules for a wildcard, names below it in CONNECT, hello and Host that differ", "421, or the handshake is refused; the rules hold", fronting},
		{"TLS-23", "CVE-2026-42505 (Go crypto/tls)",
			"an encrypted client hello through an intercepted tunnel", "the outer name counts; the hello inside is not believed", encryptedHello},
	}
}

// speakTLS lets U3 answer for api.ok.test with this TLS config. It returns a count of the bytes that came through TLS.
func speakTLS(l *lab, conf *tls.Config) *atomic.Int64 {
	n := new(atomic.Int64)
	l.dns.set("api.ok.test", at(addrU3))
	l.up.speak(addrU3+":443", func(c net.Conn) {
		got, _ := io.Copy(io.Discard, tls.Server(c, conf))
		n.Add(got)
	})
	return n
}

// badUpstream is a case whose upstream's TLS is not acceptable.
func badUpstream(t *testing.T, w *world, conf *tls.Config) answer {
	t.Helper()
	fresh := w.lab.world(t) // with no connection kept
	n := speakTLS(w.lab, conf)
	a := fresh.inside(t, "api.ok.test:443")
	a.send(t, "GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
	got := a.read(t, "GET")
	got.is(t, "GET", http.StatusBadGateway)
	if got.code != "upstream_tls" {
		t.Errorf("code %q", got.code)
	}
	if !w.dialled(addrU3 + ":443") {
		t.Error("the upstream was not dialled")
	}
	if n.Load() > 0 {
		t.Errorf("the upstream got %d bytes", n.Load())
	}
	if strings.Contains(fresh.printed(), secretA) {
		t.Error("the credential was printed")
	}
	for line := range strings.Lines(fresh.printed()) {
		if len(line) > 4096 {
			t.Errorf("a line of %d bytes was printed", len(line))
		}
	}
	return got
}

func unsignedUpstream(t *testing.T, w *world) {
	badUpstream(t, w, &tls.Config{Certificates: []tls.Certificate{selfSigned(t, "api.ok.test")}})
}

func manyNames(t *testing.T, w *world) {
	names := make([]string, 10000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.wild.test", i)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{w.pki.issue(t, names...)}}
	began := time.Now()
	got := badUpstream(t, w, conf)
	if d := time.Since(began); d > 2*time.Second { // of which the start of a sidecar is a part
		t.Errorf("it took %s", d)
	}
	if len(got.body) > 4096 {
		t.Errorf("the answer has %d bytes", len(got.body))
	}
}

func otherSNI(t *testing.T, w *world) {
	before := len(w.records())
	if _, err := w.tls(t, "api.ok.test:443", func(c *tls.Config) { c.ServerName, c.InsecureSkipVerify = "evil.test", true }); err == nil {
		t.Error("the handshake was accepted")
	}
	w.silent(t)
	w.unasked(t)
	eventually(t, "a record", func() bool { return len(w.records()) > before })
	if r := w.records()[before]; r.Code != "target_mismatch" || r.Host != "api.ok.test" {
		t.Errorf("the record is %+v", r)
	}
}

func otherURL(t *testing.T, w *world) {
	a := w.inside(t, "api.ok.test:443")
	a.send(t, "GET https://evil.test/ HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
	a.read(t, "GET").is(t, "the URL of another host", http.StatusMisdirectedRequest)
	w.silent(t)
	w.unasked(t)
}

func secondHost(t *testing.T, w *world) {
	a := w.inside(t, "api.ok.test:443")
	a.send(t, "GET /1 HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
	a.read(t, "GET").is(t, "first", http.StatusOK)
	a.send(t, "GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	a.read(t, "GET").is(t, "second", http.StatusMisdirectedRequest)
	if got := w.up.arrivals(); len(got) != 1 || got[0].uri != "/1" || got[0].header.Get("Authorization") != "Bearer "+secretA {
		t.Errorf("upstreams got %+v", got)
	}
}

func notTLS(t *testing.T, w *world) {
	for _, text := range []string{"SSH-2.0-x\r\n\r\n", "GET / HTTP/1.1\r\nHost: api.ok.test:443\r\n\r\n"} {
		a := w.open(t, "api.ok.test:443")
		a.send(t, text)
		if got := a.read(t, "GET"); got.status != 0 && got.status < 400 {
			t.Errorf("%q: status %d", text, got.status)
		}
	}
	w.silent(t)
	w.none(t)
}

func oldTLS(t *testing.T, w *world) {
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		_, err := w.tls(t, "api.ok.test:443", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, version })
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("the client's handshake: %v", err)
		}
	}
	badUpstream(t, w, &tls.Config{Certificates: []tls.Certificate{w.pki.leaf}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10})
}

func bidirectional(t *testing.T, w *world) {
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Trailer", "Grpc-Status")
		rw.Header().Set("X-Proto", r.Proto)
		buf := make([]byte, 64)
		for {
			n, err := r.Body.Read(buf)
			_, _ = rw.Write(buf[:n])
			_ = http.NewResponseController(rw).Flush()
			if err != nil {
				break
			}
		}
		rw.Header().Set("Grpc-Status", "0")
	})
	body, in := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.ok.test/svc/Method", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	go func() { _, _ = in.Write([]byte("first")) }()
	res, err := w.client(t, w.t1, w.tokenA, true).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.ProtoMajor != 2 || res.Header.Get("X-Proto") != "HTTP/2.0" {
		t.Errorf("%s to the sidecar, %s from it", res.Proto, res.Header.Get("X-Proto"))
	}
	for _, message := range []string{"first", "second"} { // each comes back before the next one is sent
		got := make([]byte, len(message))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != message {
			t.Fatalf("got %q, %v", got, err)
		}
		if message == "first" {
			_, _ = in.Write([]byte("second"))
		}
	}
	_ = in.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("trailers: %v", res.Trailer)
	}
}

func ownCA(t *testing.T, w *world) {
	other := w.lab.world(t)
	one, err := os.ReadFile(w.interceptCAFile)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(other.interceptCAFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(one, two) || bytes.Contains(one, []byte("PRIVATE")) {
		t.Error("the two sidecars have the same CA, or gave its key away")
	}
	binary, err := os.ReadFile(os.Getenv(insideEnv))
	if err != nil {
		t.Fatal(err)
	}
	for _, pub := range publicKeysOf(binary) {
		if pub.Equal(certificate(t, one).PublicKey) || pub.Equal(certificate(t, two).PublicKey) {
			t.Error("the binary holds the key of the CA")
		}
	}
	w.files(t, func(s *settings) { s.intercept = "{caCertFile: upstream-ca.pem}" }).refusedAtLoad(t, "caKeyFile")
}

// publicKeysOf returns the public halves of the private keys that stand in PEM in a file.
func publicKeysOf(file []byte) []interface{ Equal(crypto.PublicKey) bool } {
	var out []interface{ Equal(crypto.PublicKey) bool }
	for _, text := range regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s[A-Za-z0-9+/=\s]+-----END [A-Z ]*PRIVATE KEY-----`).FindAll(file, -1) {
		block, _ := pem.Decode(append(text, '\n'))
		if block == nil {
			continue
		}
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			out = append(out, &key.PublicKey)
		} else if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			out = append(out, &key.PublicKey)
		} else if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			out = append(out, key.(crypto.Signer).Public().(interface{ Equal(crypto.PublicKey) bool }))
		}
	}
	return out
}

func certificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func brokenCAFiles(t *testing.T, w *world) {
	for _, file := range []string{"absent.pem", "secret-a"} {
		w.files(t, func(s *settings) {
			s.intercept = "{caCertFile: " + file + ", caKeyFile: " + file + "}"
		}).refusedAtLoad(t, file)
	}
	garbage := w.files(t)
	garbage.write(t, "upstream-ca.pem", "-----BEGIN CERTIFICATE-----\ngarbage\n-----END CERTIFICATE-----\n")
	garbage.refusedAtLoad(t, "upstream-ca.pem")
	if err := os.Remove(garbage.dir + "/upstream-ca.pem"); err != nil {
		t.Fatal(err)
	}
	garbage.refusedAtLoad(t, "upstream-ca.pem")
}

func fronting(t *testing.T, w *world) {
	ruled := w.lab.world(t, manifestLines("  rules:\n    - {host: \"*.wild.test\", ports: [443], methods: [GET], paths: [\"/ok/*\"]}\n"))
	ask := func(host, path string) answer {
		a := ruled.inside(t, "a.wild.test:443")
		a.send(t, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		return a.read(t, "GET")
	}
	ask("a.wild.test", "/ok/1").is(t, "what the rules allow", http.StatusOK)
	ask("a.wild.test", "/other").is(t, "what they do not", http.StatusForbidden)
	ask("b.wild.test", "/ok/1").is(t, "another name below the wildcard", http.StatusMisdirectedRequest)
	ask("b.wild.test", "/other").is(t, "another name and path", http.StatusMisdirectedRequest)
	if _, err := ruled.tls(t, "a.wild.test:443", func(c *tls.Config) { c.ServerName, c.InsecureSkipVerify = "b.wild.test", true }); err == nil {
		t.Error("a hello for another name was accepted")
	}
	if n := len(w.up.arrivals()); n != 1 {
		t.Errorf("%d requests reached upstreams", n)
	}
}

func encryptedHello(t *testing.T, w *world) {
	_, err := w.tls(t, "api.ok.test:443", func(c *tls.Config) {
		c.ServerName, c.EncryptedClientHelloConfigList = "evil.test", echConfigList(t, "api.ok.test")
	})
	if !errors.As(err, new(*tls.ECHRejectionError)) {
		t.Errorf("outer name right: %v, want the rejection of the encrypted hello", err)
	}
	_, err = w.tls(t, "api.ok.test:443", func(c *tls.Config) {
		c.ServerName, c.EncryptedClientHelloConfigList = "api.ok.test", echConfigList(t, "evil.test")
	})
	if err == nil || errors.As(err, new(*tls.ECHRejectionError)) {
		t.Errorf("outer name wrong: %v, want a refused handshake", err)
	}
	w.silent(t)
	w.unasked(t)
}
