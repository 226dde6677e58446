package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	defaultLeeway     = 30 * time.Second
	maxLeeway         = 60 * time.Second
	defaultSoftTTL    = time.Hour
	defaultHardTTL    = 24 * time.Hour
	defaultMinRefresh = 30 * time.Second
)

// asymmetric lists what New accepts. A symmetric algorithm would turn a published key into a signing key.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// issuer is an Issuer with its defaults filled in and checked, and its keys.
type issuer struct {
	url         string
	audiences   []string
	algorithms  []string
	types       []string
	parties     []string
	leeway      time.Duration
	maxLifetime time.Duration
	claims      ClaimMap
	require     []string
	match       []Match
	replay      ReplayMode
	guarded     []string // claim names of which no case variant may appear
	keys        *keySet
	opaque      *introspector // nil: none
}

func newIssuer(c Issuer, now func() time.Time) (*issuer, error) {
	if err := checkIssuer(c); err != nil {
		return nil, err
	}
	i := &issuer{
		url: c.URL, audiences: slices.Clone(c.Audiences), parties: slices.Clone(c.AuthorizedParties),
		leeway: cmp.Or(c.Leeway, defaultLeeway), maxLifetime: c.MaxLifetime, claims: withDefaults(c.Claims),
		require: slices.Clone(c.Require), match: slices.Clone(c.Match), replay: c.Replay,
		algorithms: slices.Clone(c.Algorithms), types: []string{"jwt", "at+jwt", ""},
	}
	if len(i.algorithms) == 0 {
		i.algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	if len(c.Types) > 0 {
		i.types = nil
		for _, t := range c.Types {
			i.types = append(i.types, normalType(t))
		}
	}
	i.guarded = guardedNames(i.claims, i.require, i.match)
	i.keys = newKeySet(c, now)
	if c.Introspection != nil {
		var err error
		if i.opaque, err = newIntrospector(i, c.Introspection, now); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func checkIssuer(c Issuer) error {
	if len(c.Audiences) == 0 || slices.Contains(c.Audiences, "") {
		return errors.New("needs at least one audience, and no empty one")
	}
	if slices.Contains(c.AuthorizedParties, "") {
		return errors.New("an authorized party is empty")
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			return fmt.Errorf("algorithm %q is not one of %s", alg, strings.Join(asymmetric, ", "))
		}
	}
	if slices.Contains(c.Require, "") {
		return errors.New("a required claim has no name")
	}
	if slices.ContainsFunc(c.Match, func(m Match) bool { return m.Claim == "" || len(m.Values) == 0 || slices.Contains(m.Values, "") }) {
		return errors.New("a claim to match needs a name and values, and no empty one")
	}
	switch c.Replay {
	case ReplayOff, ReplayOnce, ReplayBind:
	default:
		return fmt.Errorf("replay %q is not one of %s, %s, or empty", c.Replay, ReplayOnce, ReplayBind)
	}
	if c.Replay != ReplayOff && c.MaxLifetime <= 0 {
		return errors.New("replay needs a longest lifetime: a token that never ends would have to be remembered for ever")
	}
	if c.Leeway < 0 || c.Leeway > maxLeeway {
		return fmt.Errorf("leeway %s is not within 0 and %s", c.Leeway, maxLeeway)
	}
	if min(c.MaxLifetime, c.SoftTTL, c.HardTTL, c.MinRefresh) < 0 {
		return errors.New("a duration is negative")
	}
	if c.SoftTTL > cmp.Or(c.HardTTL, defaultHardTTL) {
		return errors.New("the soft TTL of keys is longer than the hard one")
	}
	if c.JWKSURL != "" {
		if c.URL == "" {
			return errors.New("the issuer is empty")
		}
		return checkKeyURL(c.JWKSURL, true)
	}
	return checkKeyURL(c.URL, true)
}

// checkKeyURL accepts an absolute https URL and, where loopback is set, plain http to this host. Who can change what
// such a URL answers decides which tokens are good.
func checkKeyURL(raw string, loopback bool) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Host == "", u.Opaque != "", u.User != nil, u.Fragment != "":
		return errors.New("not an absolute URL without user and fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("not an https URL (plain http is for loopback only)")
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func withDefaults(m ClaimMap) ClaimMap {
	d := DefaultClaims()
	pick := func(names, fallback []string) []string {
		if names == nil {
			return fallback
		}
		return slices.Clone(names)
	}
	return ClaimMap{
		Subject: pick(m.Subject, d.Subject), Tenant: pick(m.Tenant, d.Tenant), Agent: pick(m.Agent, d.Agent), Task: pick(m.Task, d.Task),
		Run: pick(m.Run, d.Run), Scopes: pick(m.Scopes, d.Scopes), Roles: pick(m.Roles, d.Roles), TokenID: pick(m.TokenID, d.TokenID),
	}
}

// normalType gives the comparable form of a typ (RFC 7515, section 4.1.9): lower case, without "application/".
func normalType(t string) string { return strings.TrimPrefix(strings.ToLower(t), "application/") }

// keyClient returns the client for keys: no redirects, no cookies, no proxy of the environment, always a timeout. A
// redirect would let whoever answers for discovery choose another place for the keys.
func keyClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	}
	c.Jar = nil
	c.Timeout = cmp.Or(c.Timeout, fetchTimeout)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	switch t := c.Transport.(type) {
	case nil:
		c.Transport = &http.Transport{
			TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: fetchTimeout, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		}
	case *http.Transport:
		own := t.Clone()
		own.Proxy = nil
		own.IdleConnTimeout = cmp.Or(own.IdleConnTimeout, 30*time.Second) // or each reload of the configuration leaves connections behind
		c.Transport = own
	}
	return &c
}
