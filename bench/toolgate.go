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
		if (strings.HasPrefix(p.name, "toolgate") || strings.HasPrefix(p.name, "gateway")) && l.sidecar == "" {
			if err := l.buildSidecar(ctx); err != nil {
				return err
			}
		}
		if (strings.HasSuffix(p.name, "+identity") || p.name == brokering) && l.issuer.URL == "" {
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
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", l.sidecar, "./cmd/sidecar")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the sidecar: %w\n%s", err, out)
	}
	return nil
}

// payloadLogging is the peer that prints bodies.
const payloadLogging = "toolgate-intercept+payloads"

// brokering is the peer whose requests carry a credential.
const brokering = "toolgate-broker"

// sidecarKind is a variant of the sidecar.
type sidecarKind struct{ identity, intercept, broker, payloads bool }

func startToolgate(kind sidecarKind) func(context.Context, *lab, int) (*proxy, error) {
	return func(ctx context.Context, l *lab, uid int) (*proxy, error) {
		var c sidecarConfig
		if kind.identity {
			c.Issuer, c.Audience = l.issuer.URL, l.issuer.Audience
		}
		c.Intercept, c.Payloads = kind.intercept, kind.payloads
		if kind.broker {
			c.Broker = &brokerConfig{Client: benchClient, Secret: benchSecret, Audience: benchAPI, Workload: l.issuer.Workload}
		}
		p, err := l.startSidecar(ctx, uid, &c)
		if err == nil && kind.identity {
			p.auth = "Bearer " + l.issuer.Token
		}
		return p, err
	}
}

// sidecarConfig fills the config's template. Without an Issuer callers are optional.
type sidecarConfig struct {
	Listen, Admin    string
	Dir              string
	Ports            []string // of the upstream: plain, which is never intercepted, and those with TLS
	CAFile           string   // of the upstream
	Issuer, Audience string
	Intercept        bool
	Payloads         bool           // are logged
	Broker           *brokerConfig  // of a binding for what is intercepted; nil: none
	KillSwitch       bool           // by a file in Dir
	Plane            *plane         // instead of the file; nil: none
	Revoked          []string       // subjects
	Gateway          *gatewayConfig // the way out; nil: none
	Revision         int            // shows in the manifest's version, so that another one is another policy
}

// brokerConfig is a binding by token exchange. Secret and Workload go into files of Dir.
type brokerConfig struct{ Client, Secret, Audience, Workload string }

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
{{- with .Broker}}
  workloadTokenFile: {{$.Dir}}/workload.jwt
broker:
  bindings:
    - name: bench
      tools: [bench]
      targets: ["127.0.0.1:{{index $.Ports 1}}", "127.0.0.1:{{index $.Ports 2}}"]
      tokenExchange:
        tokenURL: {{$.Issuer}}/token
        audience: {{.Audience}}
        scopes: [read]
        clientAuth: {method: client_secret_basic, clientID: {{.Client}}, secretFile: {{$.Dir}}/client-secret}
{{- end}}
egress:
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [{{range $i, $p := .Ports}}{{if $i}}, {{end}}{{$p}}{{end}}], tools: [bench]}]
  upstreamCAFile: {{.CAFile}}
{{- with .Gateway}}
  gateway: {address: "{{.Listen}}", caFile: "{{.Dir}}/gateway.crt", certFile: "{{.Dir}}/workload.crt", keyFile: "{{.Dir}}/workload.key"}
{{- end}}
{{- if .Intercept}}
intercept: {targets: ["*.intercept.bench.example", "127.0.0.1:{{index .Ports 1}}", "127.0.0.1:{{index .Ports 2}}"]}
{{- end}}
{{- if .KillSwitch}}
killSwitch: {file: revocations.yaml}
{{- else if .Plane}}
killSwitch: {nats: {servers: ["nats://{{.Plane.NATS}}"], credentialsFile: "{{.Plane.Credentials}}", publicKey: "{{.Plane.Key}}"}}
{{- end}}
limits: {maxTunnels: 20000, maxTunnelsPerTool: 20000, maxTunnelsPerTenant: 20000, maxRequestsPerTenant: 20000, maxConnections: 20000}
audit: {output: /dev/null, chain: true}
{{- if .Payloads}}
log: {payloads: true}
{{- end}}
`))

var manifestTemplate = template.Must(template.New("bench.yaml").Parse(`name: bench
owner: bench
version: "{{.Revision}}"
description: Reaches the benchmark's upstream.
risk: low
capabilityClasses: [read_public]
sideEffects: none
timeoutMs: 600000
egress:
  allowedDomains: ["*.intercept.bench.example"{{range .Ports}}, "127.0.0.1:{{.}}"{{end}}]
  allowPrivateNetwork: true
`))

var revocationsTemplate = template.Must(template.New("revocations.yaml").Parse(`apiVersion: toolgate/v1
kind: Revocations
revocations:
{{- range .Revoked}}
  - {id: bench, selector: {subject: "{{.}}"}, reason: soak, by: bench, at: 2026-01-01T00:00:00Z}
{{- else}} []
{{- end}}
`))

func (c *sidecarConfig) writeManifest() error {
	return fill(filepath.Join(c.Dir, manifestTemplate.Name()), manifestTemplate, c)
}

func (c *sidecarConfig) writeRevocations() error {
	return fill(filepath.Join(c.Dir, revocationsTemplate.Name()), revocationsTemplate, c)
}

// startSidecar writes a config and starts the binary on it, and waits until it says that it is ready. It fills in what the lab
// chooses.
func (l *lab) startSidecar(ctx context.Context, uid int, c *sidecarConfig) (*proxy, error) {
	var err error
	if c.Dir, err = os.MkdirTemp(l.dir, "toolgate"); err != nil {
		return nil, err
	}
	if err := os.Chmod(c.Dir, 0o755); err != nil {
		return nil, err
	}
	c.Ports = []string{port(l.upstream.Plain), port(l.upstream.TLS), port(l.upstream.H2)}
	c.CAFile = l.caFile
	if c.Listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.Admin, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.Broker != nil {
		for name, text := range map[string]string{"workload.jwt": c.Broker.Workload, "client-secret": c.Broker.Secret} {
			if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil { // another uid may have to read it
				return nil, err
			}
		}
	}
	config := filepath.Join(c.Dir, "sidecar.yaml")
	if err := errors.Join(fill(config, sidecarTemplate, c), c.writeManifest(), c.writeRevocations()); err != nil {
		return nil, err
	}
	child, err := spawn(ctx, uid, l.sidecar, "run", "--config", config)
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

// fill writes a file from a template, whole or not at all.
func fill(path string, t *template.Template, c any) error {
	var text strings.Builder
	if err := t.Execute(&text, c); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
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
