package broker

import (
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// shownProof is what a proof says, read by a library and not by what made it.
type shownProof struct {
	JTI   string `json:"jti"`
	HTM   string `json:"htm"`
	HTU   string `json:"htu"`
	ATH   string `json:"ath"`
	Nonce string `json:"nonce"`
	IAT   int64  `json:"iat"`
	jkt   string
}

// readProof verifies a proof with the key in it (RFC 9449, section 4.3).
func readProof(t testing.TB, raw string) (p shownProof) {
	t.Helper()
	tok, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("proof %q: %v", raw, err)
	}
	h := tok.Headers[0]
	if h.ExtraHeaders[jose.HeaderType] != "dpop+jwt" || h.JSONWebKey == nil || !h.JSONWebKey.IsPublic() {
		t.Fatalf("header %+v", h)
	}
	if err := tok.Claims(h.JSONWebKey, &p); err != nil {
		t.Fatal(err)
	}
	sum, err := h.JSONWebKey.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	p.jkt = b64(sum)
	return p
}

// dpopServer is a token endpoint that binds what it gives to the key of the proof. answer may change the token's cnf and type.
func dpopServer(t *testing.T, answer func(p shownProof, n int, w http.ResponseWriter) bool) *tokenServer {
	return newTokenServer(t, func(w http.ResponseWriter, r *http.Request, n int) {
		p := readProof(t, r.Header.Get("DPoP"))
		if answer != nil && answer(p, n, w) {
			return
		}
		write(w, 200, dpopBody("DPoP", fmt.Sprintf(`"cnf":{"jkt":%q},`, p.jkt)))
	})
}

func dpopBody(tokenType, cnf string) string {
	token := fakeJWT(fmt.Sprintf(`{"sub":"user:alice","aud":"https://api.orders.test",%s"exp":%d}`, cnf, time.Now().Add(time.Hour).Unix()))
	return fmt.Sprintf(`{"access_token":%q,"issued_token_type":%q,"token_type":%q,"expires_in":3600}`, token, typeAccessToken, tokenType)
}

func dpopBinding(url string) Binding {
	bd := exchangeBinding(url + "/token?tenant=acme")
	bd.TokenExchange.DPoP = true
	return bd
}

// applied returns the headers of a request to rawURL after Apply.
func applied(t *testing.T, c *Credential, method, rawURL string, h http.Header) http.Header {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	out := &http.Request{Method: method, URL: u, Host: strings.TrimSuffix(u.Host, ":443"), Header: h}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if _, err := c.Apply(out, nil); err != nil {
		t.Fatal(err)
	}
	return out.Header
}

func TestDPoPIsAskedForAndShown(t *testing.T) {
	s := dpopServer(t, nil)
	b, bd := mustNew(t, dpopBinding(s.URL), Options{})
	c := mustGet(t, b, bd, alice())
	asked := readProof(t, s.seen()[0].header.Get("DPoP"))
	if asked.HTM != "POST" || asked.HTU != s.URL+"/token" || asked.ATH != "" || asked.Nonce != "" || asked.JTI == "" ||
		time.Since(time.Unix(asked.IAT, 0)).Abs() > time.Minute {
		t.Errorf("the endpoint was shown %+v", asked)
	}
	tools := http.Header{"Dpop": {"the tool's"}, "DPoP": {"again"}, "D_pop": {"not this"}, "authorization": {"Bearer tool"}, "Authorization": {"x"}}
	h := applied(t, c, "PUT", "https://api.orders.test:443/v1/a%2Fb?q=1#f", tools)
	token, isDPoP := strings.CutPrefix(h.Get("Authorization"), "DPoP ")
	if !isDPoP || len(h["Dpop"]) != 1 || len(h) != 3 { // with the one that is not folded to it
		t.Fatalf("headers %v", h)
	}
	shown := readProof(t, h.Get("Dpop"))
	sum := sha256.Sum256([]byte(token))
	if shown.HTM != "PUT" || shown.HTU != "https://api.orders.test/v1/a%2Fb" || shown.ATH != b64(sum[:]) || shown.jkt != asked.jkt || shown.JTI == asked.JTI {
		t.Errorf("the upstream was shown %+v", shown)
	}
	again := readProof(t, applied(t, c, "GET", "https://api.orders.test:8443", nil).Get("Dpop"))
	if again.JTI == shown.JTI || again.HTU != "https://api.orders.test:8443/" || again.HTM != "GET" {
		t.Errorf("the next proof is %+v", again)
	}
}

func TestDPoPAnswersAreChecked(t *testing.T) {
	other := `"cnf":{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},`
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"a bearer token":             {dpopBody("Bearer", other), BadTokenType},
		"another key":                {dpopBody("DPoP", other), WrongKey},
		"no key":                     {dpopBody("DPoP", ""), WrongKey},
		"a key that is none":         {dpopBody("DPoP", `"cnf":"x",`), WrongKey},
		"a certificate in its stead": {dpopBody("DPoP", `"cnf":{"x5t#S256":"x"},`), WrongKey},
		"proof refused":              {`{"error":"invalid_dpop_proof"}`, InvalidProof},
		"nonce without a nonce":      {`{"error":"use_dpop_nonce"}`, InvalidProof},
	} {
		t.Run(name, func(t *testing.T) {
			s := dpopServer(t, func(_ shownProof, _ int, w http.ResponseWriter) bool {
				status := 200
				if strings.HasPrefix(c.body, `{"error"`) {
					status = 400
				}
				write(w, status, c.body)
				return true
			})
			b, bd := mustNew(t, dpopBinding(s.URL), Options{})
			_, err := b.Credential(t.Context(), bd, alice())
			wantReason(t, err, c.want)
			if n := len(s.seen()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
	t.Run("a bound token where none was asked for", func(t *testing.T) {
		s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, dpopBody("Bearer", other)) })
		b, bd := mustNew(t, exchangeBinding(s.URL), Options{})
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, WrongKey)
	})
	t.Run("DPoP where a bearer token was asked for", func(t *testing.T) {
		s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, dpopBody("DPoP", "")) })
		b, bd := mustNew(t, exchangeBinding(s.URL), Options{})
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, BadTokenType)
	})
}

func TestDPoPNonceOfTheEndpoint(t *testing.T) {
	demand := func(w http.ResponseWriter, nonce string) bool {
		w.Header().Set("DPoP-Nonce", nonce)
		write(w, 400, `{"error":"use_dpop_nonce"}`)
		return true
	}
	t.Run("is shown at once, remembered and replaced", func(t *testing.T) {
		s := dpopServer(t, func(p shownProof, n int, w http.ResponseWriter) bool {
			if p.Nonce == "" {
				return demand(w, "n-1")
			}
			w.Header().Set("DPoP-Nonce", fmt.Sprintf("after-%d", n))
			return false
		})
		bd := dpopBinding(s.URL)
		bd.TokenExchange.ClientAuth = ClientAuth{Method: "private_key_jwt", ClientID: "c", KeyFile: writeFile(t, pkcs8(t, ecKey(t, elliptic.P256())))}
		b, found := mustNew(t, bd, Options{})
		mustGet(t, b, found, alice())
		bob := alice()
		bob.Subject, bob.Task = "user:alice", "task-2"
		mustGet(t, b, found, bob)
		var nonces []string
		ids := map[string]bool{}
		for _, r := range s.seen() {
			nonces = append(nonces, readProof(t, r.header.Get("DPoP")).Nonce)
			ids[r.form.Get("client_assertion")] = true
		}
		if got := fmt.Sprint(nonces); got != "[ n-1 after-2]" || len(ids) != 3 {
			t.Errorf("nonces %s, %d assertions", got, len(ids))
		}
	})
	t.Run("is tried once", func(t *testing.T) {
		s := dpopServer(t, func(_ shownProof, n int, w http.ResponseWriter) bool { return demand(w, fmt.Sprintf("n-%d", n)) })
		b, bd := mustNew(t, dpopBinding(s.URL), Options{})
		_, err := b.Credential(t.Context(), bd, alice())
		wantReason(t, err, InvalidProof)
		if n := len(s.seen()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
	for name, h := range map[string]http.Header{
		"two": {"Dpop-Nonce": {"a", "b"}}, "a quote": {"Dpop-Nonce": {`a"b`}}, "a backslash": {"Dpop-Nonce": {`a\b`}}, "a space": {"Dpop-Nonce": {"a b"}},
		"none": {}, "empty": {"Dpop-Nonce": {""}}, "long": {"Dpop-Nonce": {strings.Repeat("a", maxNonce+1)}}, "high": {"Dpop-Nonce": {"é"}},
	} {
		if n := nonceOf(h); n != "" {
			t.Errorf("%s: %q is taken for a nonce", name, n)
		}
	}
	n := nonces{}
	for i := range 3 * maxNonces {
		if !n.note(fmt.Sprint(i), http.Header{"Dpop-Nonce": {"x"}}) || len(n.last) > maxNonces {
			t.Fatalf("%d servers are remembered", len(n.last))
		}
	}
}

func TestDPoPNonceOfTheUpstream(t *testing.T) {
	s := dpopServer(t, nil)
	b, bd := mustNew(t, dpopBinding(s.URL), Options{})
	c := mustGet(t, b, bd, alice())
	answer := func(target string, status int, challenge, nonce string) bool {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		return c.Answered(&http.Request{URL: u}, &http.Response{StatusCode: status, Header: http.Header{"Www-Authenticate": {challenge}, "Dpop-Nonce": {nonce}}})
	}
	const here, there, wants = "https://api.orders.test:443/", "https://other.test:443/", `DPoP algs="ES256", error="use_dpop_nonce"`
	if !answer(here, 401, wants, "n-1") || answer(here, 401, wants, "n-1") || answer(here, 200, "", "n-2") || answer(here, 401, `DPoP error="invalid_token"`, "n-3") {
		t.Error("what is worth sending again was misjudged")
	}
	if p := readProof(t, applied(t, c, "GET", here, nil).Get("Dpop")); p.Nonce != "n-3" {
		t.Errorf("nonce %q, want the newest", p.Nonce)
	}
	if p := readProof(t, applied(t, c, "GET", there, nil).Get("Dpop")); p.Nonce != "" {
		t.Errorf("another server is shown the nonce %q", p.Nonce)
	}
	if fresh("x", time.Time{}).Answered(&http.Request{}, &http.Response{StatusCode: 401}) {
		t.Error("a bearer token is worth sending again")
	}
}

func TestDPoPKeys(t *testing.T) {
	s := dpopServer(t, nil)
	b, bd := mustNew(t, dpopBinding(s.URL), Options{CacheSize: 4})
	jkt := func(change func(*Subject)) string {
		sub := alice()
		change(&sub)
		return readProof(t, applied(t, mustGet(t, b, bd, sub), "GET", "https://api.orders.test/", nil).Get("Dpop")).jkt
	}
	same := func(*Subject) {}
	first := jkt(same)
	if jkt(same) != first || jkt(func(s *Subject) { s.TokenID = "jti-2" }) != first {
		t.Error("one task has two keys")
	}
	seen := map[string]bool{first: true}
	for _, change := range []func(*Subject){
		func(s *Subject) { s.Task = "task-2" }, func(s *Subject) { s.Tenant = "evil" }, func(s *Subject) { s.Issuer = "https://other.test" },
	} {
		if k := jkt(change); seen[k] {
			t.Error("two tasks share a key")
		} else {
			seen[k] = true
		}
	}
	b.Drop(func(k Key) bool { return k.Task == "task-2" })
	if jkt(same) != first {
		t.Error("a key was dropped with another task's")
	}
	b.Drop(func(k Key) bool { return k.Task == "task-1" })
	if jkt(same) == first {
		t.Error("a key survived the kill")
	}
	mustGet(t, b, bd, alice())
	b.proofs.drop(func(Key) bool { return true }) // as if others had taken its place
	if mustGet(t, b, bd, alice()).Ref().Cached {
		t.Error("a token is used whose key is not kept any more")
	}
	for i := range 20 {
		jkt(func(s *Subject) { s.Task = fmt.Sprint(i) })
	}
	if n := b.proofs.keys.Len(); n != 4 {
		t.Errorf("%d keys are kept, want 4", n)
	}
}

func TestDPoPIssuers(t *testing.T) {
	for name, bind := range map[string]func(url string) Binding{
		"token exchange": dpopBinding,
		"client credentials": func(url string) Binding {
			return Binding{
				Name: "orders", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
				ClientCredentials: &ClientCredentials{TokenURL: url, Audience: "https://api.orders.test", DPoP: true,
					ClientAuth: ClientAuth{Method: "client_secret_post", ClientID: "c", SecretFile: writeFile(t, "client-SECRET")}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testIssuer(t, func(t *testing.T) issuerUnderTest {
				var mu sync.Mutex
				mode := ""
				set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
				s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
					readProof(t, r.Header.Get("DPoP"))
					mu.Lock()
					m := mode
					mu.Unlock()
					switch m {
					case "spoil":
						write(w, 400, `{"error":"invalid_dpop_proof","error_description":"`+r.PostFormValue("subject_token")+`"}`)
					case "hang":
						<-r.Context().Done()
					default:
						write(w, 200, strings.Replace(goodBody(`"expires_in":3600`), `"Bearer"`, `"dpop"`, 1))
					}
				})
				return issuerUnderTest{
					issuer: mustExchanger(t, bind(s.URL)), subject: alice(), secrets: []string{issuedSecret, subjectSecret, "client-SECRET"},
					spoil: set("spoil"), hang: set("hang"),
				}
			})
		})
	}
}

func TestProofQuotes(t *testing.T) {
	k, err := newProofKey()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := k.proof(`GE"T`, `https://a.test/"},\u0022`, "a", `n"`, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	if p := readProof(t, raw); p.HTM != `GE"T` || p.HTU != `https://a.test/"},\u0022` || p.Nonce != `n"` || p.IAT != 5 || p.jkt != k.jkt {
		t.Errorf("%+v", p)
	}
	if _, err := k.proof("\xff", "x", "", "", time.Now()); err == nil {
		t.Error("a proof of text that is none")
	}
}

func BenchmarkProof(b *testing.B) {
	k, err := newProofKey()
	if err != nil {
		b.Fatal(err)
	}
	c := &Credential{put: newProven(issuedSecret, k, &nonces{}, time.Now)}
	out := &http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Host: "api.orders.test:443", Path: "/v1/orders"}, Host: "api.orders.test", Header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Apply(out, nil)
	}
}
