package hunt

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker/awstest"
	"github.com/toolgate/toolgate/devissuer"
)

// failing are the ways in which a token endpoint fails; each has a binding and a path of its own.
var failing = []string{"refusing", "unknown", "broken", "garbage", "mistyped", "redirecting", "torn", "gone"}

// authority plays every issuer of credentials. Each credential that it gives is a canary, and each word of its refusals.
type authority struct {
	*planted
	url   string
	tasks *devissuer.Issuer
	got   tape
}

func newAuthority(t *testing.T, p *planted, tasks *devissuer.Issuer) *authority {
	t.Helper()
	a := &authority{planted: p, tasks: tasks}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

func (a *authority) token(where string) string { return a.plant("token of an issuer", where) }
func (a *authority) word(where string) string  { return a.plant("answer of an issuer", where) }

func (a *authority) told(where string) string {
	return a.plant("parameter of an issuer's answer", where)
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := a.got.request(r)
	w.Header().Set("X-Issuer", a.word("header of "+r.URL.Path))
	path := strings.TrimPrefix(r.URL.Path, "/")
	switch path {
	case "exchange", "gcp":
		a.json(w, 200, map[string]any{
			"access_token": a.token(path), "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 300,
			"refresh_token": a.plant("refresh token", path),
		})
	case "credentials", "redeem":
		a.json(w, 200, map[string]any{"access_token": a.token(path), "token_type": "Bearer", "expires_in": 300, "refresh_token": a.plant("refresh token", path)})
	case "bound":
		a.json(w, 200, map[string]any{"access_token": a.token(path), "token_type": "DPoP", "expires_in": 300})
	case "grant":
		a.grant(w, body)
	case "github/app/installations/7/access_tokens":
		a.json(w, 201, map[string]any{
			"token": a.token(path), "expires_at": time.Now().Add(time.Hour).Format(time.RFC3339), "permissions": map[string]string{"contents": "read"},
			"repository_selection": "selected", "repositories": []any{map[string]any{"name": "tools", "description": a.word(path)}},
		})
	case "v1/auth/jwt/login":
		a.json(w, 200, map[string]any{"auth": map[string]any{"client_token": a.plant("session of Vault", path), "lease_duration": 3600, "renewable": true}})
	case "v1/secret/data/orders":
		a.json(w, 200, map[string]any{"data": map[string]any{"data": map[string]any{"key": a.token(path), "other": a.word(path)}}, "warnings": []string{a.word(path)}})
	case "v1/database/creds/orders":
		a.json(w, 200, map[string]any{
			"lease_id": "database/creds/orders/1", "lease_duration": 600, "renewable": true,
			"data": map[string]any{"username": "v-hunt", "password": a.token(path)},
		})
	case "v1/projects/-/serviceAccounts/a@b.iam.gserviceaccount.com:generateAccessToken":
		a.json(w, 200, map[string]any{"accessToken": a.token("generateAccessToken"), "expireTime": time.Now().Add(10 * time.Minute).Format(time.RFC3339)})
	case "sts":
		form, _ := url.ParseQuery(string(body))
		keys := awstest.Keys{ID: "ASIA" + rand.Text()[:16], Secret: a.plant("secret key of AWS", path), Token: a.token(path)}
		awstest.Answer(w, keys, time.Now().Add(15*time.Minute), form.Get("RoleArn"), form.Get("RoleSessionName"))
	case "introspect":
		a.json(w, 200, map[string]any{"active": false, "sub": a.word(path)})
	case "revoke", "v1/sys/leases/revoke", "v1/auth/token/revoke-self":
		w.WriteHeader(204)
	default:
		a.fail(w, path, string(body))
	}
}

// grant answers with an ID-JAG.
func (a *authority) grant(w http.ResponseWriter, body []byte) {
	now := time.Now()
	form, _ := url.ParseQuery(string(body))
	caller, err := a.tasks.Verify(form.Get("subject_token"), "")
	if err != nil {
		panic(err)
	}
	token, err := a.tasks.MintWith(map[string]any{"typ": "oauth-id-jag+jwt"}, map[string]any{
		"iss": a.tasks.URL(), "sub": caller["sub"], "aud": a.url, "client_id": "hunt", "jti": "j1", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"resource": "https://orders.test", "scope": "orders",
	}, "ES256")
	if err != nil {
		panic(err)
	}
	a.addToken("token of an issuer", "grant", token)
	a.json(w, 200, map[string]any{"access_token": token, "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A", "expires_in": 60})
}

func (a *authority) fail(w http.ResponseWriter, path, echo string) {
	switch path {
	case "refusing":
		w.Header().Set("WWW-Authenticate", `Basic realm="`+a.word(path)+`"`)
		a.json(w, 401, map[string]any{"error": "invalid_client", "error_description": a.word(path) + echo, "error_uri": "https://" + a.word(path) + ".test/"})
	case "unknown":
		a.json(w, 400, map[string]any{"error": a.word(path), a.word(path): 1})
	case "broken":
		http.Error(w, "<html>"+a.word(path)+" "+echo, 500)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "%s", "token_type": "Bearer", "expires_in": 30, %s`, a.token(path), a.word(path))
	case "mistyped":
		a.json(w, 200, map[string]any{"access_token": a.token(path), "token_type": a.told(path), "expires_in": a.told(path), "scope": a.told(path), "other": a.word(path)})
	case "redirecting":
		w.Header().Set("Location", "https://"+a.word(path)+".hunt.test/?code="+a.word(path))
		w.WriteHeader(307)
	case "torn":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nBad header %s\r\n%s: x\r\n\r\n", a.word(path), a.word(path), a.word(path))
			_ = conn.Close()
		}
	default: // gone
		panic(http.ErrAbortHandler)
	}
}

func (a *authority) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
