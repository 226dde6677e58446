//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"
	"github.com/stripe/smokescreen/pkg/smokescreen"
	acl "github.com/stripe/smokescreen/pkg/smokescreen/acl/v1"
)

// peerHello is the first line of a peer that this program hosts.
type peerHello struct{ Addr, Metrics string }

func goproxyMain([]string) error {
	return serveGoproxy(goproxy.NewProxyHttpServer(), goproxy.OkConnect)
}

// goproxyMITM takes the file of the upstream's CA, and how many idle connections to keep to a host.
func goproxyMITM(caFile string, idle int) error {
	ca, err := selfSigned()
	if err != nil {
		return err
	}
	roots, err := rootsOf(caFile)
	if err != nil {
		return err
	}
	p := goproxy.NewProxyHttpServer()
	p.AllowHTTP2 = true
	p.CertStore = &certStore{certs: map[string]*tls.Certificate{}}
	p.Tr = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: idle}
	return serveGoproxy(p, &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)})
}

func serveGoproxy(p *goproxy.ProxyHttpServer, action *goproxy.ConnectAction) error {
	p.Logger = log.New(io.Discard, "", 0)
	p.OnRequest().HandleConnectFunc(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return action, host })
	ln, err := openPeer()
	if err != nil {
		return err
	}
	return http.Serve(ln, p)
}

// certStore keeps goproxy's leaves.
type certStore struct {
	mu    sync.Mutex
	certs map[string]*tls.Certificate
}

// Fetch is goproxy.CertStorage's.
func (s *certStore) Fetch(host string, sign func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.certs[host]; c != nil {
		return c, nil
	}
	c, err := sign()
	if err == nil {
		s.certs[host] = c
	}
	return c, err
}

func rootsOf(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}

// smokescreenServe runs smokescreen with an ACL that lets everybody through, so that it takes its decision as in use.
// It refuses loopback targets however it is configured, save for an allowed range.
func smokescreenServe(logging bool) error {
	conf := smokescreen.NewConfig()
	conf.Log.Out = io.Discard
	conf.Log.Formatter = &logrus.JSONFormatter{}
	if !logging {
		conf.Log.Level = logrus.ErrorLevel
	}
	log.SetOutput(io.Discard)
	conf.AllowMissingRole = true
	conf.UnsafeAllowPrivateRanges = true
	if err := conf.SetAllowRanges([]string{"127.0.0.1/32"}); err != nil {
		return err
	}
	conf.EgressACL = &acl.ACL{Rules: map[string]acl.Rule{}, DefaultRule: &acl.Rule{Project: "bench", Policy: acl.Open}, Logger: conf.Log}
	ln, err := openPeer()
	if err != nil {
		return err
	}
	conf.Listener = ln
	conf.Ip, conf.Port = "127.0.0.1", uint16(ln.Addr().(*net.TCPAddr).Port)
	smokescreen.StartWithConfig(conf, nil)
	return nil
}

// openPeer opens a peer's port and its metrics page and announces both.
func openPeer() (net.Listener, error) {
	addr, ln, err := listen()
	if err != nil {
		return nil, err
	}
	metrics, err := serveGoStats()
	if err != nil {
		return nil, err
	}
	return ln, sayHello(peerHello{Addr: addr, Metrics: metrics})
}
