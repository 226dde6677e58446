package proxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
)

// Gates is what one configuration makes of the gates: immutable, and replaced whole on reload, so that a call sees one
// configuration from its beginning to its end.
type Gates struct {
	snapshot   *config.Snapshot
	verifier   *identity.Verifier
	broker     *broker.Broker
	addresses  *egress.Addresses
	upstreams  map[string]*upstream           // by tool
	tokenFiles map[string]*identity.TokenFile // by listener

	way       *way                // the egress gateway by which upstreams are reached; nil: none
	pairs     map[string]*keyPair // of listeners that are gateways
	workloads *identity.Verifier  // of the tokens of those who come to them; nil: none is accepted
	// certificates are of those who come by one. Each reload makes another, so that none is believed by roots of before.
	certificates *identity.Certificates
}

// NewGates prepares the gates of a snapshot. It contacts nobody. own are the addresses that the sidecar itself listens
// on. before are the gates that these will replace, nil at the start: the issuers' keys are carried over, so that a reload
// during an issuer's outage locks nobody out. An error leaves nothing behind.
func NewGates(s *config.Snapshot, own []netip.AddrPort, observe func(broker.Event), before *Gates) (*Gates, error) {
	verifier, err := verifierFor(s, before)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	b, err := broker.New(s.Bindings, broker.Options{Generation: s.Revision, Observe: observe})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	workloads, err := workloadsFor(s, before)
	if err != nil {
		return nil, fmt.Errorf("gateway.tokens: %w", err)
	}
	roots, err := upstreamRoots(s.Egress.UpstreamCAFile, s.Intercept.ExtraCAs)
	if err != nil {
		return nil, err
	}
	g := &Gates{
		snapshot: s, verifier: verifier, broker: b,
		addresses:    &egress.Addresses{Exempt: s.Egress.Exempt, Cluster: s.Egress.Cluster, Own: own},
		upstreams:    map[string]*upstream{},
		tokenFiles:   map[string]*identity.TokenFile{},
		pairs:        map[string]*keyPair{},
		workloads:    workloads,
		certificates: identity.NewCertificates(s.Gateway.ClientCAs),
	}
	direct := &egress.Dialer{Addresses: g.addresses, Resolver: egress.NewResolver(s.Egress.Resolver), Timeout: s.Limits.DialTimeout}
	if s.Egress.Gateway.Host != "" {
		if g.way, err = newWay(&s.Egress.Gateway, direct, roots, s.Limits); err != nil {
			return nil, err
		}
	} else {
		dialer, err := newDialer(&s.Egress, direct)
		if err != nil {
			return nil, err
		}
		for name := range s.Tools {
			g.upstreams[name] = newUpstream(name, dialer, roots, s.Limits)
		}
	}
	for _, l := range s.Listeners {
		if l.Kind == config.Gateway {
			g.pairs[l.Name] = &keyPair{certFile: l.CertFile, keyFile: l.KeyFile}
			if _, err := g.pairs[l.Name].get(); err != nil {
				return nil, fmt.Errorf("listener %s: %w", l.Name, err)
			}
		}
		if l.TokenFile != "" {
			g.tokenFiles[l.Name] = &identity.TokenFile{Path: l.TokenFile}
		}
	}
	return g, nil
}

func verifierFor(s *config.Snapshot, before *Gates) (*identity.Verifier, error) {
	if before != nil && before.snapshot.Identity.Digest == s.Identity.Digest {
		return before.verifier, nil
	}
	return identity.New(s.Identity.Issuers)
}

// upstreamRoots is whom intercepted upstreams may be certified by: the system's roots, the extra CAs, by which a tool verifies what is
// relayed to it blind as well, and those of the file.
func upstreamRoots(file string, extra [][]byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil { // an image without any roots: only the configured ones are trusted
		roots = x509.NewCertPool()
	}
	for _, der := range extra {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("intercept.extraCAs: %w", err)
		}
		roots.AddCert(cert)
	}
	if file == "" {
		return roots, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("egress.upstreamCAFile: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("egress.upstreamCAFile: %s holds no certificate", file)
	}
	return roots, nil
}

// Snapshot returns the configuration of these gates.
func (g *Gates) Snapshot() *config.Snapshot { return g.snapshot }

// Ready reports whether callers can be verified: every issuer's keys are at hand.
func (g *Gates) Ready(ctx context.Context) error {
	if g.workloads != nil {
		if err := g.workloads.Ready(ctx); err != nil {
			return err
		}
	}
	return g.verifier.Ready(ctx)
}

// drop removes cached credentials of the calls that a revocation covers.
func (g *Gates) drop(match func(broker.Key) bool) int { return g.broker.Drop(match) }

// listener returns the configuration of a listener. A name that has none serves no tool.
func (g *Gates) listener(name string) *config.Listener {
	for i := range g.snapshot.Listeners {
		if l := &g.snapshot.Listeners[i]; l.Name == name {
			return l
		}
	}
	return &config.Listener{Name: name}
}

// retire ends what idles; running calls keep what they hold.
func (g *Gates) retire() {
	for _, u := range g.upstreams {
		u.retire()
	}
	g.way.retire()
}
