//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"time"
)

// upstreamHello is where the upstream listens: "127.0.0.1:port" each.
type upstreamHello struct{ Plain, TLS string }

const bodyBytes = 256 // of the answer to GET /

// upstreamMain serves GET / with 256 bytes and GET /N with N bytes, plain and over TLS, HTTP/1.1 only.
func upstreamMain() error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	plain, ln, err := listen()
	if err != nil {
		return err
	}
	secure, tlsLn, err := listen()
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:   http.HandlerFunc(serveBytes),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
	}
	fail := make(chan error, 2)
	go func() { fail <- srv.Serve(ln) }()
	go func() { fail <- srv.ServeTLS(tlsLn, "", "") }()
	if err := sayHello(upstreamHello{Plain: plain, TLS: secure}); err != nil {
		return err
	}
	return <-fail
}

var filler = make([]byte, 256<<10)

func serveBytes(w http.ResponseWriter, r *http.Request) {
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

// selfSigned makes a certificate for 127.0.0.1. Nobody verifies it: the load generator measures, it does not trust.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
