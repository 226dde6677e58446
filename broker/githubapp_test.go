package broker

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// appKey is made once, since that takes long.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func appPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())}))
}

// gitHub behaves as GitHub's API documents it, for one App and its installation 42, unless answer says otherwise.
type gitHub struct {
	*httptest.Server
	answer func(w http.ResponseWriter, asked map[string]any) bool

	mu      sync.Mutex
	issued  int
	revoked []string
}

const gitHubToken = "ghs_installation_token_SECRET"

func newGitHub(t testing.TB, answer func(w http.ResponseWriter, asked map[string]any) bool) *gitHub {
	g := &gitHub{answer: answer}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", g.issue)
	mux.HandleFunc("DELETE /installation/token", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.revoked = append(g.revoked, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		w.WriteHeader(http.StatusNoContent)
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func (g *gitHub) issue(w http.ResponseWriter, r *http.Request) {
	if why := badAssertion(r); why != "" {
		write(w, 401, `{"message":"`+why+`"}`)
		return
	}
	if r.PathValue("id") != "42" {
		write(w, 404, `{"message":"Not Found"}`)
		return
	}
	var asked map[string]any
	b, _ := io.ReadAll(r.Body)
	if json.Unmarshal(b, &asked) != nil || r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-GitHub-Api-Version") == "" || r.Header.Get("User-Agent") == "" {
		write(w, 400, `{}`)
		return
	}
	g.mu.Lock()
	g.issued++
	n := g.issued
	g.mu.Unlock()
	if g.answer != nil && g.answer(w, asked) {
		return
	}
	permissions := asked["permissions"].(map[string]any)
	permissions["metadata"] = "read"
	write(w, 201, gitHubAnswer(fmt.Sprint(gitHubToken, n), time.Now().Add(time.Hour), permissions, "selected", asked["repositories"].([]any)...))
}

func gitHubAnswer(token string, expires time.Time, permissions map[string]any, selection string, repositories ...any) string {
	var list []any
	for _, name := range repositories {
		list = append(list, map[string]any{"id": 1, "name": name, "full_name": fmt.Sprint("octo/", name)})
	}
	b, err := json.Marshal(map[string]any{
		"token": token, "expires_at": expires.UTC().Format(time.RFC3339), "permissions": permissions, "repository_selection": selection, "repositories": list,
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// badAssertion checks what GitHub checks of an App's JWT.
func badAssertion(r *http.Request) string {
	token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "A JSON web token could not be decoded"
	}
	var c struct {
		Issuer string `json:"iss"`
		Issued int64  `json:"iat"`
		Expiry int64  `json:"exp"`
	}
	now := time.Now().Unix()
	switch err := token.Claims(appKey().Public(), &c); {
	case err != nil:
		return "bad signature"
	case c.Issuer != "Iv1.app" && c.Issuer != "7":
		return "Integration not found"
	case c.Issued > now, c.Expiry <= now:
		return "not in force"
	case c.Expiry > now+600:
		return "'Expiration time' claim ('exp') is too far in the future"
	}
	return ""
}

func gitHubBinding(t testing.TB, api string) Binding {
	return Binding{
		Name: "code", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		GitHubApp: &GitHubApp{
			ClientID: "Iv1.app", InstallationID: 42, PrivateKeyFile: writeFile(t, appPEM()), APIURL: api,
			Repositories: []string{"tools", "Docs"}, Permissions: []string{"contents:read", "pull_requests:write"},
		},
	}
}

func TestGitHubAppIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		var mu sync.Mutex
		mode := ""
		set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
		g, over := newGitHub(t, nil), make(chan struct{})
		t.Cleanup(func() { close(over) })
		g.answer = func(w http.ResponseWriter, asked map[string]any) bool {
			mu.Lock()
			m := mode
			mu.Unlock()
			switch m {
			case "spoil":
				write(w, 422, `{"message":"no such permission `+gitHubToken+`"}`)
			case "hang":
				<-over
			default:
				write(w, 201, gitHubAnswer(gitHubToken, time.Now().Add(time.Hour), asked["permissions"].(map[string]any), "selected", "tools", "docs"))
			}
			return true
		}
		return issuerUnderTest{
			issuer: mustExchanger(t, gitHubBinding(t, g.URL)), subject: alice(), secrets: []string{gitHubToken, subjectSecret},
			spoil: set("spoil"), hang: set("hang"),
		}
	})
}

func TestGitHubToken(t *testing.T) {
	g := newGitHub(t, nil)
	for _, appID := range []int64{0, 7} {
		bd := gitHubBinding(t, g.URL+"/")
		if appID != 0 {
			bd.GitHubApp.AppID, bd.GitHubApp.ClientID = appID, ""
		}
		b, found := mustNew(t, bd, Options{})
		c := mustGet(t, b, found, alice())
		ref := c.Ref()
		if ref.Kind != "github_app" || strings.Join(ref.Scopes, " ") != "contents:read pull_requests:write" || time.Until(ref.Expires) < 55*time.Minute {
			t.Errorf("ref %+v", ref)
		}
		if again := mustGet(t, b, found, alice()); !again.Ref().Cached || !again.value.Equal(c.value) {
			t.Error("not cached")
		}
		bob := alice()
		bob.Subject = "user:bob"
		if mustGet(t, b, found, bob).value.Equal(c.value) {
			t.Error("two callers share a token")
		}
	}
}

// GitHub's answer is not believed to be what was asked. What is listed here would have been used.
func TestGitHubAnswers(t *testing.T) {
	const token = gitHubToken
	hour := time.Now().Add(time.Hour)
	exact := map[string]any{"contents": "read", "pull_requests": "write"}
	and := func(more ...string) map[string]any {
		out := map[string]any{}
		for k, v := range exact {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   Reason
	}{
		"as asked":              {201, gitHubAnswer(token, hour, exact, "selected", "tools", "docs"), ""},
		"other order and case":  {201, gitHubAnswer(token, hour, and("metadata", "read"), "selected", "DOCS", "tools"), ""},
		"every repository":      {201, gitHubAnswer(token, hour, exact, "all"), WiderScope},
		"all, with a list":      {201, gitHubAnswer(token, hour, exact, "all", "tools", "docs"), WiderScope},
		"one more repository":   {201, gitHubAnswer(token, hour, exact, "selected", "tools", "docs", "secrets"), WiderScope},
		"another repository":    {201, gitHubAnswer(token, hour, exact, "selected", "tools", "docs2"), WiderScope},
		"one repository less":   {201, gitHubAnswer(token, hour, exact, "selected", "tools", "tools"), NarrowerScope},
		"no list":               {201, gitHubAnswer(token, hour, exact, "selected"), BadAnswer},
		"one more permission":   {201, gitHubAnswer(token, hour, and("workflows", "write"), "selected", "tools", "docs"), WiderScope},
		"a higher level":        {201, gitHubAnswer(token, hour, and("contents", "write"), "selected", "tools", "docs"), WiderScope},
		"admin":                 {201, gitHubAnswer(token, hour, and("pull_requests", "admin"), "selected", "tools", "docs"), WiderScope},
		"a level nobody knows":  {201, gitHubAnswer(token, hour, and("contents", "owner"), "selected", "tools", "docs"), WiderScope},
		"metadata:write":        {201, gitHubAnswer(token, hour, and("metadata", "write"), "selected", "tools", "docs"), WiderScope},
		"a lower level":         {201, gitHubAnswer(token, hour, and("pull_requests", "read"), "selected", "tools", "docs"), NarrowerScope},
		"no permissions":        {201, gitHubAnswer(token, hour, nil, "selected", "tools", "docs"), NarrowerScope},
		"over":                  {201, gitHubAnswer(token, time.Now().Add(-time.Second), exact, "selected", "tools", "docs"), Expired},
		"no token":              {201, gitHubAnswer("", hour, exact, "selected", "tools", "docs"), BadAnswer},
		"a header in the token": {201, gitHubAnswer("a\r\nX-Evil: 1", hour, exact, "selected", "tools", "docs"), BadAnswer},
		"no end":                {201, strings.Replace(gitHubAnswer(token, hour, exact, "selected", "tools", "docs"), "expires_at", "x", 1), BadExpiry},
		"a number for the end":  {201, `{"token":"t","expires_at":5,"repositories":[]}`, BadAnswer},
		"two tokens":            {201, `{"token":"a","token":"b"}`, BadAnswer},
		"no JSON":               {201, `token`, BadAnswer},
		"another status":        {200, gitHubAnswer(token, hour, exact, "selected", "tools", "docs"), BadAnswer},
		"a redirect":            {307, ``, BadAnswer},
		"forbidden":             {403, `{}`, Refused},
		"not there":             {404, `{}`, InvalidTarget},
		"not granted":           {422, `{}`, InvalidScope},
		"broken":                {502, `{}`, ServerError},
	} {
		g := newGitHub(t, func(w http.ResponseWriter, _ map[string]any) bool {
			w.Header().Set("Location", "/elsewhere")
			write(w, c.status, c.body)
			return true
		})
		b, bd := mustNew(t, gitHubBinding(t, g.URL), Options{})
		cred, err := b.Credential(t.Context(), bd, alice())
		if c.want == "" {
			if err != nil || cred == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		noLeak(t, wantReason(t, err, c.want), token)
	}
}

func TestGitHubLimitsRatesBy403(t *testing.T) {
	g := newGitHub(t, func(w http.ResponseWriter, _ map[string]any) bool {
		w.Header().Set("Retry-After", "7")
		write(w, 403, `{"message":"secondary rate limit"}`)
		return true
	})
	b, bd := mustNew(t, gitHubBinding(t, g.URL), Options{})
	_, err := b.Credential(t.Context(), bd, alice())
	if e := wantReason(t, err, RateLimited); e.RetryAfter != 7*time.Second {
		t.Errorf("retry after %v", e.RetryAfter)
	}
}

// The key is read again when it changes, and must be RSA.
func TestGitHubKey(t *testing.T) {
	g := newGitHub(t, nil)
	bd := gitHubBinding(t, g.URL)
	b, found := mustNew(t, bd, Options{})
	mustGet(t, b, found, alice())
	b.Drop(func(Key) bool { return true })
	if err := os.WriteFile(bd.GitHubApp.PrivateKeyFile, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.Credential(t.Context(), found, alice())
	wantReason(t, err, SecretUnreadable)
}

func TestGitHubRevocation(t *testing.T) {
	g := newGitHub(t, nil)
	seen := new(counter)
	b, bd := mustNew(t, gitHubBinding(t, g.URL), Options{Observe: seen.observe})
	token := mustGet(t, b, bd, alice()).value.Reveal()
	if n := b.Drop(func(Key) bool { return true }); n != 1 {
		t.Errorf("dropped %d", n)
	}
	seen.eventually(t, "revocation ok", 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.revoked) != 1 || g.revoked[0] != token {
		t.Errorf("revoked %q", g.revoked)
	}
}

func TestGitHubPlaces(t *testing.T) {
	g := newGitHub(t, nil)
	for scheme, basic := range map[string]map[string]bool{
		"": {
			"/repos/octo/tools": false, "/octo/tools.git/info/refs": true, "/octo/tools.git/git-upload-pack": true, "/octo/tools.git/git-receive-pack": true,
			"/octo/tools.git/info/lfs/objects/batch": true, "/info/refs/x": false, "/graphql": false,
		},
		"basic":  {"/repos/octo/tools": true},
		"bearer": {"/octo/tools.git/info/refs": false},
	} {
		bd := gitHubBinding(t, g.URL)
		bd.GitHubApp.Scheme = scheme
		b, found := mustNew(t, bd, Options{})
		c := mustGet(t, b, found, alice())
		token := c.value.Reveal()
		for path, want := range basic {
			r := &http.Request{URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {"token of-the-tool"}, "authorization": {"x"}}}
			if _, err := c.Apply(r, nil); err != nil {
				t.Fatal(err)
			}
			user, password, isBasic := r.BasicAuth()
			if isBasic != want || want && (user != "x-access-token" || password != token) || !want && r.Header.Get("Authorization") != "Bearer "+token || len(r.Header) != 1 {
				t.Errorf("%q %s: sent %v", scheme, path, r.Header)
			}
			h := http.Header{"X-Echo": r.Header["Authorization"]}
			if c.ScrubHeader(h) != 1 {
				t.Errorf("%q %s: came back: %v", scheme, path, h)
			}
		}
	}
}

func TestGitHubSettings(t *testing.T) {
	for name, change := range map[string]func(*GitHubApp){
		"no app":                func(c *GitHubApp) { c.ClientID = "" },
		"two apps":              func(c *GitHubApp) { c.AppID = 1 },
		"no installation":       func(c *GitHubApp) { c.InstallationID = 0 },
		"no repositories":       func(c *GitHubApp) { c.Repositories = nil },
		"with an owner":         func(c *GitHubApp) { c.Repositories = []string{"octo/tools"} },
		"a repository twice":    func(c *GitHubApp) { c.Repositories = []string{"a", "A"} },
		"too many":              func(c *GitHubApp) { c.Repositories = make([]string, 501) },
		"no permissions":        func(c *GitHubApp) { c.Permissions = nil },
		"a permission":          func(c *GitHubApp) { c.Permissions = []string{"contents"} },
		"a level":               func(c *GitHubApp) { c.Permissions = []string{"contents:none"} },
		"a permission twice":    func(c *GitHubApp) { c.Permissions = []string{"contents:read", "contents:write"} },
		"scheme":                func(c *GitHubApp) { c.Scheme = "digest" },
		"http":                  func(c *GitHubApp) { c.APIURL = "http://github.example" },
		"negative":              func(c *GitHubApp) { c.MaxTTL = -1 },
		"no key":                func(c *GitHubApp) { c.PrivateKeyFile += "x" },
		"a key of another sort": func(c *GitHubApp) { c.PrivateKeyFile = writeFile(t, pkcs8(t, ecKey(t, elliptic.P256()))) },
	} {
		bd := gitHubBinding(t, "https://api.github.example")
		change(bd.GitHubApp)
		if _, err := New([]Binding{bd}, Options{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
