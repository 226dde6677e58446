//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// upstreamHello is where the upstream listens, "127.0.0.1:port" each, and the certificate (PEM) that it is its own CA of.
type upstreamHello struct{ Plain, TLS, H2, CA string }

const (
	bodyBytes    = 256 // of the answer to GET /
	upstreamName = "upstream.bench.example"
)

// upstreamMain serves GET / with 256 bytes, GET /N with N bytes and POST /call with JSON: plain, over TLS with HTTP/1.1 only, and over TLS with HTTP/2. GET
// /events is a stream of events that ends with the client.
func upstreamMain([]string) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	hello := upstreamHello{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))}
	fail := make(chan error, 3)
	for _, way := range []struct {
		addr *string
		alpn []string // nil: plain
	}{{&hello.Plain, nil}, {&hello.TLS, []string{alpnH1}}, {&hello.H2, []string{alpnH2, alpnH1}}} {
		addr, ln, err := listen()
		if err != nil {
			return err
		}
		*way.addr = addr
		srv := &http.Server{Handler: http.HandlerFunc(serveUpstream), ErrorLog: log.New(io.Discard, "", 0)}
		if way.alpn != nil {
			srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: way.alpn}
			go func() { fail <- srv.ServeTLS(ln, "", "") }()
		} else {
			go func() { fail <- srv.Serve(ln) }()
		}
	}
	if err := sayHello(hello); err != nil {
		return err
	}
	return <-fail
}

var filler = make([]byte, 256<<10)

func serveUpstream(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/events":
		serveEvents(w, r)
		return
	case callPath:
		serveCall(w, r)
		return
	}
	n := int64(bodyBytes)
	if r.URL.Path != "/" {
		var err error
		if n, err = strconv.ParseInt(r.URL.Path[1:], 10, 64); err != nil || n < 0 {
			http.NotFound(w, r)
			return
		}
	}
	w.Header()["Date"] = nil
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	for n > 0 {
		part := filler[:min(n, int64(len(filler)))]
		if _, err := w.Write(part); err != nil {
			return
		}
		n -= int64(len(part))
	}
}

// serveEvents sends an event now and every 100 ms, or as often as the query says.
func serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	every, err := time.ParseDuration(r.URL.Query().Get("every"))
	if err != nil || every <= 0 {
		every = 100 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, "data: tick\n\n"); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// selfSigned makes a certificate for 127.0.0.1 that is its own CA. The load generator does not verify it, since it measures; the
// proxies that terminate TLS do.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "bench"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{upstreamName},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true,
		KeyUsage:     x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// writePair writes a certificate like the upstream's, and its key, which only ever guards this run.
func writePair(certFile, keyFile string) error {
	pair, err := selfSigned()
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o644),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o644))
}
