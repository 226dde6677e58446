package api_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is the API over a real service, store and socket.
type site struct {
	*testing.T
	url    string
	tokens map[string]string // by name
}

func newSite(t *testing.T) *site {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	ns, err := natsd.Start(natsd.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: quiet})
	check(t, err)
	t.Cleanup(ns.Stop)
	conn, err := ns.Connect()
	check(t, err)
	t.Cleanup(conn.Close)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	service, err := central.New(central.Options{Conn: conn, Signer: ledger.NewSigner(key), Log: quiet, WarmUp: time.Nanosecond})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	s := &site{T: t, tokens: map[string]string{}}
	var lines []string
	for name, p := range map[string]central.Principal{
		"alice": {Roles: []central.Role{central.Responder}}, "viewer": {Roles: []central.Role{central.Viewer}},
		"acme": {Roles: []central.Role{central.Admin}, Tenants: []string{"acme"}},
	} {
		p.Name = name
		token, line, err := api.NewToken(p)
		check(t, err)
		s.tokens[name], lines = token, append(lines, line)
	}
	tokens, err := api.ParseTokens(strings.NewReader(strings.Join(lines, "\n")))
	check(t, err)
	web := httptest.NewServer((&api.API{Service: service, Auth: tokens, Log: quiet}).Handler())
	t.Cleanup(web.Close)
	s.url = web.URL
	for limit := time.Now().Add(20 * time.Second); service.Ready() != nil; {
		if time.Now().After(limit) {
			t.Fatal(service.Ready())
		}
		if status, body := s.ask("GET", "/readyz", "", "", nil); status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatal(status, body)
		}
	}
	return s
}

func (s *site) ask(method, path, token, body string, header map[string]string) (int, string) {
	s.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	check(s, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	check(s, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	check(s, err)
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") == "application/problem+json" {
		var p api.Problem
		check(s, json.Unmarshal(b, &p))
		return res.StatusCode, string(p.Code)
	}
	return res.StatusCode, string(b)
}

const stopX = `{"id":"x","selector":{"tool":["x"]},"reason":"r"}`

// TestRefusals: nothing changes state without a known token, in another form than JSON, or for another site.
func TestRefusals(t *testing.T) {
	s := newSite(t)
	alice := s.tokens["alice"]
	for _, c := range []struct {
		what, method, path, token, body string
		header                          map[string]string
		status                          int
		code                            string
	}{
		{"no token", "POST", "/v1/revocations", "", stopX, nil, 401, "unauthenticated"},
		{"an unknown token", "POST", "/v1/revocations", alice + "x", stopX, nil, 401, "unauthenticated"},
		{"no token to read", "GET", "/v1/revocations", "", "", nil, 401, "unauthenticated"},
		{"no token to export", "GET", "/v1/export", "", "", nil, 401, "unauthenticated"},
		{"no token to watch", "GET", "/v1/watch", "", "", nil, 401, "unauthenticated"},
		{"no token to import", "POST", "/v1/import", "", "", nil, 401, "unauthenticated"},
		{"a token in the query", "POST", "/v1/revocations?access_token=" + alice, "", stopX, nil, 401, "unauthenticated"},
		{"a token in a cookie", "POST", "/v1/revocations", "", stopX, map[string]string{"Cookie": "token=" + alice}, 401, "unauthenticated"},
		{"what a form can send", "POST", "/v1/revocations", alice, stopX, map[string]string{"Content-Type": "text/plain"}, 415, "media_type"},
		{"another site's page", "POST", "/v1/revocations", alice, stopX, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, ""},
		{"another origin", "POST", "/v1/revocations", alice, stopX, map[string]string{"Origin": "https://evil.example"}, 403, ""},
		{"a viewer", "POST", "/v1/revocations", s.tokens["viewer"], stopX, nil, 403, "forbidden"},
		{"another tenant", "POST", "/v1/revocations", s.tokens["acme"], stopX, nil, 403, "forbidden"},
		{"an unknown member", "POST", "/v1/revocations", alice, `{"id":"x","selector":{"tools":["x"]},"reason":"r"}`, nil, 400, "invalid"},
		{"a mistyped member", "POST", "/v1/revocations", alice, `{"id":"x","selector":{"tool":["x"]},"reason":"r","expire":"2026-11-29T17:10:00Z"}`, nil, 400, "invalid"},
		{"a doubled member", "POST", "/v1/revocations", alice, `{"id":"x","selector":{"tool":["x"]},"reason":"r","id":"y"}`, nil, 400, "invalid"},
		{"trailing bytes", "POST", "/v1/revocations", alice, stopX + "{}", nil, 400, "invalid"},
		{"an empty selector", "POST", "/v1/revocations", alice, `{"selector":{},"reason":"r"}`, nil, 400, "invalid"},
		{"no reason", "POST", "/v1/revocations", alice, `{"selector":{"tool":["x"]}}`, nil, 400, "invalid"},
		{"a large body", "POST", "/v1/revocations", alice, `{"reason":"` + strings.Repeat("r", 200<<10) + `"}`, nil, 413, "too_large"},
		{"a long id", "POST", "/v1/revocations", alice, `{"id":"` + strings.Repeat("r", 200) + `","selector":{"tool":["x"]},"reason":"r"}`, nil, 400, "invalid"},
		{"an unknown id", "POST", "/v1/revocations/y/restore", alice, `{}`, nil, 404, "not_found"},
		{"an unknown proposal", "POST", "/v1/proposals/1/approve", alice, `{}`, nil, 404, "not_found"},
		{"no number", "POST", "/v1/proposals/x/approve", alice, `{}`, nil, 400, "invalid"},
		{"an unknown revision", "GET", "/v1/revisions/9/progress", alice, "", nil, 404, "not_found"},
		{"an import without the role", "POST", "/v1/import", alice, "", map[string]string{"Content-Type": "application/x-ndjson"}, 403, "forbidden"},
		{"an import by a tenant", "POST", "/v1/import", s.tokens["acme"], "", map[string]string{"Content-Type": "application/x-ndjson"}, 403, "forbidden"},
		{"a GET that would write", "GET", "/v1/revocations/x/restore", alice, "", nil, 405, ""},
	} {
		if status, code := s.ask(c.method, c.path, c.token, c.body, c.header); status != c.status || c.code != "" && code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.what, status, code, c.status, c.code)
		}
	}
	if _, list := s.ask("GET", "/v1/history", alice, "", nil); strings.TrimSpace(list) != "[]" {
		t.Errorf("something was written: %s", list)
	}
}

// TestTheSameRequestTwice is answered with the same entry, and another one under its id is not.
func TestTheSameRequestTwice(t *testing.T) {
	s := newSite(t)
	for _, repeat := range []bool{false, true} {
		status, body := s.ask("POST", "/v1/revocations", s.tokens["alice"], stopX, nil)
		var o central.Outcome
		check(t, json.Unmarshal([]byte(body), &o))
		if status != http.StatusOK || o.Repeat != repeat || o.Entry.Revision != 1 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if status, code := s.ask("POST", "/v1/revocations", s.tokens["alice"], strings.Replace(stopX, `"r"`, `"other"`, 1), nil); status != 409 || code != "conflict" {
		t.Errorf("%d %s", status, code)
	}
	// A tenant's admin learns nothing about the id.
	for _, id := range []string{"x", "nobodys"} {
		if status, code := s.ask("POST", "/v1/revocations/"+id+"/restore", s.tokens["acme"], "{}", nil); status != 403 || code != "forbidden" {
			t.Errorf("%s: %d %s", id, status, code)
		}
	}
}

// TestWatch: what came before and what comes is sent once, in order.
func TestWatch(t *testing.T) {
	s := newSite(t)
	s.ask("POST", "/v1/revocations", s.tokens["alice"], stopX, nil)
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/watch?since=0", nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+s.tokens["viewer"])
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	next := func() string {
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				return id
			}
		}
		t.Fatal(lines.Err())
		return ""
	}
	if id := next(); id != "1" {
		t.Fatal(id)
	}
	s.ask("POST", "/v1/revocations/x/restore", s.tokens["alice"], "{}", nil)
	if id := next(); id != "2" {
		t.Fatal(id)
	}
}

// TestTokenFiles: what could be misread is refused.
func TestTokenFiles(t *testing.T) {
	hash := "sha256:" + strings.Repeat("ab", 32)
	for _, bad := range []string{
		"name=a roles=viewer", "sha256:abcd name=a roles=viewer", hash + " name=a", hash + " roles=viewer", hash + " name=a roles=root",
		hash + " name=a roles=viewer tenants=", hash + " name=a roles=viewer tenants=a,", hash + " name=a roles=viewer tenant=a",
		hash + " name=a name=b roles=viewer", hash + " name=a roles=viewer\nsha256:" + strings.Repeat("cd", 32) + " name=a roles=admin",
	} {
		if _, err := api.ParseTokens(strings.NewReader(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
	tokens, err := api.ParseTokens(strings.NewReader("# people\n\n" + hash + " name=a roles=viewer,responder tenants=x,y\n"))
	if err != nil || len(tokens) != 1 {
		t.Fatal(tokens, err)
	}
}
