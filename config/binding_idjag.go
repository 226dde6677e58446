package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/broker"
)

type rawIDJAG struct {
	IdentityProvider field[rawIdentityProvider] `key:"identityProvider" is:"required" doc:"Where the caller's token is exchanged for the grant."`
	Issuer           field[string]              `key:"issuer" is:"required" doc:"Identifier of the resource's authorization server, which the grant is for."`
	TokenURL         field[string]              `key:"tokenURL" is:"required" doc:"That server's token endpoint, where the grant is redeemed. https, or http on a loopback address."`
	RevocationURL    field[string]              `key:"revocationURL" doc:"That server's revocation endpoint (RFC 7009). Missing: tokens end by themselves."`
	Resource         field[string]              `key:"resource" doc:"Resource to ask both for (RFC 8707), an absolute URI without fragment."`
	Audience         field[string]              `key:"audience" doc:"Audience that a JWT may hold in place of resource; not sent."`
	Scopes           field[[]field[scope]]      `key:"scopes" doc:"Scopes to ask both for. Missing or empty: the manifest's requiredScopes."`
	ClientAuth       field[rawClientAuth]       `key:"clientAuth" is:"required" doc:"How the sidecar authenticates to that server. The grant is for this clientID."`
	CAFile           field[string]              `key:"caFile" is:"blank" doc:"PEM file of the roots for tokenURL, in place of the system's."`
	Timeout          field[time.Duration]       `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt at either."`
	MaxTTL           field[time.Duration]       `key:"maxTTL" default:"15m" min:"1s" max:"24h" doc:"Longest time that a token is kept."`
}

type rawIdentityProvider struct {
	TokenURL         field[string]                `key:"tokenURL" is:"required" doc:"Token endpoint. https, or http on a loopback address."`
	ClientAuth       field[rawClientAuth]         `key:"clientAuth" is:"required" doc:"How the sidecar authenticates to it."`
	SubjectTokenType field[string]                `key:"subjectTokenType" default:"urn:ietf:params:oauth:token-type:id_token" doc:"Type of the caller's token."`
	ActorTokenFile   field[string]                `key:"actorTokenFile" doc:"File with the workload's token, sent as the actor. Missing: none is sent; a caller's token with may_act is refused then."`
	ActorTokenType   field[string]                `key:"actorTokenType" default:"urn:ietf:params:oauth:token-type:jwt" doc:"Type of the actor's token."`
	Parameters       field[[]field[rawParameter]] `key:"parameters" doc:"More parameters of the form, for identity providers that want them."`
	CAFile           field[string]                `key:"caFile" is:"blank" doc:"PEM file of the roots for tokenURL, in place of the system's."`
}

// idJAG checks both legs of an identity assertion grant.
func (c *sidecar) idJAG(f field[rawIDJAG]) *broker.IDJAG {
	raw, idp := &f.V, &f.V.IdentityProvider.V
	if raw.TokenURL.at.line == 0 || idp.TokenURL.at.line == 0 {
		return nil // not a mapping
	}
	c.endpoint(raw.TokenURL, true)
	c.endpoint(raw.RevocationURL, true)
	c.endpoint(idp.TokenURL, true)
	if u, err := url.Parse(raw.Issuer.V); raw.Issuer.ok && (err != nil || !u.IsAbs()) {
		c.errorf(raw.Issuer.at, "found string %s, expected the URL by which that server calls itself, such as https://auth.orders.example", quote(raw.Issuer.V))
	}
	if u, err := url.Parse(raw.Resource.V); raw.Resource.ok && (err != nil || !u.IsAbs() || strings.Contains(raw.Resource.V, "#")) {
		c.errorf(raw.Resource.at, "found string %s, expected an absolute URI without fragment", quote(raw.Resource.V))
	}
	for _, t := range []field[string]{idp.SubjectTokenType, idp.ActorTokenType} {
		if u, err := url.Parse(t.V); t.V != "" && (err != nil || !u.IsAbs()) {
			c.errorf(t.at, "found string %s, expected a URN such as urn:ietf:params:oauth:token-type:id_token", quote(t.V))
		}
	}
	if raw.ClientAuth.ok && !raw.ClientAuth.V.ClientID.present {
		c.errorf(raw.ClientAuth.at, "found no clientID, expected it: the grant is for one client")
	}
	ca, _ := c.roots(raw.CAFile)
	idpCA, _ := c.roots(idp.CAFile)
	return &broker.IDJAG{
		IdentityProvider: broker.IdentityProvider{
			TokenURL: idp.TokenURL.V, ClientAuth: c.clientAuth(idp.ClientAuth), SubjectTokenType: idp.SubjectTokenType.V,
			ActorTokenFile: c.secretFile(idp.ActorTokenFile), ActorTokenType: idp.ActorTokenType.V, Parameters: parameters(idp.Parameters.V), CAFile: idpCA,
		},
		TokenURL: raw.TokenURL.V, RevocationURL: raw.RevocationURL.V, Issuer: raw.Issuer.V, Resource: raw.Resource.V, Audience: raw.Audience.V,
		Scopes: plain(raw.Scopes.V), ClientAuth: c.clientAuth(raw.ClientAuth), CAFile: ca, MaxTTL: raw.MaxTTL.V, Timeout: raw.Timeout.V,
	}
}
