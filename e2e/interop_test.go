package e2e

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// finding is a row of docs/interop.md: what a peer answered to a request, and what the sidecar made of it. A test puts it together of
// what it saw, so that a peer that changes its mind is noticed.
type finding struct{ feature, answered, sidecar string }

// checkFindings compares what was found with the page's table of that peer.
func checkFindings(t *testing.T, peer string, found []finding) {
	t.Helper()
	if t.Failed() {
		return
	}
	const page = "../docs/interop.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+peer+":begin -->\n", "<!-- "+peer+":end -->\n"
	var table strings.Builder
	table.WriteString("| feature | what it answered | the sidecar |\n|---|---|---|\n")
	for _, f := range found {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", f.feature, f.answered, f.sidecar)
	}
	head, rest, ok1 := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table of %s", page, peer)
	}
	want := head + begin + table.String() + end + tail
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what was found:\n%s\nrun the test with -update and read what has changed", page, table.String())
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// relay is an upstream that ends TLS and has one of the peers answer: a resource server that we did not write.
type relay struct {
	port string
	mu   sync.Mutex
	seen []*http.Request
}

// newRelay replaces the world's upstream. to is the peer's URL; asIs keeps the host that was asked for.
func newRelay(t *testing.T, w *world, to string, asIs bool) *relay {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	u := &relay{}
	cert, caPEM := upstreamPKI(t, ordersHost, wideHost, unknownHost, plainHost)
	onward := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		if asIs {
			p.Out.Host = p.In.Host
			p.Out.Header.Set("X-Forwarded-Proto", "https")
		}
	}}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.seen = append(u.seen, r.Clone(r.Context()))
		u.mu.Unlock()
		if host, _, _ := strings.Cut(r.Host, ":"); host == ordersHost {
			onward.ServeHTTP(w, r)
		}
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	_, u.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	write(t, w.dir, "upstream-ca.pem", caPEM)
	w.render(t, "manifest.yaml", "manifest.yaml", map[string]string{"Port": u.port})
	return u
}

// last returns the newest request.
func (u *relay) last(t *testing.T) *http.Request {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	return u.seen[len(u.seen)-1]
}

func (u *relay) url(host, path string) string { return "https://" + host + ":" + u.port + path }

// startWith runs a sidecar with these bindings, given as YAML with %PORT for the upstream's.
func (w *world) startWith(t *testing.T, u *relay, bindings string) *sidecar {
	t.Helper()
	text := strings.ReplaceAll(bindings, "%PORT", u.port)
	w.render(t, "interop.yaml", "interop.yaml", map[string]string{"Port": u.port, "Bindings": text})
	s := w.run(t, "interop", "tool", "tokenfile", "admin")
	eventually(t, "the sidecar is ready", s.ready)
	return s
}

// refusal is the reason that the sidecar gives the tool.
func refusal(t *testing.T, a answer) string {
	t.Helper()
	var p struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Code == "" {
		t.Fatalf("%d %s is no refusal", a.status, a.body)
	}
	detail := strings.TrimSuffix(p.Detail, ".")
	return "refuses: `" + detail[strings.LastIndexByte(detail, ' ')+1:] + "`"
}

// asked posts a form by hand, and returns the status with the JSON.
func asked(t *testing.T, endpoint string, form url.Values, id, secret string, header http.Header) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if len(bytes.TrimSpace(b)) > 0 && json.Unmarshal(b, &v) != nil {
		v = map[string]any{"error": "no JSON"}
	}
	return res.StatusCode, v
}

// told describes an answer of a token endpoint without its token.
func told(status int, v map[string]any) string {
	if code, ok := v["error"]; ok {
		return fmt.Sprintf("%d `%v`", status, code)
	}
	var parts []string
	if seconds, ok := v["expires_in"].(float64); ok { // it counts down while the test runs
		v["expires_in"] = 60 * math.Ceil(seconds/60)
	}
	for _, k := range []string{"token_type", "issued_token_type", "expires_in", "scope"} {
		if v[k] == nil {
			parts = append(parts, "no `"+k+"`")
			continue
		}
		parts = append(parts, "`"+k+"` `"+strings.TrimPrefix(fmt.Sprint(v[k]), "urn:ietf:params:oauth:token-type:")+"`")
	}
	return fmt.Sprintf("%d, %s", status, strings.Join(parts, ", "))
}

// claimsOf decodes a JWT's claims without judging them.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%.12s… is no JWT", token)
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// readFile returns a file of the world's folder.
func (w *world) readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// insecureTo trusts the world's upstream by its CA and for one of its names.
func insecureTo(t *testing.T, w *world) *tls.Config {
	t.Helper()
	return &tls.Config{RootCAs: roots(t, filepath.Join(w.dir, "upstream-ca.pem")), ServerName: ordersHost}
}

// sendWith sends a request with these headers to address, for host.
func sendWith(t *testing.T, c *http.Client, method, address, host string, h http.Header) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header, req.Host = h, host
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var v map[string]any
	if json.NewDecoder(res.Body).Decode(&v) != nil {
		v = map[string]any{"error": "no JSON"}
	}
	return res.StatusCode, v
}

// thumbprint is RFC 7638's of the key in a proof's header.
func thumbprint(t *testing.T, proof string) string {
	t.Helper()
	tok, err := jwt.ParseSigned(proof, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := tok.Headers[0].JSONWebKey.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}
