package broker

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"
)

// googleTokens is the issuer of access tokens of Google Cloud.
type googleTokens struct {
	tokenClient
	conf    GCP
	scopes  string // conf.Scopes, sorted and joined
	subject federated
	account *endpoint // nil: the federated token is what is wanted
}

// Key is the identity that the token is of, what it may do, and who is shown to be asking.
func (is *googleTokens) Key(s Subject) (Key, error) {
	_, workload, reason := is.subject.of(&s)
	if reason != "" {
		return Key{}, newError(is.binding, reason)
	}
	return Key{Binding: is.binding, Audience: is.conf.Provider, Resource: is.conf.ServiceAccount, Scopes: is.scopes, Workload: workload}, nil
}

// Issue makes one or two requests, each with one retry at most.
func (is *googleTokens) Issue(ctx context.Context, s Subject) (*Credential, error) {
	subject, _, reason := is.subject.of(&s)
	if reason != "" {
		return nil, newError(is.binding, reason)
	}
	a := ask{scopes: is.scopes, exchange: true, issuedType: typeAccessToken}
	if is.account != nil {
		a.scopes = googleAny
	}
	form := url.Values{
		"grant_type": {grantType}, "audience": {is.conf.Provider}, "scope": {a.scopes}, "requested_token_type": {typeAccessToken},
		"subject_token": {subject.Reveal()}, "subject_token_type": {is.conf.SubjectTokenType},
	}
	var tok *oauth2.Token
	fail := is.twice(ctx, is.ep, func(ctx context.Context) (e *Error) {
		tok, e = is.token(ctx, &a, form)
		return e
	})
	if fail == nil && is.account != nil {
		fail = is.twice(ctx, is.account, func(ctx context.Context) (e *Error) {
			tok, e = is.impersonate(ctx, tok)
			return e
		})
	}
	if fail != nil {
		return nil, fail
	}
	ref := Ref{
		Binding: is.binding, Kind: "gcp", Audience: orElse(is.conf.ServiceAccount, is.conf.Provider), Scopes: strings.Fields(is.scopes),
		Expires: tok.Expiry,
	}
	c := newCredential(ref, "Authorization", "Bearer ", tok.AccessToken)
	c.put = &alone{c.put, googleQuery}
	return c, nil
}

// impersonate asks for the service account's token (projects.serviceAccounts.generateAccessToken). It returns the federated one
// where that fails, for another attempt.
func (is *googleTokens) impersonate(ctx context.Context, federated *oauth2.Token) (*oauth2.Token, *Error) {
	body, err := json.Marshal(struct {
		Scope    []string `json:"scope"`
		Lifetime string   `json:"lifetime"`
	}{strings.Fields(is.scopes), strconv.FormatInt(int64(is.conf.Lifetime/time.Second), 10) + "s"})
	if err != nil {
		return federated, newError(is.binding, Internal)
	}
	h := http.Header{"Authorization": {"Bearer " + federated.AccessToken}, "Content-Type": {"application/json"}, "Accept": {"application/json"}}
	start := is.now()
	r, reason := is.account.send(ctx, http.MethodPost, is.account.url, body, h)
	if reason != "" {
		return federated, newError(is.binding, reason)
	}
	tok, reason := checkGenerated(r, start.Add(is.conf.Lifetime), is.now())
	if reason != "" {
		return federated, is.failure(reason, r)
	}
	return tok, nil
}

// checkGenerated judges the answer. Google does not repeat the scopes.
func checkGenerated(r reply, latest, now time.Time) (*oauth2.Token, Reason) {
	if r.status != http.StatusOK {
		return nil, googleRefusal(r)
	}
	var ans struct {
		Token  jsontext.Value `json:"accessToken"`
		Expiry jsontext.Value `json:"expireTime"`
	}
	if json.Unmarshal(r.body, &ans) != nil {
		return nil, BadAnswer
	}
	token, ok := stringOf(ans.Token)
	if !ok || !isToken(token) {
		return nil, BadAnswer
	}
	text, _ := stringOf(ans.Expiry)
	expires, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return nil, BadExpiry
	case !now.Before(expires):
		return nil, Expired
	case latest.Before(expires): // whatever Google says: what was asked for
		expires = latest
	}
	return &oauth2.Token{AccessToken: token, TokenType: "Bearer", Expiry: expires}, ""
}

// googleRefusals are the canonical codes of Google's APIs that say more than the status.
var googleRefusals = map[string]Reason{
	"PERMISSION_DENIED": UnauthorizedClient, "UNAUTHENTICATED": InvalidGrant, "NOT_FOUND": InvalidTarget, "INVALID_ARGUMENT": InvalidRequest,
}

func googleRefusal(r reply) Reason {
	var body struct {
		Error struct {
			Status jsontext.Value `json:"status"`
		} `json:"error"`
	}
	if 400 <= r.status && r.status < 500 && r.status != http.StatusTooManyRequests && json.Unmarshal(r.body, &body) == nil {
		if status, ok := stringOf(body.Error.Status); ok && googleRefusals[status] != "" {
			return googleRefusals[status]
		}
	}
	return refusal(reply{status: r.status})
}

// alone is a credential beside which the URL may hold none of the tool's own.
type alone struct {
	placing
	names []string // in lower case
}

func (p *alone) place(out *http.Request, body []byte) ([]byte, Reason) {
	if holdsCredential(out.URL, p.names) {
		return nil, Presigned
	}
	return p.placing.place(out, body)
}

// googleQuery are the parameters of signed URLs, of both versions, and of tokens in the query.
var googleQuery = []string{
	"x-goog-signature", "x-goog-credential", "x-goog-algorithm", "x-goog-date", "x-goog-expires", "x-goog-signedheaders", "googleaccessid",
	"x-amz-signature", "x-amz-credential", "x-amz-security-token", "awsaccesskeyid", "access_token", "oauth_token", "bearer_token",
}
