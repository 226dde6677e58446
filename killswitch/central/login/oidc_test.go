package login_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/login"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	clientID = "console"
	callback = "http://console.test/login/callback"
)

// issuer answers the code flow as it is told to, with tokens that devissuer signs.
type issuer struct {
	*testing.T
	dev *devissuer.Issuer
	url string

	mu        sync.Mutex
	claims    map[string]any // of the ID token, over good ones
	tokenize  func(map[string]any) (string, error)
	discovery map[string]any // over a good one
	challenge string
	nonce     string
	secret    string // that the client used
	grants    int
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	dev, stop, err := devissuer.Start(devissuer.Options{})
	check(t, err)
	t.Cleanup(stop)
	i := &issuer{T: t, dev: dev}
	web := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(web.Close)
	i.url = web.URL
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out any
	status := http.StatusOK
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		d := map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/auth", "token_endpoint": i.url + "/token", "jwks_uri": i.dev.URL() + devissuer.PathJWKS,
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
		for k, v := range i.discovery {
			d[k] = v
		}
		out = d
	case "/token":
		check(i, r.ParseForm())
		_, i.secret, _ = r.BasicAuth()
		if r.PostForm.Get("code") != "good" || oauth2.S256ChallengeFromVerifier(r.PostForm.Get("code_verifier")) != i.challenge || r.PostForm.Get("redirect_uri") != callback {
			status = http.StatusBadRequest
			out = map[string]any{"error": "invalid_grant", "error_description": "secret-detail"}
			break
		}
		i.grants++
		out = map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": i.idToken()}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func (i *issuer) idToken() string {
	claims := map[string]any{
		"iss": i.url, "aud": clientID, "sub": "u-1", "nonce": i.nonce, "email": "alice@example.com", "email_verified": true, "groups": []string{"sre"},
	}
	for k, v := range i.claims {
		claims[k] = v
		if v == nil {
			delete(claims, k)
		}
	}
	mint := i.dev.Mint
	if i.tokenize != nil {
		mint = i.tokenize
	}
	token, err := mint(claims)
	check(i, err)
	return token
}

// desk is a console's login, and a browser with its cookies.
type desk struct {
	*issuer
	sessions *login.Sessions
	oidc     *login.OIDC
	cookies  map[string]*http.Cookie
	now      time.Time
}

func (i *issuer) desk(change func(*login.Settings)) *desk {
	i.Helper()
	d := &desk{issuer: i, cookies: map[string]*http.Cookie{}, now: time.Now()}
	now := func() time.Time { return d.now }
	var err error
	d.sessions, err = login.NewSessions(bytes.Repeat([]byte{1}, 32), false, time.Hour, nil, now)
	check(i, err)
	roles, err := login.ParseRoleMap([]string{"sre=responder", "all=viewer", "acme-soc=responder@acme", "globex-soc=responder@globex", "boss=admin", "cn=x,ou=y=viewer"})
	check(i, err)
	s := login.Settings{
		Issuer: i.url, ClientID: clientID, ClientSecret: "s3", Redirect: callback, Scopes: []string{"email"}, RolesClaim: "groups", NameClaim: "email", Roles: roles, Now: now,
	}
	if change != nil {
		change(&s)
	}
	d.oidc, err = login.NewOIDC(s, d.sessions)
	check(i, err)
	return d
}

func (d *desk) request(target string) *http.Request {
	r := httptest.NewRequestWithContext(d.Context(), http.MethodGet, target, nil)
	for _, c := range d.cookies {
		r.AddCookie(c)
	}
	return r
}

func (d *desk) keep(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		d.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(d.cookies, c.Name)
		}
	}
}

// start begins a login, as far as the issuer's page, and returns what the issuer was sent.
func (d *desk) start() url.Values {
	d.Helper()
	w := httptest.NewRecorder()
	to, err := d.oidc.Start(w, d.request("/login/issuer"), "/history")
	check(d, err)
	d.keep(w)
	u, err := url.Parse(to)
	check(d, err)
	q := u.Query()
	if !strings.HasPrefix(to, d.url+"/auth?") || q.Get("code_challenge_method") != "S256" || q.Get("client_id") != clientID || q.Get("redirect_uri") != callback ||
		q.Get("response_type") != "code" || q.Get("scope") != "openid email" || len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 {
		d.Fatal(to)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.challenge, d.nonce = q.Get("code_challenge"), q.Get("nonce")
	return q
}

func (d *desk) finish(query url.Values) (central.Principal, string, error) {
	d.Helper()
	w := httptest.NewRecorder()
	p, next, err := d.oidc.Finish(w, d.request("/login/callback?"+query.Encode()))
	d.keep(w)
	return p, next, err
}

func (d *desk) login() (central.Principal, error) {
	d.Helper()
	q := d.start()
	p, _, err := d.finish(url.Values{"code": {"good"}, "state": {q.Get("state")}, "iss": {d.url}})
	return p, err
}

func TestLogin(t *testing.T) {
	d := newIssuer(t).desk(nil)
	q := d.start()
	p, next, err := d.finish(url.Values{"code": {"good"}, "state": {q.Get("state")}})
	if err != nil || p.Name != "alice@example.com" || !slices.Equal(p.Roles, []central.Role{central.Responder}) || len(p.Tenants) != 0 || next != "/history" || d.secret != "s3" {
		t.Fatal(p, next, err, d.secret)
	}
	who, ends, ok := d.sessions.Who(d.request("/"))
	if !ok || who.Name != p.Name || ends.Sub(d.now) != time.Hour {
		t.Fatal(who, ends, ok)
	}
	d.now = d.now.Add(time.Hour)
	if _, _, ok := d.sessions.Who(d.request("/")); ok {
		t.Error("the session does not end")
	}
}

// TestRefusals: what an attacker, or an issuer that mixes things up, could bring to the callback.
func TestRefusals(t *testing.T) {
	good := func(q url.Values) url.Values { return url.Values{"code": {"good"}, "state": {q.Get("state")}} }
	forger, err := devissuer.New(devissuer.Options{URL: "https://forger.test"})
	check(t, err)
	for _, c := range []struct {
		what   string
		claims map[string]any
		query  func(url.Values) url.Values
		change func(*desk)
		reason login.Reason
	}{
		{what: "another state", query: func(url.Values) url.Values { return url.Values{"code": {"good"}, "state": {"x"}} }, reason: login.NotBegun},
		{what: "no state", query: func(url.Values) url.Values { return url.Values{"code": {"good"}} }, reason: login.NotBegun},
		{what: "another browser", change: func(d *desk) { clear(d.cookies) }, reason: login.NotBegun},
		{what: "a session in its place", change: func(d *desk) {
			w := httptest.NewRecorder()
			check(d, d.sessions.Begin(w, central.Principal{Name: "x"}))
			d.cookies["toolgate-killswitch-login"].Value = w.Result().Cookies()[0].Value
		}, reason: login.NotBegun},
		{what: "too late", change: func(d *desk) { d.now = d.now.Add(11 * time.Minute) }, reason: login.NotBegun},
		{what: "another issuer's answer", query: func(q url.Values) url.Values { v := good(q); v.Set("iss", "https://evil.test"); return v }, reason: login.TokenRefused},
		{what: "the issuer says no", query: func(q url.Values) url.Values {
			return url.Values{"error": {"access_denied"}, "state": {q.Get("state")}}
		}, reason: login.IssuerRefused},
		{what: "another code", query: func(q url.Values) url.Values { v := good(q); v.Set("code", "stolen"); return v }, reason: login.IssuerRefused},
		{what: "a code of another verifier", change: func(d *desk) { d.challenge = "x" }, reason: login.IssuerRefused},
		{what: "another nonce", claims: map[string]any{"nonce": "x"}, reason: login.TokenRefused},
		{what: "no nonce", claims: map[string]any{"nonce": nil}, reason: login.TokenRefused},
		{what: "another audience", claims: map[string]any{"aud": "other"}, reason: login.TokenRefused},
		{what: "an audience that begins alike", claims: map[string]any{"aud": clientID + "-2"}, reason: login.TokenRefused},
		{what: "several audiences", claims: map[string]any{"aud": []string{clientID, "other"}}, reason: login.TokenRefused},
		{what: "made for another", claims: map[string]any{"azp": "other"}, reason: login.TokenRefused},
		{what: "another iss", claims: map[string]any{"iss": "https://evil.test"}, reason: login.TokenRefused},
		{what: "iss with a slash more", claims: map[string]any{"iss": "+/"}, reason: login.TokenRefused},
		{what: "expired", claims: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, reason: login.TokenRefused},
		{what: "forged", change: func(d *desk) { d.tokenize = forger.Mint }, reason: login.TokenRefused},
		{what: "not signed", change: func(d *desk) {
			d.tokenize = func(c map[string]any) (string, error) {
				return d.dev.MintWith(map[string]any{"alg": "none"}, c, "none")
			}
		}, reason: login.TokenRefused},
		{what: "signed with the secret", change: func(d *desk) {
			d.tokenize = func(c map[string]any) (string, error) {
				return d.dev.MintWith(map[string]any{"alg": "HS256"}, c, "ES256")
			}
		}, reason: login.TokenRefused},
		{what: "no ID token", change: func(d *desk) { d.tokenize = func(map[string]any) (string, error) { return "", nil } }, reason: login.TokenRefused},
		{what: "no role", claims: map[string]any{"groups": []string{"SRE", "sre ", "other"}}, reason: login.NoRole},
		{what: "no roles claim", claims: map[string]any{"groups": nil}, reason: login.NoRole},
		{what: "a roles claim of another form", claims: map[string]any{"groups": map[string]any{"sre": true}}, reason: login.NoRole},
		{what: "discovery of another issuer", change: func(d *desk) {
			fresh := d.desk(nil)
			fresh.cookies = d.cookies
			d.oidc = fresh.oidc
			d.discovery = map[string]any{"issuer": "https://evil.test"}
		}, reason: login.IssuerUnreachable},
		{what: "a name that is too long", claims: map[string]any{"email": strings.Repeat("a", 5000)}, reason: login.TooLong},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newIssuer(t).desk(nil)
			if c.claims["iss"] == "+/" {
				c.claims["iss"] = d.url + "/"
			}
			d.claims = c.claims
			q := d.start()
			if c.change != nil {
				c.change(d)
			}
			if c.query == nil {
				c.query = good
			}
			p, _, err := d.finish(c.query(q))
			if !errors.Is(err, &login.Error{Reason: c.reason}) {
				t.Fatalf("got %+v, %v, want %s", p, err, c.reason)
			}
			if strings.Contains(err.Error(), "secret-detail") {
				t.Error("the error quotes the answer")
			}
			if _, _, ok := d.sessions.Who(d.request("/")); ok {
				t.Error("somebody is logged in")
			}
		})
	}
}

// TestCodeCountsOnce: the callback's address, sent a second time, logs nobody in.
func TestCodeCountsOnce(t *testing.T) {
	d := newIssuer(t).desk(nil)
	q := d.start()
	back := url.Values{"code": {"good"}, "state": {q.Get("state")}}
	if _, _, err := d.finish(back); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.finish(back); !errors.Is(err, &login.Error{Reason: login.NotBegun}) || d.grants != 1 {
		t.Error(err, d.grants)
	}
}

// TestWho: name, role and tenants from the claims.
func TestWho(t *testing.T) {
	for _, c := range []struct {
		what    string
		claims  map[string]any
		change  func(*login.Settings)
		name    string
		role    central.Role
		tenants []string
	}{
		{"an address that is not verified", map[string]any{"email_verified": false}, nil, "u-1", central.Responder, nil},
		{"an address that nobody vouches for", map[string]any{"email_verified": nil}, nil, "u-1", central.Responder, nil},
		{"verified, as a text", map[string]any{"email_verified": "true"}, nil, "u-1", central.Responder, nil},
		{"the subject", nil, func(s *login.Settings) { s.NameClaim = "sub" }, "u-1", central.Responder, nil},
		{"one group as a text", map[string]any{"groups": "boss"}, nil, "alice@example.com", central.Admin, nil},
		{"the higher role", map[string]any{"groups": []string{"all", "sre"}}, nil, "alice@example.com", central.Responder, nil},
		{"tenants", map[string]any{"groups": []string{"globex-soc", "acme-soc", "acme-soc"}}, nil, "alice@example.com", central.Responder, []string{"acme", "globex"}},
		{"a lower role of all adds nothing", map[string]any{"groups": []string{"all", "acme-soc"}}, nil, "alice@example.com", central.Responder, []string{"acme"}},
		{"nor when it comes later", map[string]any{"groups": []string{"acme-soc", "all"}}, nil, "alice@example.com", central.Responder, []string{"acme"}},
		{"the same role of all", map[string]any{"groups": []string{"acme-soc", "sre"}}, nil, "alice@example.com", central.Responder, nil},
		{"a name with =", map[string]any{"groups": []string{"cn=x,ou=y"}}, nil, "alice@example.com", central.Viewer, nil},
		{"a pointer", map[string]any{"realm_access": map[string]any{"a/b": []string{"all"}}}, func(s *login.Settings) { s.RolesClaim = "/realm_access/a~1b" }, "alice@example.com", central.Viewer, nil},
		{"a claim that is an address", map[string]any{"https://x.test/roles": []string{"all"}}, func(s *login.Settings) { s.RolesClaim = "https://x.test/roles" }, "alice@example.com", central.Viewer, nil},
		{"several audiences, made for us", map[string]any{"aud": []string{clientID, "other"}, "azp": clientID}, nil, "alice@example.com", central.Responder, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			i := newIssuer(t)
			i.claims = c.claims
			p, err := i.desk(c.change).login()
			if err != nil || p.Name != c.name || !slices.Equal(p.Roles, []central.Role{c.role}) || !slices.Equal(p.Tenants, c.tenants) {
				t.Errorf("%+v %v", p, err)
			}
		})
	}
}

// TestIssuerAway: nothing is asked before somebody logs in, and a login works as soon as the issuer is back.
func TestIssuerAway(t *testing.T) {
	i := newIssuer(t)
	d := i.desk(nil)
	i.discovery = map[string]any{"issuer": "https://other.test"}
	if _, err := d.oidc.Start(httptest.NewRecorder(), d.request("/"), "/"); !errors.Is(err, &login.Error{Reason: login.IssuerUnreachable}) {
		t.Fatal(err)
	}
	i.discovery = nil
	if _, err := d.login(); err != nil {
		t.Error(err)
	}
}

// TestReplicas: a login that began at one replica ends at another with the same key, and at none with another key.
func TestReplicas(t *testing.T) {
	i := newIssuer(t)
	a, b := i.desk(nil), i.desk(nil)
	q := a.start()
	b.cookies = a.cookies
	if _, _, err := b.finish(url.Values{"code": {"good"}, "state": {q.Get("state")}}); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := a.sessions.Who(b.request("/")); !ok {
		t.Error("the other replica does not know the session")
	}
	other, err := login.NewSessions(bytes.Repeat([]byte{2}, 32), false, time.Hour, nil, nil)
	check(t, err)
	if _, _, ok := other.Who(b.request("/")); ok {
		t.Error("another key opens it")
	}
}

// TestBearer: access tokens for the API's audience, and no others.
func TestBearer(t *testing.T) {
	i := newIssuer(t)
	d := i.desk(func(s *login.Settings) { s.Audience = "killswitch-api" })
	own := api.Tokens{}
	own.Add("tgks_x", central.Principal{Name: "own"})
	bearer := &login.Bearer{Tokens: own, OIDC: d.oidc}
	ask := func(b *login.Bearer, token string) (central.Principal, error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/overview", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		return b.Authenticate(r)
	}
	mint := func(change map[string]any) string {
		i.claims = map[string]any{"aud": "killswitch-api", "azp": "robot", "sub": "robot", "email": nil}
		for k, v := range change {
			i.claims[k] = v
		}
		return i.idToken()
	}
	if p, err := ask(bearer, mint(nil)); err != nil || p.Name != "robot" || !p.May(central.Responder) {
		t.Error(p, err)
	}
	if p, err := ask(bearer, "tgks_x"); err != nil || p.Name != "own" {
		t.Error(p, err)
	}
	for what, token := range map[string]string{
		"an ID token": mint(map[string]any{"aud": clientID}), "no role": mint(map[string]any{"groups": nil}), "another issuer": mint(map[string]any{"iss": "https://x.test"}),
		"expired": mint(map[string]any{"exp": 1}), "nothing": "", "dots": "..", "an unknown one": "tgks_y",
	} {
		if p, err := ask(bearer, token); err == nil || p.Name != "" {
			t.Errorf("%s: %v %v", what, p, err)
		}
	}
	if p, err := ask(&login.Bearer{Tokens: own, OIDC: i.desk(nil).oidc}, mint(nil)); err == nil {
		t.Error("without an audience:", p)
	}
}

// TestSettings: what could let in more people than meant is refused at the start.
func TestSettings(t *testing.T) {
	for _, bad := range [][]string{
		{"sre"}, {"=viewer"}, {"sre=root"}, {"sre="}, {"sre=viewer@"}, {"sre=viewer@a,"}, {"sre=viewer", "sre=admin"}, {"sre=Viewer"},
	} {
		if m, err := login.ParseRoleMap(bad); err == nil {
			t.Errorf("%q: %v", bad, m)
		}
	}
	roles := login.RoleMap{"x": {Role: central.Viewer}}
	for _, bad := range []login.Settings{
		{Issuer: "http://login.example.com", ClientID: "c", RolesClaim: "g", Roles: roles}, {Issuer: "login.example.com", ClientID: "c", RolesClaim: "g", Roles: roles},
		{Issuer: "https://i.test", RolesClaim: "g", Roles: roles}, {Issuer: "https://i.test", ClientID: "c", RolesClaim: "g"},
	} {
		if _, err := login.NewOIDC(bad, nil); err == nil {
			t.Errorf("taken: %+v", bad)
		}
	}
}
