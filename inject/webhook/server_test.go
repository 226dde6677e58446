package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// selfSigned returns a certificate for localhost with this serial.
func selfSigned(t testing.TB, serial int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// running is a server on real sockets.
type running struct {
	server       *Server
	hooks, admin string
	cert         atomic.Pointer[tls.Certificate]
	broken       atomic.Bool
	stop         func() error // ends the server and waits for it
	cancel       func()       // only tells it to end
}

func run(t testing.TB, h *Handler, delay time.Duration) *running {
	t.Helper()
	r := &running{}
	r.cert.Store(selfSigned(t, 1))
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	hooks, admin := listen(), listen()
	r.hooks, r.admin = "https://"+hooks.Addr().String(), "http://"+admin.Addr().String()
	r.server = &Server{
		Handler: h, ShutdownDelay: delay, Log: slog.New(slog.DiscardHandler),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.cert.Load(), nil },
		Checks: map[string]func() error{"namespaces": func() error {
			if r.broken.Load() {
				return errors.New("not read yet")
			}
			return nil
		}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.server.Run(ctx, hooks, admin) }()
	r.cancel = cancel
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// client trusts what the server shows, and opens connections of its own.
func (r *running) client(version uint16) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(r.cert.Load().Leaf)
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: version},
	}}
}

func (r *running) admit(c *http.Client) (*http.Response, *admissionv1.AdmissionResponse, error) {
	res, err := c.Post(r.hooks+"/mutate?timeout=5s", "application/json", bytes.NewReader(review(podText)))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var out admissionv1.AdmissionReview
	err = json.NewDecoder(res.Body).Decode(&out)
	return res, out.Response, err
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// TestServesTLS: h2 over TLS 1.3 and 1.2, nothing older, and a leaf that changes between two handshakes.
func TestServesTLS(t *testing.T) {
	r := run(t, newLab(t).Handler, 0)
	for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		res, answer, err := r.admit(r.client(version))
		if err != nil || !answer.Allowed || res.ProtoMajor != 2 || res.TLS.Version != version {
			t.Fatalf("%x: %v %+v", version, err, res)
		}
	}
	if _, _, err := r.admit(r.client(tls.VersionTLS11)); err == nil {
		t.Error("TLS 1.1 is served")
	}
	r.cert.Store(selfSigned(t, 2))
	res, _, err := r.admit(r.client(tls.VersionTLS13))
	if err != nil || res.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Errorf("the new leaf is not shown: %v", err)
	}
}

// TestStopsWithoutAFailure: readiness ends first; calls that come in while the cluster still sends them are served, and those that run at
// the end are drained.
func TestStopsWithoutAFailure(t *testing.T) {
	r := run(t, newLab(t).Handler, 300*time.Millisecond)
	if code, body := get(t, r.admin+"/readyz"); code != http.StatusOK {
		t.Fatalf("readyz: %d %s", code, body)
	}
	r.broken.Store(true)
	if code, body := get(t, r.admin+"/readyz"); code != http.StatusServiceUnavailable || !bytes.Contains([]byte(body), []byte("not read yet")) {
		t.Errorf("readyz with a failed check: %d %s", code, body)
	}
	r.broken.Store(false)
	r.cancel()
	for deadline := time.Now().Add(10 * time.Second); ; {
		code, _ := get(t, r.admin+"/readyz")
		if code == http.StatusServiceUnavailable {
			break
		}
		if code == 0 || time.Now().After(deadline) {
			t.Fatal("readiness did not end before the listeners")
		}
	}
	if code, _ := get(t, r.admin+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz while stopping: %d", code)
	}
	if _, answer, err := r.admit(r.client(tls.VersionTLS13)); err != nil || !answer.Allowed {
		t.Errorf("a new connection while stopping: %v", err)
	}
	if err := r.stop(); !errors.Is(err, nil) {
		t.Errorf("stop: %v", err)
	}
	if _, _, err := r.admit(r.client(tls.VersionTLS13)); err == nil {
		t.Error("it still serves")
	}
}

// BenchmarkMutate is the handler without the network.
func BenchmarkMutate(b *testing.B) {
	l, body := newLab(b), review(podText)
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := l.post("/mutate", body); !r.Allowed {
			b.Fatal("denied")
		}
	}
}

// BenchmarkOverTLS is what the API server sees: kept h2 connections, four calls at once. It reports the median and the 99th percentile.
func BenchmarkOverTLS(b *testing.B) {
	r := run(b, newLab(b).Handler, 0)
	const atOnce = 4
	c := r.client(tls.VersionTLS13)
	if _, _, err := r.admit(c); err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range atOnce {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				begun := time.Now()
				if _, answer, err := r.admit(c); err != nil || !answer.Allowed {
					b.Errorf("call %d: %v", i, err)
					return
				}
				took[i] = time.Since(begun)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
