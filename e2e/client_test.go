package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// errand is one thing that a client is asked to do.
type errand struct {
	url    string
	proxy  string // value of HTTPS_PROXY
	header string // token for Toolgate-Authorization, or empty
	caFile string // the only CA that the client needs to trust
}

// client is a program that a tool may be made of. do returns all that the program printed; need skips where it is missing.
type client struct {
	name   string
	need   func(t *testing.T)
	do     func(t *testing.T, e errand) (string, error)
	path   string // what it asks for on either host
	want   string // what it prints when it got it
	denied string // what it prints when the CONNECT is refused because of the host
}

// denialCode stands in the reason phrase of the refused CONNECT. Node shows the status only.
const denialCode = "domain_not_allowed"

func clients() []client {
	return []client{
		{name: "curl", need: needs("curl"), do: curl, path: "/v1/orders/42", want: `"id":"42"`, denied: denialCode},
		{name: "go", need: func(*testing.T) {}, do: goClient, path: "/v1/orders/42", want: `"id":"42"`, denied: denialCode},
		{name: "python urllib", need: needs("python3"), do: python, path: "/v1/orders/42", want: `"id":"42"`, denied: denialCode},
		{name: "node undici fetch", need: func(t *testing.T) { node(t) }, do: fetch, path: "/v1/orders/42", want: `"id":"42"`, denied: "Proxy response (403)"},
		{name: "git ls-remote", need: needs("git"), do: lsRemote, path: "/git/tools.git", want: "refs/heads/main", denied: denialCode},
		{name: "git clone", need: needs("git"), do: clone, path: "/git/tools.git", want: "a repository for the tests", denied: denialCode},
	}
}

func needs(name string) func(*testing.T) {
	return func(t *testing.T) { t.Helper(); program(t, name) }
}

// run runs a program with a clean environment, so that nothing of the machine's own proxy or git settings interferes.
func run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func curl(t *testing.T, e errand) (string, error) {
	t.Helper()
	args := []string{"-sSvf", "--max-time", "50", "--cacert", e.caFile, e.url}
	if e.header != "" {
		args = append(args, "-H", "Toolgate-Authorization: Bearer "+e.header)
	}
	return run(t, []string{"HTTPS_PROXY=" + e.proxy}, "curl", args...)
}

func goClient(t *testing.T, e errand) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.header != "" {
		req.Header.Set("Toolgate-Authorization", "Bearer "+e.header)
	}
	c := toolClient(t, e.proxy, e.caFile)
	defer c.CloseIdleConnections() // ends the tunnel, which is recorded only then
	res, err := c.Do(req)
	if err != nil {
		return err.Error(), err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return string(body), err
}

func python(t *testing.T, e errand) (string, error) {
	t.Helper()
	args := []string{"testdata/get.py", e.url}
	if e.header != "" {
		args = append(args, e.header)
	}
	return run(t, []string{"HTTPS_PROXY=" + e.proxy, "SSL_CERT_FILE=" + e.caFile}, "python3", args...)
}

func fetch(t *testing.T, e errand) (string, error) {
	t.Helper()
	args := []string{"issuer/fetch.mjs", e.url}
	if e.header != "" {
		args = append(args, e.header)
	}
	return run(t, []string{"HTTPS_PROXY=" + e.proxy, "NODE_EXTRA_CA_CERTS=" + e.caFile}, node(t), args...)
}

// git runs a git command that talks to a remote. git offers its proxy password only after a 407 that asks for it.
func git(t *testing.T, e errand, args ...string) (string, error) {
	t.Helper()
	flags := []string{"-c", "http.sslCAInfo=" + e.caFile}
	if e.header != "" {
		flags = append(flags, "-c", "http.extraHeader=Toolgate-Authorization: Bearer "+e.header)
	}
	env := []string{"HTTPS_PROXY=" + e.proxy, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_CURL_VERBOSE=1"}
	return run(t, env, "git", append(flags, args...)...)
}

func lsRemote(t *testing.T, e errand) (string, error) {
	t.Helper()
	return git(t, e, "ls-remote", e.url)
}

// clone prints the README of what it cloned as well.
func clone(t *testing.T, e errand) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	out, err := git(t, e, "clone", e.url, dir)
	if err != nil {
		return out, err
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README"))
	return out + string(readme), err
}

// gitRoot makes a folder with the bare repository tools.git, or returns "" where there is no git.
func gitRoot(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return ""
	}
	root, work := t.TempDir(), t.TempDir()
	write(t, work, "README", "a repository for the tests\n")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work},
		{"-C", work, "add", "README"},
		{"-C", work, "-c", "user.name=e2e", "-c", "user.email=e2e@example.com", "commit", "-q", "-m", "first"},
		{"clone", "-q", "--bare", work, filepath.Join(root, "tools.git")},
	} {
		if out, err := run(t, []string{"GIT_CONFIG_NOSYSTEM=1"}, "git", args...); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return root
}
