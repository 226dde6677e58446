package interop

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// exampleUser is one whom the example knows.
const exampleUser = "id1"

// finding is a row of docs/interop.md.
type finding struct{ feature, answered, sidecar string }

// TestInteropZitadel: what zitadel's example gives, with the storage that its authors wrote and with a strict one, and what the sidecar
// makes of it. Rows are put together of what was seen.
func TestInteropZitadel(t *testing.T) {
	w := newWorld(t)
	w.write(t, "task.jwt", must[string](t)(w.issuer.Mint(map[string]any{"sub": exampleUser, "aud": "toolgate", "may_act": map[string]any{"sub": "workload"}})))
	workload := must[string](t)(w.issuer.Mint(map[string]any{"sub": "workload", "aud": "provider"}))
	w.write(t, "workload.jwt", workload)
	w.write(t, "client-secret", providerSecret)
	var mu sync.Mutex
	arrived := map[string]string{}
	port := w.serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		host, _, _ := strings.Cut(r.Host, ":")
		arrived[host] = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}), true)
	strict := startProvider(t, w.issuer, true, false)
	example := startProvider(t, w.issuer, false, false)
	opaque := startProvider(t, w.issuer, false, true)
	w.hosts = []string{"strict.test", "example.test", "opaque.test", "wide.test"}
	w.clouds = strict.binding(w, "strict", port, "orders:read") + example.binding(w, "example", port, "orders:read") +
		opaque.binding(w, "opaque", port, "admin:all") + strict.binding(w, "wide", port, "admin:all")
	s := w.start(t)

	var found []finding
	through := func(name string) string {
		t.Helper()
		status, body := callThrough(t, w, s, urlOf("https", name+".test", port, "/v1"))
		if status == http.StatusOK {
			return "accepts"
		}
		return refusedAs(t, body)
	}
	by := func(p *provider, change func(url.Values)) string {
		form := url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
			"subject_token": {must[string](t)(w.issuer.Mint(map[string]any{"sub": exampleUser, "aud": "toolgate"}))}, "subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"},
			"actor_token": {workload}, "actor_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "audience": {providerAudience}, "scope": {"orders:read"},
		}
		change(form)
		return exchangeByHand(t, p, form)
	}
	same := func(url.Values) {}
	wide := func(f url.Values) { f.Set("scope", "admin:all") }
	found = append(found,
		finding{"token exchange, strict storage", by(strict, same), through("strict")},
		finding{"a scope that the client may not have, strict storage", by(strict, wide), through("wide")},
		finding{"token exchange, the example's storage", by(example, same), through("example")},
		finding{"a scope that the client may not have, the example's storage, opaque", by(opaque, wide), through("opaque") + ": it was asked for; whether the client may have it only the issuer knows"},
		finding{"an ID token for the access token", by(example, func(f url.Values) { f.Set("requested_token_type", "urn:ietf:params:oauth:token-type:id_token") }), "cannot be configured to ask for one"},
		finding{"a JWT (`requested_token_type` `jwt`)", by(strict, func(f url.Values) { f.Set("requested_token_type", "urn:ietf:params:oauth:token-type:jwt") }), "refuses: `invalid_request`"},
	)
	if typ := headerOf(t, arrived["strict.test"])["typ"]; typ != nil {
		found = append(found, finding{"`typ` of a JWT access token", fmt.Sprintf("`%v`", typ), "does not look at it"})
	}
	if strings.Count(arrived["opaque.test"], ".") == 2 || arrived["example.test"] != "" {
		t.Error("what the upstream was sent is not what was meant to be tested")
	}
	checkFindings(t, "zitadel", found)
}

// callThrough makes a call with the sidecar as the proxy.
func callThrough(t *testing.T, w *world, s *sidecar, to string) (int, string) {
	t.Helper()
	tr := &http.Transport{Proxy: http.ProxyURL(s.proxyURL()), TLSClientConfig: &tls.Config{RootCAs: roots(t, w.path("intercept-ca.pem"))}}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, string(must[[]byte](t)(io.ReadAll(res.Body)))
}

func refusedAs(t *testing.T, body string) string {
	t.Helper()
	var p struct{ Detail string }
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%q is no refusal", body)
	}
	detail := strings.TrimSuffix(p.Detail, ".")
	return "refuses: `" + detail[strings.LastIndexByte(detail, ' ')+1:] + "`"
}

// exchangeByHand describes an answer without its token.
func exchangeByHand(t *testing.T, p *provider, form url.Values) string {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/oauth/token", strings.NewReader(form.Encode())))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(providerClient, providerSecret)
	res := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer func() { _ = res.Body.Close() }()
	var v map[string]any
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	if v["error"] != nil {
		return fmt.Sprintf("%d `%v`", res.StatusCode, v["error"])
	}
	var parts []string
	for _, k := range []string{"token_type", "issued_token_type", "expires_in", "scope"} {
		if v[k] == nil {
			parts = append(parts, "no `"+k+"`")
			continue
		}
		if k == "expires_in" { // 299 at times
			parts = append(parts, "`expires_in`")
			continue
		}
		parts = append(parts, "`"+k+"` `"+strings.TrimPrefix(fmt.Sprint(v[k]), "urn:ietf:params:oauth:token-type:")+"`")
	}
	token, _ := v["access_token"].(string)
	if strings.Count(token, ".") == 2 && v["token_type"] != "N_A" {
		c := partOf(t, token, 1)
		act, _ := c["act"].(map[string]any)
		parts = append(parts, fmt.Sprintf("JWT with `aud` `%v`, `sub` `%v`", c["aud"], c["sub"]))
		if act == nil {
			parts[len(parts)-1] += ", no `act`"
		} else {
			parts[len(parts)-1] += fmt.Sprintf(", `act.sub` `%v`", act["sub"])
		}
	}
	return fmt.Sprintf("%d, %s", res.StatusCode, strings.Join(parts, ", "))
}

func headerOf(t *testing.T, token string) map[string]any { return partOf(t, token, 0) }

// partOf decodes a JWT's header (0) or claims (1) without judging them.
func partOf(t *testing.T, token string, i int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%.12q… is no JWT", token)
	}
	var v map[string]any
	if err := json.Unmarshal(must[[]byte](t)(base64.RawURLEncoding.DecodeString(parts[i])), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// checkFindings compares what was found with the page's table of that peer.
func checkFindings(t *testing.T, peer string, found []finding) {
	t.Helper()
	if t.Failed() {
		return
	}
	const page = "../../docs/interop.md"
	text := string(must[[]byte](t)(os.ReadFile(page)))
	begin, end := "<!-- "+peer+":begin -->\n", "<!-- "+peer+":end -->\n"
	var table strings.Builder
	table.WriteString("| feature | what it answered | the sidecar |\n|---|---|---|\n")
	for _, f := range found {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", f.feature, f.answered, f.sidecar)
	}
	head, rest, ok1 := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table of %s", page, peer)
	}
	want := head + begin + table.String() + end + tail
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("%s is not what was found:\n%s\nrun the test with -update and read what has changed", page, table.String())
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
