//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// prepareToolgate builds the sidecar and starts the issuer where a chosen peer needs them.
func (l *lab) prepareToolgate(ctx context.Context) error {
	for _, p := range l.opt.peers {
		if strings.HasPrefix(p.name, "toolgate") && l.sidecar == "" {
			if err := l.buildSidecar(ctx); err != nil {
				return err
			}
		}
		if p.name == "toolgate+identity" {
			if _, err := l.helper(ctx, "issuer", &l.issuer); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lab) buildSidecar(ctx context.Context) error {
	if l.opt.toolgate != "" {
		path, err := filepath.Abs(l.opt.toolgate)
		l.sidecar = path
		return err
	}
	l.sidecar = filepath.Join(l.dir, "sidecar")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.sidecar, "./cmd/sidecar")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the sidecar: %w\n%s", err, out)
	}
	return nil
}

func startToolgate(ctx context.Context, l *lab) (*proxy, error) {
	return l.startSidecar(ctx, sidecarConfig{})
}

func startToolgateIdentity(ctx context.Context, l *lab) (*proxy, error) {
	p, err := l.startSidecar(ctx, sidecarConfig{Issuer: l.issuer.URL, Audience: l.issuer.Audience})
	if err == nil {
		p.auth = "Bearer " + l.issuer.Token
	}
	return p, err
}

// sidecarConfig fills the config's template. Without an Issuer callers are optional.
type sidecarConfig struct {
	Listen, Admin    string
	Dir              string
	PlainPort        string
	TLSPort          string
	Issuer, Audience string
}

var sidecarTemplate = template.Must(template.New("sidecar.yaml").Parse(`apiVersion: toolgate/v1
kind: Sidecar
mode: enforce
listeners:
  - {name: bench, address: "{{.Listen}}", tool: bench}
admin: {address: "{{.Admin}}"}
manifests: ["{{.Dir}}/bench.yaml"]
identity:
{{- if .Issuer}}
  required: true
  issuers:
    - issuer: {{.Issuer}}
      audiences: [{{.Audience}}]
{{- else}}
  required: false
{{- end}}
egress:
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [{{.PlainPort}}, {{.TLSPort}}], tools: [bench]}]
audit: {output: /dev/null, chain: true}
`))

var manifestTemplate = template.Must(template.New("bench.yaml").Parse(`name: bench
owner: bench
version: "1"
description: Reaches the benchmark's upstream.
risk: low
capabilityClasses: [read_public]
sideEffects: none
timeoutMs: 600000
egress:
  allowedDomains: ["127.0.0.1:{{.PlainPort}}", "127.0.0.1:{{.TLSPort}}"]
  allowPrivateNetwork: true
`))

// startSidecar writes a config and starts the binary on it, and waits until it says that it is ready.
func (l *lab) startSidecar(ctx context.Context, c sidecarConfig) (*proxy, error) {
	var err error
	if c.Dir, err = os.MkdirTemp(l.dir, "toolgate"); err != nil {
		return nil, err
	}
	if err := os.Chmod(c.Dir, 0o755); err != nil {
		return nil, err
	}
	c.PlainPort, c.TLSPort = port(l.upstream.Plain), port(l.upstream.TLS)
	if c.Listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.Admin, err = freeAddress(); err != nil {
		return nil, err
	}
	config := filepath.Join(c.Dir, "sidecar.yaml")
	if err := errors.Join(fill(config, sidecarTemplate, c), fill(filepath.Join(c.Dir, "bench.yaml"), manifestTemplate, c)); err != nil {
		return nil, err
	}
	child, err := spawn(ctx, l.opt.uid, l.sidecar, "run", "--config", config)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, child.stdout) }() // a full pipe would stop it
	if err := waitReady(ctx, child, "http://"+c.Admin+"/readyz"); err != nil {
		child.stop()
		return nil, fmt.Errorf("toolgate did not start: %w: %s", err, child.errs.String())
	}
	return &proxy{child: child, addr: c.Listen, metrics: "http://" + c.Admin + "/metrics"}, nil
}

func fill(path string, t *template.Template, c sidecarConfig) error {
	var text strings.Builder
	if err := t.Execute(&text, c); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// freeAddress returns a loopback address that was free a moment ago: the sidecar takes its ports from its config.
func freeAddress() (string, error) {
	addr, ln, err := listen()
	if err != nil {
		return "", err
	}
	return addr, ln.Close()
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// waitReady polls url until it answers 200, the process ends, or ten seconds have gone.
func waitReady(ctx context.Context, c *child, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("not ready after 10 s"))
	defer cancel()
	for {
		if err := c.alive(); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := scraper.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
