//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

const (
	upstreamImage = "toolgate.test/upstream:1"
	partnerZone   = ".partner.svc.cluster.local"
	clientSecret  = "e2e-client-secret" // of the platform at the partner's token endpoint
	apiKey        = "e2e-api-key"
)

// partner is the owner of an API, as a pod of a namespace without sidecars. Its names are orders, which demands a token of the
// partner's own authorization server, keyed, which says whether it was shown the partner's key, and plain, of which the platform knows nothing.
type partner struct {
	*kube
	ca string // PEM: the company's root, which the public ones do not know
}

// newPartner starts it, and takes it away after the test.
func newPartner(t *testing.T) partner {
	t.Helper()
	p := partner{kube: &kube{onNode(t, tierC).m, "partner"}}
	p.makeImage(t)
	p.kubectl(t, "create", "namespace", p.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			p.describe(t)
		}
		if err := p.deleteNamespace(); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	p.await(t, "the namespace's service account", func() error { return p.try(nil, "get", "serviceaccount", "default") })
	var cert, key string
	p.ca, cert, key = companyCertificate(t)
	p.apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: tls}
type: kubernetes.io/tls
data: {tls.crt: `+base64.StdEncoding.EncodeToString([]byte(cert))+`, tls.key: `+base64.StdEncoding.EncodeToString([]byte(key))+`}
---
apiVersion: v1
kind: Pod
metadata: {name: upstream, labels: {app: upstream}}
spec:
  volumes: [{name: tls, secret: {secretName: tls}}]
  containers:
  - name: serve
    image: "`+upstreamImage+`"
    env: [{name: CLIENT_SECRET, value: `+clientSecret+`}, {name: API_KEY, value: `+apiKey+`}]
    volumeMounts: [{name: tls, mountPath: /etc/tls}]
    readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
`)
	for name, port := range map[string]int{"orders": 8443, "keyed": 8443, "plain": 8443, "issuer": 9443} {
		p.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s}
spec: {selector: {app: upstream}, ports: [{name: https, port: 443, targetPort: %d}, {name: other, port: 8443, targetPort: %[2]d}]}
`, name, port))
	}
	p.kubectl(t, "wait", "pod/upstream", "--for=condition=Ready", "--timeout=60s")
	return p
}

func (p partner) makeImage(t *testing.T) {
	t.Helper()
	bin := p.m.path("upstream")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin, "./testdata/upstream")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.m.importFiles(t.Context(), upstreamImage, layout.Run{User: "65534:65534", Entrypoint: []string{"/upstream"}},
		layout.File{Path: "upstream", Mode: 0o755, Data: text}); err != nil {
		t.Fatal(err)
	}
}

// companyCertificate makes a root and the partner's certificate by it, all in PEM.
func companyCertificate(t *testing.T) (root, cert, key string) {
	t.Helper()
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, string) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = own
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return own, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "company root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caKey, root := make(ca, ca, nil)
	leaf, cert := make(&x509.Certificate{Subject: pkix.Name{CommonName: "partner"}, DNSNames: []string{"*" + partnerZone}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, caKey)
	der, err := x509.MarshalPKCS8PrivateKey(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return root, cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// values are the chart's, for one tool that reaches the partner: with its token at orders, with its key at keyed.
func (p partner) values(more string) string {
	return `
sidecar:
  ca: {extra: ` + quoted(p.ca) + `}
  config:
    egress: {allowPrivate: [{prefix: 10.96.0.0/24, ports: [443, 8443], tools: [orders]}]}
    broker:
      bindings:
      - name: orders
        tools: [orders]
        targets: [orders` + partnerZone + `]
        tokenExchange:
          mode: impersonation # the pod acts in its own name: no actor beside it
          tokenURL: https://issuer` + partnerZone + `/token
          audience: https://orders.partner
          scopes: ["orders:read"]
          clientAuth: {method: client_secret_basic, clientID: toolgate, secretFile: /etc/toolgate/secrets/client-secret}
          caFile: /etc/toolgate/secrets/partner.crt
      - name: keyed
        tools: [orders]
        targets: [keyed` + partnerZone + `]
        static: {file: /etc/toolgate/secrets/api-key, prefix: "Bearer "}
manifests:
  orders: |
    name: orders
    owner: e2e
    version: "1"
    description: Reads orders.
    risk: high
    capabilityClasses: [read_private]
    sideEffects: none
    idempotencyRequired: false
    approvalRequired: false
    timeoutMs: 600000
    egress:
      allowedDomains: ["orders` + partnerZone + `", "keyed` + partnerZone + `", "plain` + partnerZone + `", "plain` + partnerZone + `:8443"]
      allowPrivateNetwork: true
` + more
}

// quoted is text as a YAML scalar.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a string has no error
	return string(b)
}

// tools is a namespace whose pods are the tool orders, with the Secret of the sidecars' credentials.
func (p partner) tools(t *testing.T, k *kube) *kube {
	t.Helper()
	own := k.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	own.apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: toolgate-secrets}
stringData: {client-secret: `+clientSecret+`, api-key: `+apiKey+`, partner.crt: `+quoted(p.ca)+`}
`)
	return own
}

// record is what tests read of a sidecar's or gateway's record.
type record struct {
	ID, Kind, Host, Decision, Code, Tenant, Agent, Task, Subject, Workload string
	Status                                                                 int
	Port                                                                   int
	Intercepted                                                            bool
	CredentialBinding                                                      string `json:"credential_binding"`
	CredentialKind                                                         string `json:"credential_kind"`
	RevocationID                                                           string `json:"revocation_id"`
	ErrorClass                                                             string `json:"error_class"`
	GatewayDecisionID                                                      string `json:"gateway_decision_id"`
	SidecarDecisionID                                                      string `json:"sidecar_decision_id"`
}

// records are all that stand in a container's output; log lines are left out.
func (k *kube) records(t *testing.T, pod, container string) []record {
	t.Helper()
	var all []record
	for line := range strings.Lines(k.logs(t, pod, container)) {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil && r.Decision != "" && r.Kind != "intent" {
			all = append(all, r)
		}
	}
	return all
}

// awaitRecord polls for a record: it is written when a call has ended.
func (k *kube) awaitRecord(t *testing.T, pod, container string, is func(record) bool) record {
	t.Helper()
	var found record
	k.await(t, "a record of "+pod, func() error {
		all := k.records(t, pod, container)
		for _, r := range all {
			if is(r) {
				found = r
				return nil
			}
		}
		return fmt.Errorf("found %+v", all)
	})
	return found
}

// exec runs a command in the pod's container "tool" and returns what it wrote, and how it ended.
func (k *kube) exec(pod string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := k.m.command(ctx, append([]string{k.m.cache.program("kubectl"), "-n", k.namespace, "exec", pod, "-c", "tool", "--"}, args...)...).CombinedOutput()
	return string(out), err
}
