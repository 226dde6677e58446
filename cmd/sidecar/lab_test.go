package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/proxy"
)

// lab is what surrounds the sidecar in these tests, on loopback: an issuer and one that nobody trusts, a name server, a TLS
// and a plain upstream, and a folder with the files of testdata/lab.
type lab struct {
	t                *testing.T
	dir              string
	issuer, stranger *devissuer.Issuer
	tls, plain       *httptest.Server
	serve            http.HandlerFunc // of both upstreams
	roots            []byte           // PEM, of the upstream
	values           *strings.Replacer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), serve: stream}
	l.issuer, l.stranger = l.startIssuer(), l.startIssuer()
	l.issuer.RegisterClient(devissuer.Client{
		ID: "toolgate", Secret: "first-secret", Scopes: []string{"read"}, Audiences: []string{"https://bound.ok.test"},
	})
	l.startUpstreams()
	l.values = strings.NewReplacer("{issuer}", l.issuer.URL(), "{names}", startLabNames(t), "{tls}", port(l.tls), "{plain}", port(l.plain))
	l.write("upstream-ca.crt", string(l.roots))
	l.write("client-secret", "first-secret")
	l.write("workload.jwt", l.mint(map[string]any{"sub": "sidecar"}))
	l.write("listener.jwt", l.mint(nil))
	l.copyFiles()
	return l
}

func (l *lab) startIssuer() *devissuer.Issuer {
	issuer, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(stop)
	return issuer
}

func (l *lab) startUpstreams() {
	ca, err := proxy.NewCA()
	if err != nil {
		l.t.Fatal(err)
	}
	l.roots = ca.PEM()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r) })
	l.tls = httptest.NewUnstartedServer(handler)
	l.tls.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "" {
			return ca.Leaf("127.0.0.1")
		}
		return ca.Leaf(strings.ToLower(h.ServerName))
	}}
	l.tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	l.tls.StartTLS()
	l.plain = httptest.NewServer(handler)
	l.t.Cleanup(func() {
		for _, s := range []*httptest.Server{l.tls, l.plain} {
			s.CloseClientConnections()
			s.Close()
		}
	})
}

// stream is what an upstream serves: nothing, or for /stream one line and then nothing until the client goes.
func stream(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stream" {
		return
	}
	_, _ = io.WriteString(w, "begun\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func port(s *httptest.Server) string {
	_, p, _ := net.SplitHostPort(s.Listener.Addr().String())
	return p
}

func (l *lab) copyFiles() {
	root := os.DirFS(filepath.Join("testdata", "lab"))
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root, name)
		if err == nil {
			l.write(name, l.values.Replace(string(b)))
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

// write puts a file in its place whole.
func (l *lab) write(name, text string) {
	l.t.Helper()
	path := l.path(name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", []byte(text), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) read(name string) string {
	l.t.Helper()
	b, err := os.ReadFile(l.path(name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(b)
}

// edit replaces text in a file and fails when there is nothing to replace.
func (l *lab) edit(name, old, new string) {
	l.t.Helper()
	text := l.read(name)
	if old = l.values.Replace(old); !strings.Contains(text, old) {
		l.t.Fatalf("%s has no %q", name, old)
	}
	l.write(name, strings.ReplaceAll(text, old, l.values.Replace(new)))
}

// mint returns a task token; extra claims go over the usual ones, and nil leaves one out.
func (l *lab) mint(extra map[string]any) string { return l.mintBy(l.issuer, extra) }

func (l *lab) mintBy(issuer *devissuer.Issuer, extra map[string]any) string {
	l.t.Helper()
	token, err := issuer.Mint(claims(extra))
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

func claims(extra map[string]any) map[string]any {
	all := map[string]any{
		"sub": "user:alice", "aud": "toolgate", "exp": time.Now().Add(time.Hour).Unix(), "tenant": "acme", "agent_id": "agent-1",
		"task_id": "task-1", "run_id": "run-1", "scope": "read",
	}
	maps.Copy(all, extra)
	return all
}

// url returns an address of an upstream under one of its names.
func (l *lab) url(scheme, host, path string) string {
	if scheme == "http" {
		return "http://" + host + ":" + port(l.plain) + path
	}
	return scheme + "://" + host + ":" + port(l.tls) + path
}

// trusted is the roots that a tool's client trusts: the upstream's, and the sidecar's.
func (l *lab) trusted() *x509.CertPool {
	pool := trust(l.roots)
	pool.AppendCertsFromPEM([]byte(l.read("ca.crt")))
	return pool
}
