package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/identity"
)

// identity checks whom the sidecar believes.
func (c *sidecar) identity() Identity {
	raw := &c.raw.Identity.V
	out := Identity{Required: raw.Required.V, WorkloadTokenFile: c.secretFile(raw.WorkloadTokenFile)}
	urls := map[string]mark{}
	var introspects mark
	for _, f := range raw.Issuers.V {
		if f.V.Issuer.at.line == 0 {
			out.Issuers = append(out.Issuers, identity.Issuer{}) // not a mapping, which was reported
			continue
		}
		u := f.V.Issuer
		if first, twice := urls[u.V]; twice && u.ok {
			c.errorf(u.at, "found issuer %s a second time, expected it once; the first is at %d:%d", quote(u.V), first.line, first.col)
		} else if u.ok {
			urls[u.V] = u.at
		}
		if in := f.V.Introspection; in.present && introspects.line != 0 {
			c.errorf(in.at, "found introspection a second time, expected it at one issuer, since nothing tells whose an opaque token is; the first is at %d:%d", introspects.line, introspects.col)
		} else if in.present {
			introspects = in.at
		}
		out.Issuers = append(out.Issuers, c.usableIssuer(f))
	}
	switch {
	case raw.Required.ok && !raw.Required.V:
		c.warnf(raw.Required.at, "identity.required is false: calls without a verified caller are let in")
	case raw.Required.V && len(raw.Issuers.V) == 0 && (raw.Issuers.ok || !raw.Issuers.present):
		c.errorf(raw.Issuers.at, "found no issuer, expected at least one in identity.issuers, or identity.required: false")
	}
	out.Digest = c.digest(out.Issuers, raw.Issuers.V)
	return out
}

// usableIssuer is issuer, with a mistake for what no verifier would take.
func (c *sidecar) usableIssuer(f field[rawIssuer]) identity.Issuer {
	before := len(c.mistakes)
	is := c.issuer(&f.V)
	if f.ok && len(c.mistakes) == before {
		if _, err := identity.New([]identity.Issuer{is}); err != nil {
			c.errorf(f.at, "found an issuer that cannot be used, expected another: %v", err)
		}
	}
	return is
}

// introspection checks how an issuer is asked about its opaque tokens; nil after a mistake.
func (c *sidecar) introspection(f field[rawIntrospection]) *identity.Introspection {
	raw := &f.V
	before := len(c.mistakes)
	c.endpoint(raw.URL, true)
	auth := c.clientAuth(raw.ClientAuth)
	if m := raw.ClientAuth.V.Method; m.V == "none" || m.V == "tls_client_auth" {
		c.errorf(m.at, "found method %s, expected client_secret_basic, client_secret_post, private_key_jwt or workload_token", m.V)
	}
	out := &identity.Introspection{URL: raw.URL.V, Timeout: raw.Timeout.V}
	if _, pool := c.roots(raw.CAFile); pool != nil {
		out.Client = keyClient(pool)
	}
	if !f.ok || len(c.mistakes) > before {
		return nil
	}
	proof, err := broker.NewClientProof(auth, raw.URL.V)
	if err != nil {
		c.errorf(raw.ClientAuth.at, "found a clientAuth that cannot be used, expected another: %v", err)
		return nil
	}
	out.Authenticate = proof
	return out
}

// digest sums up issuers and the roots under which their keys are fetched.
func (c *sidecar) digest(issuers []identity.Issuer, raw []field[rawIssuer]) string {
	h := sha256.New()
	for i, is := range issuers {
		is.Client, is.Introspection = nil, nil // pointers, which differ each time
		in := &raw[i].V.Introspection.V
		_, _ = fmt.Fprintf(h, "%+v\n%q %s %+v\n", is, in.URL.V, in.Timeout.V, authText(&in.ClientAuth.V))
		for _, ca := range []field[string]{raw[i].V.CAFile, in.CAFile} {
			if ca.ok && ca.V != "" {
				_, _ = h.Write(c.read[c.path(ca.V)])
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// authText is all that a clientAuth says, but for what its files hold, which are read again when they change.
func authText(raw *rawClientAuth) [8]string {
	return [8]string{string(raw.Method.V), raw.ClientID.V, raw.SecretFile.V, raw.KeyFile.V, raw.CertFile.V, raw.TokenFile.V, raw.KeyID.V, raw.Audience.V}
}

func (c *sidecar) issuer(raw *rawIssuer) identity.Issuer {
	c.endpoint(raw.Issuer, false)
	c.endpoint(raw.JWKSURL, true)
	is := identity.Issuer{
		URL: raw.Issuer.V, JWKSURL: raw.JWKSURL.V, Audiences: plain(raw.Audiences.V), AuthorizedParties: plain(raw.AuthorizedParties.V),
		Leeway: raw.Leeway.V, MaxLifetime: raw.MaxLifetime.V, TokenFile: c.secretFile(raw.TokenFile), Replay: raw.Replay.V.mode(),
	}
	for _, m := range valid(raw.Match.V) {
		is.Match = append(is.Match, identity.Match{Claim: m.Claim.V, Values: plain(m.Values.V)})
	}
	c.shapeOfTokens(raw, &is)
	if raw.Introspection.present {
		is.Introspection = c.introspection(raw.Introspection)
	}
	if _, pool := c.roots(raw.CAFile); pool != nil {
		is.Client = keyClient(pool)
	}
	return is
}

// endpoint checks a URL to which secrets or trust are given: https, or http on a literal loopback address, where no
// name resolution and no network can redirect it.
func (l *loader) endpoint(f field[string], query bool) {
	if !f.ok || f.V == "" {
		return
	}
	u, err := url.Parse(f.V)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		l.errorf(f.at, "found string %s, expected a URL such as https://idp.example.com", quote(f.V))
		return
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	switch {
	case u.User != nil:
		l.errorf(f.at, "found a URL with user info, expected one without")
	case u.Scheme == "http" && !addr.IsLoopback():
		l.errorf(f.at, "found URL %s, expected https (http is for loopback addresses such as 127.0.0.1)", quote(f.V))
	case u.Fragment != "" || u.RawFragment != "" || !query && (u.RawQuery != "" || u.ForceQuery):
		l.errorf(f.at, "found URL %s, expected one without query and fragment", quote(f.V))
	}
}

// roots reads a PEM bundle of certificates.
func (l *loader) roots(f field[string]) (abs string, pool *x509.CertPool) {
	if !f.ok || f.V == "" {
		return "", nil
	}
	if abs = l.resolve(f); abs == "" {
		return "", nil
	}
	b, err := l.open(abs)
	if err != nil {
		l.errorf(f.at, "found %s, expected a readable file: %v", quote(f.V), err)
		return abs, nil
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		l.errorf(f.at, "found %s without a certificate in it, expected a PEM file of certificates", quote(f.V))
		return abs, nil
	}
	return abs, pool
}

// keyClient fetches an issuer's keys under roots of its own: no proxy, no redirect, no wait without end.
func keyClient(pool *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       clientTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            (&net.Dialer{Timeout: clientTimeout}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    clientTimeout,
			ResponseHeaderTimeout:  clientTimeout,
			IdleConnTimeout:        clientTimeout,
			MaxIdleConnsPerHost:    1,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
	}
}
