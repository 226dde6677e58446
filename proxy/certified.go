package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"sync"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
)

// certified are the pools of connections that were made with client certificates, one for each binding. An upstream takes whatever
// comes over such a connection for the binding's, so that no other calls may: neither those of other bindings, nor those that an older
// certificate of the same binding was meant for.
type certified struct {
	tool   string
	dialer dialer
	roots  *x509.CertPool
	limits config.Limits

	mu      sync.Mutex
	pools   map[string]certifiedPool // by binding
	retired bool
}

type certifiedPool struct {
	certificate string // its ID
	*upstream
}

// pool returns the pools of a binding for connections made with cert. Those made with another are closed as soon as they idle.
func (s *certified) pool(binding string, cert *broker.ClientCertificate) *upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.pools[binding]
	if ok && old.certificate == cert.ID {
		return old.upstream
	}
	u := newUpstream(s.tool, s.dialer, s.roots, s.limits)
	u.ws.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.TLS, nil }
	if ok {
		go old.retire()
	}
	if s.retired { // the call goes on under gates that were replaced; nothing is kept for another
		u.retire()
		return u
	}
	if s.pools == nil {
		s.pools = map[string]certifiedPool{}
	}
	s.pools[binding] = certifiedPool{cert.ID, u}
	return u
}

// drop closes the connections of the bindings for which which is true as soon as they idle.
func (s *certified) drop(which func(binding string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for binding, p := range s.pools {
		if which(binding) {
			delete(s.pools, binding)
			go p.retire()
		}
	}
}

func (s *certified) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.drop(func(string) bool { return true })
}

// dropConnections closes connections made with certificates of the bindings that match covers, whoever calls.
func (g *Gates) dropConnections(match func(broker.Key) bool) {
	drop := func(tool string, u *upstream) {
		key := broker.Key{Tool: tool}
		if t := g.snapshot.Tools[tool]; t != nil {
			key.Version = t.Version
		}
		u.certified.drop(func(binding string) bool {
			key.Binding = binding
			return match(key)
		})
	}
	for tool, u := range g.upstreams {
		drop(tool, u)
	}
	g.way.each(drop)
}
