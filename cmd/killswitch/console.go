package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/console"
	"github.com/toolgate/toolgate/killswitch/central/login"
)

// people are the flags of serve that say who may come and how.
type people struct {
	url, issuer, clientID, secretFile string
	scopes, roleMap                   []string
	rolesClaim, nameClaim, audience   string
	life                              time.Duration

	roles  login.RoleMap
	public *url.URL
}

func peopleFlags(cmd *cobra.Command, p *people) {
	f := cmd.Flags()
	f.StringVar(&p.url, "url", "", "the `URL` where people reach the console; default: where it listens")
	f.StringVar(&p.issuer, "oidc-issuer", "", "the `URL` of the OpenID Connect issuer where people log in; without it, they log in with a token")
	f.StringVar(&p.clientID, "oidc-client-id", "", "the console's client `id` there")
	f.StringVar(&p.secretFile, "oidc-client-secret-file", "", "a `file` with its client secret; without it, it is a public client with PKCE alone")
	f.StringSliceVar(&p.scopes, "oidc-scopes", []string{"openid", "email"}, "the `scopes` to ask for, with commas between")
	f.StringVar(&p.rolesClaim, "oidc-roles-claim", "groups", "the `claim` of the ID token that --role-map reads; a JSON pointer when it begins with /")
	f.StringVar(&p.nameClaim, "oidc-name-claim", "email", "the `claim` whose value stands in the log; sub where it is missing, or is an e-mail address that is not verified")
	f.StringVar(&p.audience, "oidc-audience", "", "an `audience`: the API then takes the issuer's access tokens for it, too")
	f.StringArrayVar(&p.roleMap, "role-map", nil, "`VALUE=ROLE`, or VALUE=ROLE@TENANT,TENANT: what a value of the roles claim gives; may be repeated")
	f.DurationVar(&p.life, "session", login.Life, "how `long` somebody stays logged in")
}

// check checks what can be checked without a file.
func (p *people) check(tls bool) (err error) {
	if p.roles, err = login.ParseRoleMap(p.roleMap); err != nil {
		return fmt.Errorf("--role-map: %w", err)
	}
	switch {
	case p.issuer == "" && (p.clientID != "" || p.secretFile != "" || p.audience != "" || len(p.roleMap) > 0):
		return errors.New("found flags of a login without --oidc-issuer")
	case p.issuer != "" && (p.clientID == "" || len(p.roleMap) == 0):
		return errors.New("found --oidc-issuer without --oidc-client-id or --role-map, expected both")
	case p.life <= 0 || p.life > 24*time.Hour:
		return fmt.Errorf("found --session %s, expected up to 24h", p.life)
	}
	if p.url == "" {
		return nil
	}
	p.public, err = url.Parse(p.url)
	if err != nil || p.public.Host == "" || p.public.Scheme != "https" && (p.public.Scheme != "http" || tls) || strings.Trim(p.public.Path, "/") != "" ||
		p.public.RawQuery != "" {
		return fmt.Errorf("found --url %q, expected scheme and host, https with --tls-cert", p.url)
	}
	return nil
}

// handler is the console at "/" and the API beside it.
func (p *people) handler(service *central.Service, tokens api.Tokens, o central.Options, address string, tls bool) (http.Handler, error) {
	public := &url.URL{Scheme: "http", Host: address}
	if tls {
		public.Scheme = "https"
	}
	if p.public != nil {
		public = p.public
	}
	secure := public.Scheme == "https"
	sessions, err := login.NewSessions(o.Signer.Derive("console sessions v1"), secure, p.life, tokens, o.Now)
	if err != nil {
		return nil, err
	}
	pages := &console.Console{Service: service, Sessions: sessions, Secure: secure, Log: o.Log}
	bearer := &login.Bearer{Tokens: tokens}
	if p.issuer != "" {
		if pages.OIDC, err = p.oidc(sessions, public); err != nil {
			return nil, fmt.Errorf("--oidc-issuer: %w", err)
		}
		bearer.OIDC = pages.OIDC
	}
	mux := http.NewServeMux()
	machine := (&api.API{Service: service, Auth: bearer, Log: o.Log}).Handler()
	for _, path := range []string{"/v1/", "/metrics", "/healthz", "/readyz"} {
		mux.Handle(path, machine)
	}
	mux.Handle("/", pages.Handler())
	return mux, nil
}

func (p *people) oidc(sessions *login.Sessions, public *url.URL) (*login.OIDC, error) {
	var secret string
	if p.secretFile != "" {
		b, err := os.ReadFile(filepath.Clean(p.secretFile))
		if err != nil {
			return nil, err
		}
		if secret = strings.TrimSpace(string(b)); secret == "" {
			return nil, fmt.Errorf("%s is empty", p.secretFile)
		}
	}
	return login.NewOIDC(login.Settings{
		Issuer: p.issuer, ClientID: p.clientID, ClientSecret: secret, Redirect: public.Scheme + "://" + public.Host + console.Callback,
		Scopes: p.scopes, RolesClaim: p.rolesClaim, NameClaim: p.nameClaim, Roles: p.roles, Audience: p.audience,
	}, sessions)
}
