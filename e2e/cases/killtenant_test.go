//go:build linux

package cases

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// controlPlane is the real program, with a second person for restores, an admin of everything and one of tenant A.
type controlPlane struct {
	api        string
	snippet    string // the sidecar's killSwitch.nats
	root, ofA  string // tokens
	proposalOf uint64 // revision of root's proposal to restore what tenant B has revoked
}

func killswitchCommand(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(filepath.Dir(os.Getenv(insideEnv)), "killswitch"), args...)
}

func (l *lab) controlPlane(t *testing.T) *controlPlane {
	t.Helper()
	dir := t.TempDir()
	var lines string
	token := func(args ...string) string {
		out, err := killswitchCommand(append([]string{"token", "-o", "json"}, args...)...).Output()
		var made struct{ Token, Line string }
		if err != nil || json.Unmarshal(out, &made) != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lines += made.Line + "\n"
		return made.Token
	}
	p := &controlPlane{root: token("--name", "root", "--roles", "admin"), ofA: token("--name", "a", "--roles", "admin", "--tenants", "A")}
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := killswitchCommand("serve", "--dir", filepath.Join(dir, "control"), "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0",
		"--tokens", tokens, "--second-person", "restore", "--warm-up", "1ns")
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = out.Close()
	})
	said := regexp.MustCompile(`listening on (\S+)\n[\s\S]*servers: (\["nats://([^"]+)"\])\n +(credentialsFile: \S+)\n +(publicKey: "[^"]+")\n`)
	var m []string
	eventually(t, "the control plane listens", func() bool {
		b, err := os.ReadFile(out.Name())
		m = said.FindStringSubmatch(string(b))
		return err == nil && m != nil
	})
	p.api, p.snippet = m[1], fmt.Sprintf("{servers: %s, %s, %s}", m[2], m[4], m[5])
	api, err := url.Parse(p.api)
	if err != nil {
		t.Fatal(err)
	}
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(api.Host), netip.MustParseAddrPort(m[3]))
	return p
}

// ask sends a request as the holder of a token, its path as it stands.
func (p *controlPlane) ask(t *testing.T, token, method, path, body string, header ...string) (int, string) {
	t.Helper()
	u, err := url.Parse(p.api)
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	u.Opaque, u.RawQuery = "//"+u.Host+path, query // not cleaned
	req, err := http.NewRequestWithContext(t.Context(), method, p.api, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL = u
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (p *controlPlane) must(t *testing.T, token, path, body string) uint64 {
	t.Helper()
	status, text := p.ask(t, token, "POST", path, body)
	var out struct{ Entry struct{ Revision uint64 } }
	if status != http.StatusOK || json.Unmarshal([]byte(text), &out) != nil {
		t.Fatalf("%s: %d %s", path, status, text)
	}
	return out.Entry.Revision
}

func ownTenantOnly(t *testing.T, w *world) {
	p := w.controlPlane(t)
	k := w.lab.world(t, func(s *settings) { s.kill = fmt.Sprintf("{nats: %s, stateDir: state}", p.snippet) })
	eventually(t, "in touch", k.ready)
	b := p.must(t, p.root, "/v1/revocations", `{"id":"b-1","selector":{"tenant":["B"],"host":["b.wild.test"]},"reason":"B's own"}`)
	p.proposalOf = p.must(t, p.root, "/v1/revocations/b-1/restore", `{"reason":"drill"}`)
	w.endless()
	const target = "https://api.ok.test/stream"
	ofA, ofB := k.watch(t, k.t1, k.tokenA, target), k.watch(t, k.t2, k.tokenB, target)

	p.refusesA(t)
	p.showsNothingOfB(t, b)

	// All that did nothing, and A can stop what is its own, once.
	runs(t, "tenant B's stream", ofB)
	runs(t, "tenant A's stream", ofA)
	revision := p.must(t, p.ofA, "/v1/revocations", `{"id":"a-1","selector":{"tenant":["A"]},"reason":"A's own"}`)
	cut(t, "tenant A's stream", ofA)
	runs(t, "tenant B's stream", ofB)
	if revision != p.proposalOf+1 {
		t.Errorf("entries were added: A's own is revision %d, and the last before was %d", revision, p.proposalOf)
	}
	a := dialProxy(t, k.t2)
	a.send(t, "CONNECT b.wild.test:443 HTTP/1.1\r\nHost: b.wild.test:443\r\nProxy-Authorization: "+basic(k.tokenB)+"\r\n\r\n")
	if got := a.read(t, "CONNECT"); got.code != "revoked" {
		t.Errorf("what tenant B has revoked: %d %s", got.status, got.code)
	}
}

// refusesA sends whatever might reach tenant B with the token of tenant A's admin.
func (p *controlPlane) refusesA(t *testing.T) {
	t.Helper()
	const restore = `{"reason":"x"}`
	for _, r := range []struct{ path, body string }{
		{"/v1/revocations", `{"selector":{"tenant":["B"]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"tenant":["A","B"]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"tenant":["A","*"]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"tenant":[]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"task":["kb"]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"tool":["t2"],"subject":["user:bob"]},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"all":true},"reason":"x"}`},
		{"/v1/revocations", `{"selector":{"tenant":["A"],"all":true},"reason":"x"}`},
		{"/v1/revocations?tenant=A", `{"selector":{"tenant":["B"]},"reason":"x"}`},
		{"/v1/preview", `{"selector":{"tenant":["B"]}}`},
		{"/v1/preview", `{"selector":{"all":true}}`},
		{"/v1/revocations/b-1/restore", restore},
		{"/v1/revocations/b%2D1/restore", restore},
		{"/v1/revocations/%62-1/restore", restore},
		{"/v1/revocations/b-1/restore?tenant=A", restore},
		{"/v1/revocations/nobodys/restore", restore},
		{fmt.Sprintf("/v1/proposals/%d/approve", p.proposalOf), `{}`},
		{fmt.Sprintf("/v1/proposals/%d/decline", p.proposalOf), restore},
		{"/v1/drills", restore},
	} {
		for _, header := range [][]string{nil, {"X-Tenant", "B"}, {"X-HTTP-Method-Override", "PUT"}, {"X-Original-URL", "/v1/overview"}} {
			if status, text := p.ask(t, p.ofA, "POST", r.path, r.body, header...); status != http.StatusForbidden {
				t.Errorf("POST %s %s %v: %d %s", r.path, r.body, header, status, text)
			}
		}
	}
	// The id is taken, by whom is not told.
	if status, text := p.ask(t, p.ofA, "POST", "/v1/revocations", `{"id":"b-1","selector":{"tenant":["A"]},"reason":"x"}`); status != http.StatusConflict || strings.Contains(text, "B's own") {
		t.Errorf("the id of B's revocation: %d %s", status, text)
	}
	// An import is of everything. The content of an export is what A could not have; root's serves here.
	_, export := p.ask(t, p.root, "GET", "/v1/export", "")
	if status, text := p.ask(t, p.ofA, "POST", "/v1/import", export, "Content-Type", "application/x-ndjson"); status != http.StatusForbidden {
		t.Errorf("import: %d %s", status, text)
	}
	for _, r := range []string{ // no route, or another
		"POST /v1//revocations/b-1/restore", "POST /v1/revocations/a/../b-1/restore", "POST /v1/revocations/b-1/restore/", "POST /v1/revocations/B-1%2F..%2Fb-1/restore",
		"POST /V1/revocations/b-1/restore", "DELETE /v1/revocations/b-1", "PUT /v1/revocations/b-1/restore", "PATCH /v1/revocations/b-1",
	} {
		method, path, _ := strings.Cut(r, " ")
		if status, text := p.ask(t, p.ofA, method, path, restore); status < 300 {
			t.Errorf("%s: %d %s", r, status, text)
		}
	}
}

// showsNothingOfB: what A's admin may look at has nothing of B.
func (p *controlPlane) showsNothingOfB(t *testing.T, revision uint64) {
	t.Helper()
	for path, want := range map[string]int{
		"/v1/sidecars": http.StatusForbidden, "/v1/export": http.StatusForbidden,
		fmt.Sprintf("/v1/revisions/%d/progress", revision): http.StatusNotFound,
		"/v1/revocations": http.StatusOK, "/v1/proposals": http.StatusOK, "/v1/history": http.StatusOK, "/v1/history?id=b-1": http.StatusOK,
		"/v1/overview": http.StatusOK,
	} {
		status, text := p.ask(t, p.ofA, "GET", path, "")
		if status != want || strings.Contains(text, "b-1") || strings.Contains(text, "B's own") {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	status, text := p.ask(t, p.ofA, "POST", "/v1/preview", `{"selector":{"tenant":["A"]}}`)
	if status != http.StatusOK || strings.Contains(text, `"t2"`) {
		t.Errorf("the preview of A's own shows B's tools: %d %s", status, text)
	}
}
