package login

import (
	"net/http"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
)

// Bearer takes the API's own tokens and, where Settings.Audience names one, the issuer's access tokens for that audience
// (RFC 9068): with the same names and roles as a login.
type Bearer struct {
	Tokens api.Tokens
	OIDC   *OIDC // nil: own tokens only
}

// Authenticate is of api.Authenticator.
func (b *Bearer) Authenticate(r *http.Request) (central.Principal, error) {
	p, err := b.Tokens.Authenticate(r)
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if err == nil || b.OIDC == nil || b.OIDC.s.Audience == "" || strings.Count(token, ".") != 2 {
		return p, err
	}
	_, provider, problem := b.OIDC.discover(r.Context())
	if problem != nil {
		return p, &central.Error{Code: api.Unauthenticated, Text: "the issuer of the token cannot be asked for its keys"}
	}
	ctx := oidc.ClientContext(r.Context(), b.OIDC.s.Client)
	t, problem := provider.VerifierContext(ctx, &oidc.Config{ClientID: b.OIDC.s.Audience, Now: b.OIDC.s.Now}).Verify(ctx, token)
	if problem != nil {
		return p, &central.Error{Code: api.Unauthenticated, Text: "the token is not valid here"}
	}
	p, problem = b.OIDC.principal(t)
	if problem != nil {
		return central.Principal{}, &central.Error{Code: central.Forbidden, Text: "the token gives no role here"}
	}
	return p, nil
}
