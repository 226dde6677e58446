package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/toolgate/toolgate/devissuer"
)

// provider is zitadel's OpenID provider over the storage of its own example, which is told to believe the world's issuer. strict makes of
// the storage one that narrows and names the actor; the example does neither.
type provider struct {
	*storage.Storage
	callers *devissuer.Issuer
	strict  bool
	opaque  bool // access tokens are no JWTs
	url     string
}

const (
	providerClient   = "toolgate"
	providerSecret   = "interop-client-secret-9d41"
	providerAudience = "https://api.test"
)

// startProvider starts one. It ends with the test.
func startProvider(t *testing.T, callers *devissuer.Issuer, strict, opaque bool) *provider {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	p := &provider{callers: callers, strict: strict, opaque: opaque, url: "http://" + ln.Addr().String()}
	p.Storage = storage.NewStorageWithClients(storage.NewUserStore(p.url+"/"), map[string]*storage.Client{
		providerClient: storage.WebClient(providerClient, providerSecret),
	})
	config := &op.Config{CryptoKeyId: "key", GrantTypeRefreshToken: true}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	h := must[*op.Provider](t)(op.NewProvider(config, p, op.StaticIssuer(p.url), op.WithAllowInsecure(), op.WithLogger(quiet)))
	srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: h}}
	srv.Start()
	t.Cleanup(srv.Close)
	return p
}

// jwtClient is the example's client, but for the form of its access tokens.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil || p.opaque {
		return c, err
	}
	return jwtClient{c}, nil
}

// VerifyExchangeSubjectToken believes the callers' tokens, and VerifyExchangeActorToken the workload's.
func (p *provider) VerifyExchangeSubjectToken(_ context.Context, token string, typ oidc.TokenType) (string, string, map[string]any, error) {
	return p.verify(token, typ, "toolgate")
}

func (p *provider) VerifyExchangeActorToken(_ context.Context, token string, typ oidc.TokenType) (string, string, map[string]any, error) {
	return p.verify(token, typ, "provider")
}

func (p *provider) verify(token string, typ oidc.TokenType, audience string) (string, string, map[string]any, error) {
	tok, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || typ != oidc.JWTTokenType {
		return "", "", nil, errors.New("not a JWT")
	}
	keys := p.callers.Keys()
	var c jwt.Claims
	more := map[string]any{}
	if err := tok.Claims(&keys, &c, &more); err != nil {
		return "", "", nil, err
	}
	err = c.Validate(jwt.Expected{Issuer: p.callers.URL(), AnyAudience: jwt.Audience{audience}, Time: time.Now()})
	return token, c.Subject, more, err
}

// ValidateTokenExchangeRequest is the example's, unless it is to be strict.
func (p *provider) ValidateTokenExchangeRequest(ctx context.Context, r op.TokenExchangeRequest) error {
	if !p.strict {
		return p.Storage.ValidateTokenExchangeRequest(ctx, r)
	}
	switch may, _ := r.GetExchangeSubjectTokenClaims()["may_act"].(map[string]any); {
	case r.GetExchangeActor() == "" || may != nil && may["sub"] != r.GetExchangeActor():
		return oidc.ErrInvalidRequest().WithDescription("the actor may not act")
	case !slices.Equal(r.GetAudience(), []string{providerAudience}):
		return oidc.ErrInvalidTarget().WithDescription("not the API")
	case !slices.Equal(r.GetScopes(), []string{"orders:read"}):
		return oidc.ErrInvalidScope().WithDescription("not the scope")
	}
	return nil
}

// GetPrivateClaimsFromTokenExchangeRequest names the actor, which the example has commented out.
func (p *provider) GetPrivateClaimsFromTokenExchangeRequest(ctx context.Context, r op.TokenExchangeRequest) (map[string]any, error) {
	claims, err := p.Storage.GetPrivateClaimsFromTokenExchangeRequest(ctx, r)
	if err == nil && p.strict {
		if claims == nil {
			claims = map[string]any{}
		}
		claims["act"] = map[string]any{"sub": r.GetExchangeActor()}
	}
	return claims, err
}

// binding is one for the host of that name, in YAML.
func (p *provider) binding(w *world, name, port, scope string) string {
	return strings.NewReplacer("%NAME", name, "%PORT", port, "%URL", p.url, "%SCOPE", scope, "%DIR", w.dir, "%AUD", providerAudience, "%ID", providerClient).Replace(
		`    - name: %NAME
      tools: [interop]
      targets: ["%NAME.test:%PORT"]
      tokenExchange:
        tokenURL: %URL/oauth/token
        audience: %AUD
        scopes: ["%SCOPE"]
        actorTokenFile: %DIR/workload.jwt
        clientAuth: {method: client_secret_basic, clientID: %ID, secretFile: %DIR/client-secret}
`)
}
