package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
)

// enrolment are the flags of serve that say whose tokens are good for credentials of a sidecar.
type enrolment struct {
	issuer, audience, jwksURL, caFile, tokenFile string
	life                                         time.Duration // of the credentials; 0: an hour. No flag
}

func enrolmentFlags(cmd *cobra.Command, e *enrolment) {
	f := cmd.Flags()
	f.StringVar(&e.issuer, "sidecar-issuer", "", "the `URL` of the issuer whose tokens give a sidecar NATS credentials, such as a cluster's https://kubernetes.default.svc")
	f.StringVar(&e.audience, "sidecar-audience", "toolgate-killswitch", "the `audience` that these tokens must be for")
	f.StringVar(&e.jwksURL, "sidecar-jwks-url", "", "the `URL` of that issuer's key set; without it, discovery tells")
	f.StringVar(&e.caFile, "sidecar-issuer-ca-file", "", "a `file` with the CA certificates of that issuer; default the system's")
	f.StringVar(&e.tokenFile, "sidecar-issuer-token-file", "", "a `file` with a bearer token for fetching the keys, read again each time")
}

// check checks what can be checked without a file.
func (e *enrolment) check(cluster bool) error {
	switch {
	case e.issuer == "" && (e.jwksURL != "" || e.caFile != "" || e.tokenFile != ""):
		return errors.New("found flags of sidecars' tokens without --sidecar-issuer")
	case e.issuer != "" && cluster:
		return errors.New("found --sidecar-issuer with --nats, expected one of them: only the NATS server of its own takes credentials that it issues")
	case e.issuer != "" && e.audience == "":
		return errors.New("found an empty --sidecar-audience: a token for any other service would do")
	}
	return nil
}

// handler gives credentials to sidecars. Nil: without --sidecar-issuer.
func (e *enrolment) handler(dir string, service *central.Service, o central.Options) (http.Handler, error) {
	if e.issuer == "" {
		return nil, nil
	}
	issuer, err := natsd.OpenIssuer(dir)
	if err != nil {
		return nil, err
	}
	verify, err := e.verifier()
	if err != nil {
		return nil, fmt.Errorf("--sidecar-issuer: %w", err)
	}
	c := &api.Credentials{Verify: verify, Issue: issuer.Issue, Count: service.CountCredentials, Log: o.Log, Life: e.life}
	return c.Handler(), nil
}

func (e *enrolment) verifier() (func(context.Context, string) (string, error), error) {
	client, err := e.client()
	if err != nil {
		return nil, err
	}
	v, err := identity.New([]identity.Issuer{{
		URL: e.issuer, JWKSURL: e.jwksURL, Audiences: []string{e.audience}, Client: client,
		Claims: identity.ClaimMap{Tenant: []string{"kubernetes.io.namespace"}, Agent: []string{"kubernetes.io.pod.name"}},
	}})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string) (string, error) {
		caller, err := v.Verify(ctx, token)
		switch {
		case errors.Is(err, identity.ErrUnavailable):
			return "", api.ErrIssuerAway
		case err != nil:
			return "", err
		}
		return sidecarName(caller), nil
	}, nil
}

var (
	plainName     = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)   // a DNS label
	podName       = regexp.MustCompile(`^[a-z0-9.-]{1,253}$`) // a DNS subdomain
)

// sidecarName is the name that a sidecar speaks under: namespace/pod where the token has both (Kubernetes, bound service-account
// tokens), else its subject. It is a token of a NATS subject, and no two callers have the same: namespaces have neither "_" nor
// ".", pods have no "_", and no namespace begins with "_".
func sidecarName(c *identity.Caller) string {
	switch {
	case namespaceName.MatchString(c.Tenant) && podName.MatchString(c.Agent):
		return bus.Token(c.Tenant + "/" + c.Agent)
	case plainName.MatchString(c.Subject):
		return "_" + c.Subject
	}
	sum := sha256.Sum256([]byte(c.Subject))
	return "_h_" + hex.EncodeToString(sum[:16])
}

// client fetches keys: under roots of its own, without a proxy or a redirect, and with a token for one host alone.
func (e *enrolment) client() (*http.Client, error) {
	var pool *x509.CertPool
	if e.caFile != "" {
		b, err := os.ReadFile(filepath.Clean(e.caFile))
		if err != nil {
			return nil, err
		}
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s holds no PEM certificate", e.caFile)
		}
	}
	const limit = 10 * time.Second
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: limit}).DialContext, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: limit, ResponseHeaderTimeout: limit, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	client := &http.Client{Timeout: limit, Transport: transport}
	if e.tokenFile == "" {
		return client, nil
	}
	from := e.issuer
	if e.jwksURL != "" {
		from = e.jwksURL
	}
	u, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	client.Transport = &bearer{file: &identity.TokenFile{Path: e.tokenFile}, scheme: u.Scheme, host: u.Host, next: transport}
	return client, nil
}

// bearer adds a token to requests to one host. Discovery may name another host for the keys, which must not get it.
type bearer struct {
	file         *identity.TokenFile
	scheme, host string
	next         http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != b.host || r.URL.Scheme != b.scheme {
		return b.next.RoundTrip(r)
	}
	token, err := b.file.Token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}
