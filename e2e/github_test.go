package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The forge's names: its git server and API, whose tokens the sidecar gets as an App; and another, which takes a fixed token.
const (
	forgeHost  = "forge.test"
	mirrorHost = "mirror.test"

	appToken    = "ghs_e2e0installation0token"
	mirrorToken = "e2e-mirror-token-77ab"
	placeholder = "TOOLGATE_MIRROR_TOKEN"
)

// forge serves git and an API as GitHub does: git takes the token as a password, the API as a bearer.
type forge struct {
	port, caPEM string
	key         *rsa.PrivateKey // of the App

	mu      sync.Mutex
	refused []string
	revoked int
}

func newForge(t *testing.T, root string) *forge {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &forge{key: key}
	cert, ca := upstreamPKI(t, forgeHost, mirrorHost)
	f.caPEM = ca
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v3/app/installations/42/access_tokens", f.issue)
	mux.HandleFunc("DELETE /api/v3/installation/token", f.revoke)
	mux.HandleFunc("GET /api/v3/repos/octo/tools", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"full_name":"octo/tools","seen":"`+r.Header.Get("Authorization")+`"}`)
	})
	mux.Handle("/git/", gitBackend(t, root))
	srv := httptest.NewUnstartedServer(f.guard(mux))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	_, f.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return f
}

// guard demands the token in the form that goes with what is asked for.
func (f *forge) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		user, password, _ := r.BasicAuth()
		ok := false
		switch {
		case host == mirrorHost:
			ok = user == "robot" && password == mirrorToken
		case strings.HasPrefix(r.URL.Path, "/git/"):
			ok = user == "x-access-token" && password == appToken
		case host == forgeHost:
			ok = r.Header.Get("Authorization") == "Bearer "+appToken
		default: // the sidecar's own, at the address
			ok = strings.HasPrefix(r.URL.Path, "/api/v3/app/") || r.Header.Get("Authorization") == "Bearer "+appToken
		}
		if !ok {
			f.mu.Lock()
			f.refused = append(f.refused, r.Method+" "+host+r.URL.Path)
			f.mu.Unlock()
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (f *forge) issue(w http.ResponseWriter, r *http.Request) {
	token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
	var c jwt.Claims
	if err == nil {
		err = token.Claims(f.key.Public(), &c)
	}
	if err != nil || c.Issuer != "Iv1.e2e" || c.Validate(jwt.Expected{Time: time.Now()}) != nil || c.Expiry.Time().After(time.Now().Add(10*time.Minute)) {
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	var asked struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || len(asked.Repositories) != 1 {
		http.Error(w, "{}", http.StatusUnprocessableEntity)
		return
	}
	asked.Permissions["metadata"] = "read"
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"token": appToken, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "permissions": asked.Permissions,
		"repository_selection": "selected", "repositories": []any{map[string]any{"name": asked.Repositories[0]}},
	})
}

func (f *forge) revoke(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked++
	w.WriteHeader(http.StatusNoContent)
}

func (f *forge) url(host, path string) string { return "https://" + host + ":" + f.port + path }

// forgeWorld starts a sidecar with a binding for the forge and one for the mirror.
func forgeWorld(t *testing.T) (*world, *forge, *sidecar) {
	t.Helper()
	needs("git")(t)
	root := gitRoot(t)
	if out, err := run(t, nil, "git", "-C", filepath.Join(root, "tools.git"), "config", "http.receivepack", "true"); err != nil {
		t.Fatal(err, out)
	}
	w, f := newWorld(t, "", devAuthority), newForge(t, root)
	write(t, w.dir, "forge-ca.pem", f.caPEM)
	write(t, w.dir, "mirror-token", mirrorToken+"\n")
	write(t, w.dir, "app.pem", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(f.key)})))
	write(t, w.dir, "forge-manifest.yaml", fmt.Sprintf(`name: coder
owner: e2e
version: "1"
description: Reads and writes code.
risk: low
capabilityClasses: [read_private, credential_use]
requiredScopes: ["orders:read"]
sideEffects: none
timeoutMs: 60000
egress:
  allowedDomains: ["%[2]s:%[1]s", "%[3]s:%[1]s"]
  allowPrivateNetwork: true
`, f.port, forgeHost, mirrorHost))
	write(t, w.dir, "forge.yaml", fmt.Sprintf(`apiVersion: toolgate/v1
kind: Sidecar
listeners: [{name: tool, address: "127.0.0.1:0", tool: coder}]
admin: {address: "127.0.0.1:0"}
manifests: [forge-manifest.yaml]
identity: {issuers: [{issuer: %[2]q, audiences: [toolgate]}]}
broker:
  bindings:
    - name: forge
      tools: [coder]
      targets: ["%[4]s:%[1]s"]
      githubApp:
        clientID: Iv1.e2e
        installationID: 42
        privateKeyFile: app.pem
        repositories: [tools]
        permissions: ["contents:write"]
        apiURL: https://127.0.0.1:%[1]s/api/v3
        caFile: forge-ca.pem
    - name: mirror
      tools: [coder]
      targets: ["%[5]s:%[1]s"]
      placeholders: [{text: %[6]s, file: mirror-token, in: [basic]}]
egress:
  resolver: %[3]q
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [%[1]s], tools: [coder]}]
  upstreamCAFile: forge-ca.pem
intercept: {caOutFile: forge-ca-out.pem}
%[7]s
log: {level: debug, payloads: true}
limits: {drain: 2s}
`, f.port, w.tasks.URL(), w.dns.addr, forgeHost, mirrorHost, placeholder, w.fromFile()))
	s := w.run(t, "forge", "tool", "admin")
	s.caFile = filepath.Join(w.dir, "forge-ca-out.pem")
	eventually(t, "the sidecar is ready", s.ready)
	return w, f, s
}

// TestGitAndAPIOfAnApp: git, curl and gh hold nothing, or a placeholder, and work on a forge that demands an App's token.
func TestGitAndAPIOfAnApp(t *testing.T) {
	w, f, s := forgeWorld(t)
	e := errand{proxy: proxyURL(s.tool, w.task(t, "user:alice")), caFile: s.caFile}
	seen := pushes(t, e, f.url(forgeHost, "/git/tools.git"))
	e.url = f.url(forgeHost, "/api/v3/repos/octo/tools")
	out, err := curl(t, e)
	if err != nil || !strings.Contains(out, `"full_name":"octo/tools"`) {
		t.Errorf("curl: %v\n%s", err, out)
	}
	seen += out
	t.Run("gh", func(t *testing.T) {
		needs("gh")(t)
		out, err := run(t, []string{
			"HTTPS_PROXY=" + e.proxy, "SSL_CERT_FILE=" + e.caFile, "GH_HOST=" + forgeHost + ":" + f.port, "GH_ENTERPRISE_TOKEN=placeholder-of-gh", "GH_NO_UPDATE_NOTIFIER=1",
		}, "gh", "api", "repos/octo/tools")
		if err != nil || !strings.Contains(out, "octo/tools") {
			t.Errorf("%v\n%s", err, out)
		}
		seen += out
	})
	for _, r := range s.records(t, forgeHost) {
		if r.Kind == "request" && r.Decision != "allow" { // git offers its proxy password only when asked
			t.Errorf("record %+v", r)
		}
	}
	f.mu.Lock()
	if len(f.refused) > 0 {
		t.Errorf("the forge refused %q", f.refused)
	}
	f.mu.Unlock()
	s.stop(t)
	for _, secret := range []string{appToken, "eC1hY2Nlc3MtdG9rZW46"} { // x-access-token:
		if strings.Contains(seen+s.stdout.String()+s.stderr.String(), secret) {
			t.Errorf("%s was shown", secret)
		}
	}
}

// pushes clones, commits and pushes, and returns what git printed.
func pushes(t *testing.T, e errand, url string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	seen, err := git(t, e, "clone", url, dir)
	if err != nil {
		t.Fatalf("clone: %v\n%s", err, seen)
	}
	if err := os.WriteFile(filepath.Join(dir, "NEW"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-C", dir, "add", "NEW"},
		{"-C", dir, "-c", "user.name=e2e", "-c", "user.email=e2e@example.test", "commit", "-qm", "new"},
		{"-C", dir, "push", "origin", "HEAD:refs/heads/pushed"},
	} {
		out, err := git(t, e, args...)
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		seen += out
	}
	if out, err := git(t, e, "ls-remote", url); err != nil || !strings.Contains(out, "refs/heads/pushed") {
		t.Errorf("ls-remote: %v\n%s", err, out)
	}
	return seen
}

// TestGitWithAPlaceholder: git asks without authentication first, is told that it needs one, and sends its placeholder in base64.
func TestGitWithAPlaceholder(t *testing.T) {
	w, f, s := forgeWorld(t)
	e := errand{proxy: proxyURL(s.tool, w.task(t, "user:alice")), caFile: s.caFile}
	seen := pushes(t, e, "https://robot:"+placeholder+"@"+mirrorHost+":"+f.port+"/git/tools.git")
	out, err := run(t, []string{"HTTPS_PROXY=" + e.proxy}, "curl", "-sSvf", "--cacert", e.caFile, "-u", "robot:"+placeholder,
		f.url(mirrorHost, "/git/tools.git/info/refs?service=git-upload-pack"), "-o", "/dev/null")
	if err != nil {
		t.Errorf("curl: %v\n%s", err, out)
	}
	// Not as a bearer, where it is not declared.
	refusal, err := run(t, []string{"HTTPS_PROXY=" + e.proxy}, "curl", "-sS", "--cacert", e.caFile, "-H", "Authorization: Bearer "+placeholder, f.url(mirrorHost, "/git/tools.git/info/refs"))
	if err != nil || !strings.Contains(refusal, "placeholder_left") || !strings.Contains(refusal, placeholder+" in basic") {
		t.Errorf("curl: %v\n%s", err, refusal)
	}
	s.stop(t)
	if strings.Contains(seen+out+refusal+s.stdout.String()+s.stderr.String(), mirrorToken) {
		t.Error("the token was shown")
	}
}

// TestKilledAppTokenIsRevoked: the kill switch ends the token at the forge as well.
func TestKilledAppTokenIsRevoked(t *testing.T) {
	w, f, s := forgeWorld(t)
	e := errand{proxy: proxyURL(s.tool, w.task(t, "user:alice")), caFile: s.caFile, url: f.url(forgeHost, "/api/v3/repos/octo/tools")}
	if out, err := curl(t, e); err != nil {
		t.Fatal(err, out)
	}
	write(t, w.dir, "revocations.yaml", `apiVersion: toolgate/v1
kind: Revocations
revocations: [{id: r1, selector: {tool: [coder]}, reason: test, by: e2e@example.test, at: 2026-11-28T10:00:00Z}]
`)
	eventually(t, "the token is revoked", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.revoked == 1 })
}
