//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

const benchWorkload = "spiffe://bench.example/sidecar"

// startGateway starts a gateway and a sidecar whose only way out it is. Which of the two is measured is the caller's choice; the load comes to
// the sidecar in either case.
func startGateway(measureGateway bool) func(context.Context, *lab, int) (*proxy, error) {
	return func(ctx context.Context, l *lab, uid int) (*proxy, error) {
		g := &gatewayConfig{}
		gateway, err := l.startGateway(ctx, uid, g)
		if err != nil {
			return nil, err
		}
		sidecar, err := l.startSidecar(ctx, uid, &sidecarConfig{Gateway: g})
		if err != nil {
			gateway.child.stop()
			return nil, err
		}
		if measureGateway {
			gateway.addr = sidecar.addr
			gateway.child.after = sidecar.child.stop
			return gateway, nil
		}
		sidecar.child.after = gateway.child.stop
		return sidecar, nil
	}
}

// gatewayConfig fills the gateway's template.
type gatewayConfig struct {
	sidecarConfig
}

var gatewayTemplate = template.Must(template.New("gateway.yaml").Parse(`apiVersion: toolgate/v1
kind: Sidecar
listeners:
  - name: bench
    kind: gateway
    address: "{{.Listen}}"
    tools: [bench]
    tls: {certFile: gateway.crt, keyFile: gateway.key}
gateway:
  clientCAFile: clients.crt
  workloads: [{ids: ["` + benchWorkload + `"], tools: [bench]}]
admin: {address: "{{.Admin}}"}
manifests: ["bench.yaml"]
identity: {required: false}
egress:
  allowPrivate: [{prefix: "127.0.0.1/32", ports: [{{range $i, $p := .Ports}}{{if $i}}, {{end}}{{$p}}{{end}}], tools: [bench]}]
limits: {maxTunnels: 20000, maxTunnelsPerTool: 20000, maxTunnelsPerTenant: 20000, maxRequestsPerTenant: 20000, maxConnections: 20000}
audit: {output: /dev/null, chain: true}
`))

func (l *lab) startGateway(ctx context.Context, uid int, c *gatewayConfig) (*proxy, error) {
	var err error
	if c.Dir, err = os.MkdirTemp(l.dir, "gateway"); err != nil {
		return nil, err
	}
	if err := os.Chmod(c.Dir, 0o755); err != nil {
		return nil, err
	}
	c.Ports = []string{port(l.upstream.Plain), port(l.upstream.TLS), port(l.upstream.H2)}
	if c.Listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.Admin, err = freeAddress(); err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(c.Dir, name) }
	err = errors.Join(writePair(in("gateway.crt"), in("gateway.key")), writeWorkload(in("clients.crt"), in("workload.crt"), in("workload.key")),
		fill(in("gateway.yaml"), gatewayTemplate, c), c.writeManifest())
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"gateway.key", "workload.key"} {
		if err := os.Chmod(in(name), 0o644); err != nil { // they guard this run alone, and the proxies may run as another user
			return nil, err
		}
	}
	child, err := spawn(ctx, uid, l.sidecar, "run", "--config", in("gateway.yaml"))
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, child.stdout) }()
	if err := waitReady(ctx, child, "http://"+c.Admin+"/readyz"); err != nil {
		child.stop()
		return nil, fmt.Errorf("the gateway did not start: %w: %s", err, child.errs.String())
	}
	return &proxy{child: child, metrics: "http://" + c.Admin + "/metrics"}, nil
}

// writeWorkload writes a CA's certificate, and a certificate of the bench's workload with its key.
func writeWorkload(caFile, certFile, keyFile string) error {
	ca, err := selfSigned()
	if err != nil {
		return err
	}
	parent, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return err
	}
	id, err := url.Parse(benchWorkload)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), URIs: []*url.URL{id},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), ca.PrivateKey)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(file, kind string, b []byte) error {
		return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o644)
	}
	return errors.Join(write(caFile, "CERTIFICATE", parent.Raw), write(certFile, "CERTIFICATE", der), write(keyFile, "PRIVATE KEY", raw))
}
