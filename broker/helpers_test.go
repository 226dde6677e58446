package broker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/redact"
)

const (
	subjectSecret = "subject-token-SECRET"
	actorSecret   = "actor-token-SECRET"
	issuedSecret  = "issued-token-SECRET"
	clientSecret  = "client:secret+SECRET/ä"
)

// alice is a caller with a token that is good for an hour.
func alice() Subject {
	return Subject{
		Issuer: "https://idp.test", Subject: "user:alice", Tenant: "acme", Agent: "agent-1", Task: "task-1", Run: "run-1",
		TokenID: "jti-1", Token: redact.New(subjectSecret), Expiry: time.Now().Add(time.Hour),
		Tool: "orders_tool", Version: "1", RequiredScopes: []string{"orders:read"},
	}
}

// request is what a token endpoint was sent.
type request struct {
	form   url.Values
	header http.Header
}

// tokenServer is a token endpoint whose answers a test decides.
type tokenServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

// newTokenServer calls answer with the number of the request, from 1. A nil answer gives a good token each time.
func newTokenServer(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int)) *tokenServer {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request, _ int) { writeGood(w) }
	}
	s := &tokenServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "form", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, request{r.PostForm, r.Header.Clone()})
		n := len(s.requests)
		s.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

func goodBody(more ...string) string {
	fields := append([]string{
		`"access_token":"` + issuedSecret + `"`, `"issued_token_type":"` + typeAccessToken + `"`, `"token_type":"Bearer"`,
	}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

func writeGood(w http.ResponseWriter) { write(w, 200, goodBody(`"expires_in":3600`)) }

func write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may be gone
}

// exchangeBinding asks tokenURL for the default tool and target without client authentication and without an actor.
func exchangeBinding(tokenURL string) Binding {
	return Binding{
		Name: "orders", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		TokenExchange: &TokenExchange{
			TokenURL: tokenURL, Audience: "https://api.orders.test", Impersonate: true, ClientAuth: ClientAuth{Method: "none", ClientID: "toolgate"},
		},
	}
}

// mustNew returns a broker with one binding, and the binding.
func mustNew(t testing.TB, bd Binding, o Options) (*Broker, *Binding) {
	t.Helper()
	b, err := New([]Binding{bd}, o)
	if err != nil {
		t.Fatal(err)
	}
	found := b.Find("orders_tool", "api.orders.test", 443)
	if found == nil {
		t.Fatal("the binding is not found")
	}
	return b, found
}

// mustExchanger returns the issuer of a binding alone.
func mustExchanger(t testing.TB, bd Binding) Issuer {
	t.Helper()
	b, found := mustNew(t, bd, Options{})
	return b.bound[found].issuer
}

func writeFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantReason fails unless err is an *Error of that reason, and returns it.
func wantReason(t *testing.T, err error, want Reason) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Fatalf("error %v, want reason %s", err, want)
	}
	if _, ok := phases[e.Reason]; !ok {
		t.Fatalf("reason %q is not in the closed set", e.Reason)
	}
	if e.Temporary != phases[want].temporary {
		t.Errorf("reason %s: temporary is %v", want, e.Temporary)
	}
	if !strings.Contains(e.Error(), fmt.Sprintf("binding %q", e.Binding)) || !strings.HasSuffix(e.Error(), string(want)) {
		t.Errorf("error text %q", e.Error())
	}
	return e
}

// sent returns the headers after Apply.
func sent(c *Credential) http.Header {
	r := &http.Request{URL: &url.URL{}, Header: http.Header{}}
	if _, err := c.Apply(r, nil); err != nil {
		panic(err)
	}
	return r.Header
}

// noLeak fails when any usual way of printing v shows one of the secrets.
func noLeak(t *testing.T, v any, secrets ...string) {
	t.Helper()
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
		fmt.Fprintf(&out, verb+"\n", struct{ V any }{v})
		fmt.Fprintf(&out, verb+"\n", []any{v})
	}
	_ = json.NewEncoder(&out).Encode(v)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
	for _, s := range secrets {
		for _, form := range []string{s, fmt.Sprintf("%x", s), base64.StdEncoding.EncodeToString([]byte(s))} {
			if strings.Contains(out.String(), form) {
				t.Errorf("%T shows a secret:\n%s", v, out.String())
				return
			}
		}
	}
}

// fakeJWT is not signed: nothing in this package verifies signatures.
func fakeJWT(payload string) string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"ES256","typ":"at+jwt"}`)) + "." + enc([]byte(payload)) + "." + enc([]byte("signature"))
}

// clock is set by a test.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// funcIssuer is an issuer whose answers a test decides; its key has no parts of its own.
type funcIssuer func(ctx context.Context, s Subject) (*Credential, error)

func (f funcIssuer) Issue(ctx context.Context, s Subject) (*Credential, error) { return f(ctx, s) }
func (f funcIssuer) Key(s Subject) (Key, error) {
	scopes, _ := joinScopes(s.RequiredScopes)
	return Key{Scopes: scopes}, nil
}

// withIssuer is mustNew with the issuer replaced.
func withIssuer(t testing.TB, o Options, is Issuer) (*Broker, *Binding) {
	t.Helper()
	b, bd := mustNew(t, exchangeBinding("http://127.0.0.1:1/token"), o)
	b.bound[bd].issuer = is
	return b, bd
}

func fresh(value string, expires time.Time) *Credential {
	return newCredential(Ref{Binding: "orders", Kind: "token_exchange", Expires: expires}, "Authorization", "Bearer ", value)
}

// ageFile makes a file look as if it had long been there.
func ageFile(t testing.TB, path string) {
	t.Helper()
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another goroutine will bring about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it never came")
		}
		runtime.Gosched()
	}
}
