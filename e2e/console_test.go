package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// consoleURL is where people reach the console. The visitor's client dials what listens instead, so that the issuer can know
// the address before anything listens.
const consoleURL = "http://console.test"

// startConsole runs the control plane and returns the address that it listens on.
func startConsole(t *testing.T, flags ...string) string {
	t.Helper()
	bin, err := killswitchBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{
		"serve", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--warm-up", "1ns", "--url", consoleURL,
	}, flags...)...)
	var out, log lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the control plane's log:\n%s", log.String())
		}
	})
	listening := regexp.MustCompile(`listening on http://(\S+)`)
	var found []string
	eventually(t, "the control plane is ready", func() bool {
		if found = listening.FindStringSubmatch(out.String()); found == nil {
			return false
		}
		res, err := http.Get("http://" + found[1] + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return found[1]
}

// visitor is a browser without script.
type visitor struct {
	*http.Client
	t *testing.T
}

func newVisitor(t *testing.T, console string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "console.test:80" {
			address = console
		}
		return d.DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{&http.Client{Jar: jar, Transport: transport}, t}
}

// open follows every redirect and returns the page where it ends.
func (v *visitor) open(method, path string, form url.Values) (status int, body string, at *url.URL) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, consoleURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", consoleURL)
	}
	res, err := v.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Request.URL
}

// TestConsoleLogin: people log in at an issuer that shares no code with Toolgate, and the log has their names.
func TestConsoleLogin(t *testing.T) {
	const secret = "console-secret-4d1f"
	people := map[string]any{
		"u-1": map[string]any{"email": "alice@example.com", "email_verified": true, "groups": []string{"staff", "sre"}},
		"u-2": map[string]any{"email": "alice@example.com", "email_verified": false, "groups": []string{"acme-soc"}},
		"u-3": map[string]any{"email": "eve@example.com", "email_verified": true, "groups": []string{"staff"}},
	}
	for _, method := range []string{"client_secret_basic", "client_secret_post", "none"} {
		t.Run(method, func(t *testing.T) {
			world := func(login string) *visitor {
				client := map[string]any{
					"client_id": "console", "token_endpoint_auth_method": method, "grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
					"redirect_uris": []string{consoleURL + "/login/callback"}, "scope": "openid email groups",
				}
				flags := []string{"--oidc-client-id", "console", "--oidc-scopes", "openid,email,groups", "--role-map", "sre=responder", "--role-map", "acme-soc=responder@acme"}
				if method != "none" {
					client["client_secret"] = secret
					flags = append(flags, "--oidc-client-secret-file", write(t, t.TempDir(), "secret", secret+"\n"))
				}
				issuer := startAuthServer(t, authConfig{Clients: []map[string]any{client}, People: people, Login: login})
				return newVisitor(t, startConsole(t, append(flags, "--oidc-issuer", issuer)...))
			}
			v := world("u-1")
			status, body, at := v.open("GET", "/stop?preview=1&tool=x", nil)
			link := regexp.MustCompile(`href="(/login/issuer[^"]*)"`).FindStringSubmatch(body)
			if status != http.StatusOK || at.Path != "/login" || link == nil {
				t.Fatal(status, at, body)
			}
			status, body, at = v.open("GET", strings.ReplaceAll(link[1], "&amp;", "&"), nil)
			if status != http.StatusOK || at.RequestURI() != "/stop?preview=1&tool=x" || !strings.Contains(body, "<bdi>alice@example.com</bdi> <small>responder until") {
				t.Fatal(status, at, body)
			}
			if _, body, at = v.open("POST", "/stop", url.Values{"tool": {"x"}, "reason": {"leak"}, "confirm": {"x"}, "id": {"x-1"}}); at.Path != "/revisions/1" ||
				!strings.Contains(body, "by <bdi>alice@example.com</bdi>") {
				t.Fatal(at, body)
			}
			if _, body, at = v.open("POST", "/logout", nil); at.Path != "/login" {
				t.Fatal(at, body)
			}
			if _, _, at = v.open("GET", "/", nil); at.Path != "/login" {
				t.Error("still logged in:", at)
			}
			if method != "none" {
				return
			}
			if _, body, _ = world("u-2").open("GET", "/login/issuer", nil); !strings.Contains(body, "<bdi>u-2</bdi> <small>responder of <bdi>acme</bdi>") {
				t.Error("an address that is not verified:", body)
			}
			if status, body, _ = world("u-3").open("GET", "/login/issuer", nil); status != http.StatusForbidden || !strings.Contains(body, "<code>no_role</code>") {
				t.Error("nobody's role:", status, body)
			}
			if status, body, _ = world("").open("GET", "/login/issuer", nil); status != http.StatusForbidden || !strings.Contains(body, "access_denied") {
				t.Error("nobody:", status, body)
			}
		})
	}
}
