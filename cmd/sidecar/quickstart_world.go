package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"text/template"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

//go:embed quickstart/*.tmpl
var quickstartFiles embed.FS

// world is what surrounds the sidecar in the quickstart: issuer, upstream, name server, and a folder of files.
type world struct {
	dir, shown string // absolute, and as the user wrote it
	issuer     *devissuer.Issuer
	upstream   *ordersAPI
	task       string // the caller's token
	stops      []func()
}

const noRevocations = "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: []\n"

func newWorld(dir string) (_ *world, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := &world{dir: abs, shown: dir}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := notAnothers(filepath.Join(abs, "sidecar.yaml"), filepath.Join(dir, "sidecar.yaml")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(abs, "manifests"), 0o755); err != nil {
		return nil, err
	}
	issuer, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		return nil, err
	}
	w.issuer, w.stops = issuer, append(w.stops, stop)
	if w.upstream, err = startOrders(issuer); err != nil {
		return nil, err
	}
	w.stops = append(w.stops, w.upstream.close)
	resolver, stop, err := startNames()
	if err != nil {
		return nil, err
	}
	w.stops = append(w.stops, stop)
	return w, w.write(resolver)
}

// notAnothers refuses to write over a config that no quickstart wrote.
func notAnothers(path, shown string) error {
	there, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // what is wrong with the folder shows when it is made
	}
	if err != nil {
		return err
	}
	ours, err := quickstartFiles.ReadFile("quickstart/sidecar.yaml.tmpl")
	if err != nil {
		return err
	}
	head, _, _ := bytes.Cut(ours, []byte("\n"))
	if !bytes.HasPrefix(there, head) {
		return fmt.Errorf("%s is not of a quickstart; name another folder with --dir", shown)
	}
	return nil
}

func (w *world) close() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
}

// write makes the tokens and the files.
func (w *world) write(resolver string) error {
	secret := strconv.FormatInt(time.Now().UnixNano(), 36) + "-quickstart"
	w.issuer.RegisterClient(devissuer.Client{
		ID: "toolgate", Secret: secret,
		Scopes:    []string{"orders:read", "refunds:draft"},
		Audiences: []string{ordersAudience},
	})
	workload, err := w.issuer.Mint(map[string]any{"sub": "sidecar", "aud": "toolgate", "exp": inHours(12)})
	if err != nil {
		return err
	}
	w.task, err = w.issuer.Mint(map[string]any{
		"sub": "user:alice", "aud": "toolgate", "exp": inHours(12), "tenant": "acme", "agent_id": "support-agent",
		"task_id": "task-7", "run_id": "run-42", "scope": "orders:read refunds:draft",
	})
	if err != nil {
		return err
	}
	values := map[string]any{
		"Issuer": w.issuer.URL(), "UpstreamPort": w.upstream.port, "Resolver": resolver,
		"Proxy": preferred(15001), "Admin": preferred(15020),
	}
	for name, from := range map[string]string{
		"sidecar.yaml": "quickstart/sidecar.yaml.tmpl", "manifests/draft_refund_request.yaml": "quickstart/manifest.yaml.tmpl",
	} {
		t, err := template.ParseFS(quickstartFiles, from)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, values); err != nil {
			return err
		}
		if err := w.file(name, b.String(), 0o644); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"task.jwt": w.task, "workload.jwt": workload, "client-secret": secret, "records.jsonl": ""} {
		if err := w.file(name, text, 0o600); err != nil {
			return err
		}
	}
	if err := w.file("upstream-ca.crt", string(w.upstream.ca), 0o644); err != nil {
		return err
	}
	return w.file("revocations.yaml", noRevocations, 0o644)
}

// file writes a file whole, as a ConfigMap's would appear.
func (w *world) file(name, text string, mode os.FileMode) error {
	path := filepath.Join(w.dir, name)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func inHours(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }

// preferred returns a loopback address with this port, or with a free one where it is taken.
func preferred(port int) string {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = ln.Close()
	return address
}
