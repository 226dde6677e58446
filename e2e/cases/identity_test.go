//go:build linux

package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

func identityCases() []replay {
	return []replay{
		{"IDN-01", "RFC 8725", "alg none, nOnE, and HS256 with the issuer's public RSA key as secret", "407 for all; the upstream gets nothing", algorithmConfusion},
		{"IDN-02", "CVE-2024-5798 (vault), CVE-2020-26160 (jwt-go)", "aud missing, empty, another's, another's in a list, an object; and ours in a list", "407 for all but the last", audiences},
		{"IDN-03", "CVE-2025-52477 (octo-sts), CVE-2026-32301 (centrifugo)", "iss of the metadata service and of an attacker, with jku and x5u", "407; nothing is dialled or looked up", steeredFetch},
		{"IDN-05", "CVE-2026-49478 (fulcio)", "discovery that answers with a redirect", "it is not followed, no token is sent on, keys stay, and /readyz says so", redirectedDiscovery},
		{"IDN-11", "coreos/go-oidc#316, sbomify#1012, tailscale/tsidp#73", "iat and nbf 5 s ahead, nbf 10 min ahead, exp 5 s and 5 min ago", "accepted, refused, accepted within the leeway of 30 s, refused", skew},
		{"IDN-12", "CVE-2025-30204 (golang-jwt), CVE-2025-27144 (go-jose)", "a million dots, 5 MiB, and as many dots as a header may have", "407 or 431; little is allocated", separators},
		{"IDN-14", "CVE-2026-40574 (oauth2-proxy)", "two tenants in one payload, a list, a number, a NUL, a space before", "407 for all", ambiguousClaims},
		{"IDN-17", "CVE-2026-44883 (portainer), CVE-2026-33620 (PinchTab)", "a good token in the query and nowhere else", "407; the token is in no log", tokenInURL},
		{"IDN-18", "stripe/smokescreen#279", "three requests on one connection: tenant A's token, none, tenant B's", "200, 407, and the third is judged as tenant B's", reusedConnection},
		{"IDN-19", "CVE-2024-41666 (argo-cd)", "an intercepted tunnel that outlives its token", "the first request is answered; the one after exp and leeway is not", expiredTunnel},
		{"IDN-20", "RFC 9068, RFC 8725", "a token for the API server, an ID token of another client, a typ that the config does not have, an unknown crit", "407 for all", otherKinds},
		// The last two take the time that lies between two fetches of keys; the area's own issuer was asked before.
		{"IDN-10", "fault test: the issuer is down at the start", "a good token while the issuer cannot be reached, and after it is back", "503 and not ready; then it heals by itself", coldStart},
		{"IDN-09", "CVE-2025-64527 (envoy)", "200 requests while the key set is reset, hangs, is 500, HTML or 100 MiB", "no crash; what the held keys verify goes on, an unknown kid is 407 or 503", failingKeys},
	}
}

// as asks for a plain URL with a token.
func (w *world) as(t *testing.T, token string) answer {
	t.Helper()
	return w.once(t, "GET", "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: Bearer "+token+"\r\nConnection: close\r\n\r\n")
}

// refused fails the test unless a token is answered with 407 for the reason, and reaches nobody.
func (w *world) refused(t *testing.T, what, token, reason string) {
	t.Helper()
	got := w.as(t, token)
	got.is(t, what, http.StatusProxyAuthRequired)
	if !strings.Contains(got.body, "not accepted: "+reason+".") {
		t.Errorf("%s: want reason %s\n%s", what, reason, got.body)
	}
	w.none(t)
	w.silent(t)
}

// token mints one like tenant A's with changes; nil leaves a claim out.
func (w *world) token(t *testing.T, header, over map[string]any, alg string) string {
	t.Helper()
	claims := map[string]any{"sub": "user:alice", "aud": "toolgate", "tenant": "A", "agent_id": "a1", "task_id": "k1", "run_id": "r1"}
	maps.Copy(claims, over)
	token, err := w.issuer.MintWith(header, claims, alg)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ownIssuer is a lab like l with an issuer of its own, which a case may spoil.
func (l *lab) ownIssuer(t *testing.T, algorithms ...string) *lab {
	t.Helper()
	issuer, stop, err := devissuer.Start(devissuer.Options{Algorithms: algorithms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	at, err := url.Parse(issuer.URL())
	if err != nil {
		t.Fatal(err)
	}
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(at.Host))
	own := *l
	own.issuer = issuer
	return &own
}

// believing changes the settings of the issuer, which follow its audiences.
func believing(more string) func(*settings) {
	return func(s *settings) { s.issuer = strings.TrimSuffix(s.issuer, "}") + ", " + more + "}" }
}

func algorithmConfusion(t *testing.T, w *world) {
	rsa := w.lab.ownIssuer(t, "RS256").world(t)
	rsa.as(t, rsa.token(t, nil, nil, "RS256")).is(t, "a good one", http.StatusOK)
	w.up.reset()
	w.wire.forget()
	for _, alg := range []string{"none", "nOnE", "HS256"} {
		rsa.refused(t, alg, rsa.token(t, nil, nil, alg), "algorithm")
	}
}

func audiences(t *testing.T, w *world) {
	for _, aud := range []any{nil, []string{}, "other", []string{"other"}, map[string]any{"x": 1}, []any{"toolgate", 1}} {
		w.refused(t, fmt.Sprint("aud ", aud), w.token(t, nil, map[string]any{"aud": aud}, "ES256"), "audience")
	}
	w.as(t, w.token(t, nil, map[string]any{"aud": []string{"other", "toolgate"}}, "ES256")).is(t, "ours in a list", http.StatusOK)
}

func steeredFetch(t *testing.T, w *world) {
	for _, iss := range []string{"http://169.254.169.254/", "http://169.254.169.254", "https://evil.test", w.issuer.URL() + "/", w.issuer.URL() + "@evil.test"} {
		w.refused(t, iss, w.token(t, map[string]any{"jku": "http://169.254.169.254/latest", "x5u": "https://evil.test/x"}, map[string]any{"iss": iss}, "ES256"), "issuer")
	}
	fetched := w.issuer.Count(devissuer.PathJWKS)
	// A good token may carry such headers. Nobody looks there.
	w.as(t, w.token(t, map[string]any{"jku": "http://169.254.169.254/latest", "x5u": "https://evil.test/x"}, nil, "ES256")).is(t, "a good one", http.StatusOK)
	if n := w.issuer.Count(devissuer.PathJWKS); n != fetched {
		t.Errorf("%d fetches of keys", n-fetched)
	}
	for _, q := range w.dns.questions() {
		if strings.Contains(q.name, "evil") {
			t.Errorf("the name server was asked for %s", q.name)
		}
	}
}

func redirectedDiscovery(t *testing.T, w *world) {
	own := w.lab.ownIssuer(t)
	own.issuer.SetFaults(devissuer.Faults{Redirect: "http://evil.test/.well-known/openid-configuration"})
	bad := own.files(t, believing("tokenFile: secret-a"))
	bad.startUntil(t, "the sidecar listens", func() bool { return true })
	bad.as(t, bad.tokenA).is(t, "a good token", http.StatusServiceUnavailable)
	if status, body := bad.adminGet("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, own.issuer.URL()) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	w.unasked(t)
	w.silent(t)
	if own.issuer.Count(devissuer.PathDiscovery) == 0 {
		t.Error("nobody asked for discovery")
	}
	// Keys that are held stay.
	w.issuer.SetFaults(devissuer.Faults{Redirect: "http://evil.test/"})
	defer w.issuer.SetFaults(devissuer.Faults{})
	w.as(t, w.token(t, nil, nil, "ES256")).is(t, "a new token by a held key", http.StatusOK)
}

func skew(t *testing.T, w *world) {
	now := time.Now().Unix()
	for _, tt := range []struct {
		over   map[string]any
		reason string
	}{
		{map[string]any{"iat": now + 5, "nbf": now + 5}, ""}, {map[string]any{"nbf": now + 600}, "not_yet_valid"},
		{map[string]any{"exp": now - 5}, ""}, {map[string]any{"exp": now - 300}, "expired"}, {map[string]any{"exp": now - 61}, "expired"},
	} {
		w.up.reset()
		w.wire.forget()
		token := w.token(t, nil, tt.over, "ES256")
		if tt.reason == "" {
			w.as(t, token).is(t, fmt.Sprint(tt.over), http.StatusOK)
		} else {
			w.refused(t, fmt.Sprint(tt.over), token, tt.reason)
		}
	}
}

func separators(t *testing.T, w *world) {
	began := w.metric(t, "go_memstats_alloc_bytes_total", "")
	for _, token := range []string{strings.Repeat(".", 1_000_000), strings.Repeat("a", 5<<20), strings.Repeat(".", 60_000), strings.Repeat("a.", 30_000), strings.Repeat(".", 16<<10)} {
		statuses := []int{http.StatusProxyAuthRequired, http.StatusRequestHeaderFieldsTooLarge}
		if len(token) > 64<<10 {
			statuses = append(statuses, 0) // who still sends when the answer comes may lose it to the reset of the connection
		}
		w.as(t, token).is(t, fmt.Sprintf("%d bytes", len(token)), statuses...)
	}
	if n := w.metric(t, "go_memstats_alloc_bytes_total", "") - began; n > 8<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
	w.none(t)
	w.silent(t)
}

func ambiguousClaims(t *testing.T, w *world) {
	kid := w.issuer.Keys().Keys[0].KeyID
	for _, tenants := range []string{
		`"tenant":"A","tenant":"B"`, `"tenant":"A","tenant":"A"`, `"tenant":"A","Tenant":"B"`, `"tenant":["A","B"]`, `"tenant":["A"]`, `"tenant":5`,
		`"tenant":"A\u0000B"`, `"tenant":" A"`, `"tenant":null,"tenant_id":5`, `"tenant":"A","act":{"sub":"x","sub":"y"}`,
	} {
		payload := fmt.Sprintf(`{"iss":%q,"sub":"user:alice","aud":"toolgate","exp":%d,"task_id":"k1",%s}`, w.issuer.URL(), time.Now().Unix()+300, tenants)
		token, err := w.issuer.Sign([]byte(`{"alg":"ES256","kid":"`+kid+`"}`), []byte(payload), "ES256")
		if err != nil {
			t.Fatal(err)
		}
		w.refused(t, tenants, token, "claim")
	}
}

func tokenInURL(t *testing.T, w *world) {
	for _, query := range []string{"access_token=" + w.tokenA, "token=" + w.tokenA, "a=b&access_token=" + w.tokenA} {
		w.once(t, "GET", "GET http://api.ok.test/?"+query+" HTTP/1.1\r\nHost: api.ok.test\r\nConnection: close\r\n\r\n").is(t, query, http.StatusProxyAuthRequired)
		w.once(t, "GET", "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nCookie: "+query+"\r\nAuthorization: Bearer "+w.tokenA+"\r\nConnection: close\r\n\r\n").is(t, "elsewhere", http.StatusProxyAuthRequired)
	}
	w.none(t)
	w.silent(t)
	eventually(t, "six records", func() bool { return strings.Count(w.stdout.String(), `"unauthenticated"`) >= 6 })
	signature := w.tokenA[strings.LastIndexByte(w.tokenA, '.')+1:]
	if strings.Contains(w.printed(), signature) {
		t.Error("the token was printed")
	}
}

func reusedConnection(t *testing.T, shared *world) {
	w := shared.lab.world(t) // of its own: records of the cases before may still be on their way
	a := w.dial(t)
	for i, tt := range []struct {
		auth   string
		status int
	}{{"Proxy-Authorization: Bearer " + w.tokenA + "\r\n", 200}, {"", 407}, {"Proxy-Authorization: Bearer " + w.tokenB + "\r\n", 200}} {
		a.send(t, "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\n"+tt.auth+"\r\n")
		a.read(t, "GET").is(t, fmt.Sprint("request ", i+1), tt.status)
	}
	var tenants []string
	eventually(t, "three records", func() bool {
		tenants = nil
		for _, r := range w.records() {
			if r.Host == "api.ok.test" {
				tenants = append(tenants, r.Tenant)
			}
		}
		return len(tenants) >= 3
	})
	if got := strings.Join(tenants, ","); got != "A,,B" {
		t.Errorf("tenants %s", got)
	}
}

func expiredTunnel(t *testing.T, w *world) {
	strict := w.lab.world(t, believing("leeway: 1s"))
	exp := time.Now().Add(3 * time.Second).Unix()
	strict.tokenA = strict.token(t, nil, map[string]any{"exp": exp}, "ES256")
	a := strict.inside(t, "api.ok.test:443")
	ask := "GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n"
	a.send(t, ask)
	a.read(t, "GET").is(t, "before", http.StatusOK)
	w.up.reset()
	after := time.NewTimer(time.Until(time.Unix(exp, 0).Add(3 * time.Second)))
	defer after.Stop()
	<-after.C
	a.send(t, ask)
	if got := a.read(t, "GET"); got.status != 0 {
		got.is(t, "after", http.StatusProxyAuthRequired)
	}
	w.none(t)
}

func otherKinds(t *testing.T, w *world) {
	jwtOnly := w.lab.world(t, believing("types: [jwt]"))
	jwtOnly.as(t, jwtOnly.token(t, nil, nil, "ES256")).is(t, "a good one", http.StatusOK)
	w.up.reset()
	w.wire.forget()
	pod := json.RawMessage(`{"namespace":"a","pod":{"name":"p","uid":"u"},"serviceaccount":{"name":"s","uid":"v"}}`)
	for _, tt := range []struct {
		what         string
		header, over map[string]any
		reason       string
	}{
		{"a token for the API server", nil, map[string]any{"aud": []string{"https://kubernetes.default.svc"}, "sub": "system:serviceaccount:a:s", "kubernetes.io": pod}, "audience"},
		{"an ID token of another client", nil, map[string]any{"aud": "another-client", "azp": "another-client", "nonce": "n", "at_hash": "h"}, "audience"},
		{"at+jwt", map[string]any{"typ": "at+jwt"}, nil, "type"},
		{"a logout token", map[string]any{"typ": "logout+jwt"}, nil, "type"},
		{"no typ", map[string]any{"typ": nil}, nil, "type"},
		{"an unknown crit", map[string]any{"crit": []string{"urn:x"}, "urn:x": true}, nil, "malformed"},
	} {
		jwtOnly.refused(t, tt.what, jwtOnly.token(t, tt.header, tt.over, "ES256"), tt.reason)
	}
}

func coldStart(t *testing.T, w *world) {
	own := w.lab.ownIssuer(t)
	own.issuer.SetFaults(devissuer.Faults{Reset: true})
	cold := own.files(t)
	cold.startUntil(t, "the sidecar listens", func() bool { return true })
	cold.as(t, cold.token(t, nil, nil, "ES256")).is(t, "a good token", http.StatusServiceUnavailable)
	if cold.ready() {
		t.Error("ready without keys")
	}
	w.none(t)
	w.silent(t)
	own.issuer.SetFaults(devissuer.Faults{})
	limit := time.Now().Add(45 * time.Second) // 30 s lie between two attempts
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for !cold.ready() {
		if time.Now().After(limit) {
			t.Fatal("not ready 45 s after the issuer is back")
		}
		<-tick.C
	}
	cold.as(t, cold.token(t, nil, nil, "ES256")).is(t, "afterwards", http.StatusOK)
}

func failingKeys(t *testing.T, w *world) {
	faults := map[string]devissuer.Faults{
		"reset": {Reset: true}, "hang": {Hang: true}, "500": {JWKSStatus: 500}, "html": {JWKSBody: "<html><body>sign in</body></html>"}, "100 MiB": {HugeBody: 100 << 20},
	}
	for name, f := range faults { // in which a verification waits for the fetch
		own := w.lab.ownIssuer(t)
		own.issuer.SetFaults(f)
		cold := own.files(t)
		cold.startUntil(t, "the sidecar listens", func() bool { return true })
		cold.crowd(t, name+", no keys", 200, func(int) (string, []int) { return cold.tokenA, []int{http.StatusServiceUnavailable} })
	}
	w.none(t)
	unknown := w.token(t, map[string]any{"kid": "unknown"}, nil, "ES256")
	defer w.issuer.SetFaults(devissuer.Faults{})
	for _, name := range []string{"reset", "hang", "500", "html", "100 MiB"} { // the first of which is met by a fetch, for the unknown kid
		w.issuer.SetFaults(faults[name])
		tokens := make([]string, 100)
		for i := range tokens {
			tokens[i] = w.token(t, nil, map[string]any{"run_id": fmt.Sprint(name, i)}, "ES256")
		}
		w.crowd(t, name+", keys held", 200, func(i int) (string, []int) {
			if i%2 == 0 {
				return unknown, []int{http.StatusProxyAuthRequired, http.StatusServiceUnavailable}
			}
			return tokens[i/2], []int{http.StatusOK}
		})
	}
}

// crowd makes n requests at once.
func (w *world) crowd(t *testing.T, what string, n int, each func(i int) (token string, statuses []int)) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		token, statuses := each(i)
		a := w.dial(t)
		all.Go(func() {
			defer func() { _ = a.Close() }()
			a.send(t, "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: Bearer "+token+"\r\nConnection: close\r\n\r\n")
			a.read(t, "GET").is(t, what, statuses...)
		})
	}
	all.Wait()
}
