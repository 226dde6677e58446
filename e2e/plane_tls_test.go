package e2e

import (
	"strings"
	"testing"
)

// TestControlPlaneTLS: NATS and the API with certificates of a private CA. Who does not trust it reaches neither.
func TestControlPlaneTLS(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	cert, ca := upstreamPKI(t, "control.test")
	_, otherCA := upstreamPKI(t, "control.test")
	dir := t.TempDir()
	chain, key := write(t, dir, "tls.crt", certPEM(cert)), write(t, dir, "tls.key", keyPEM(t, cert.PrivateKey))
	caFile, otherFile := write(t, dir, "ca.pem", ca), write(t, dir, "other.pem", otherCA)

	p := newPlane(t, "--tls-cert", chain, "--tls-key", key, "--nats-tls-cert", chain, "--nats-tls-key", key)
	if !strings.HasPrefix(p.api, "https://") || !strings.Contains(p.snippet, `servers: ["tls://`) {
		t.Fatalf("it says %s and\n%s", p.api, p.snippet)
	}
	p.must(t, 1, []string{"certificate signed by unknown authority"}, "status")
	p.caFile = otherFile
	p.must(t, 1, []string{"certificate signed by unknown authority"}, "status")
	p.must(t, 0, []string{"0 live"}, "status", "--ca-file", caFile)
	p.caFile = caFile

	// The snippet ends below nats, where caFile belongs.
	snippet := p.snippet
	mistrusts := w.launch(t, "mistrusts", p.config(w, "mistrusts"))
	p.snippet = snippet + "    caFile: " + otherFile + "\n"
	deceived := w.launch(t, "deceived", p.config(w, "deceived"))
	p.snippet = snippet + "    caFile: " + caFile + "\n"
	s := p.sidecar(t, w, "one")
	p.must(t, 0, []string{"acknowledged by 1 of 1"}, "revoke", "--tool", "orders_reader", "--reason", "drill", "--yes")
	if got := connect(t, w, s, w.task(t, "user:alice")); !strings.Contains(got.body, `"code":"revoked"`) {
		t.Errorf("a new call: %d %s", got.status, got.body)
	}
	for name, s := range map[string]*sidecar{"without the CA": mistrusts, "with another CA": deceived} {
		if s.ready() {
			t.Errorf("a sidecar %s is in touch", name)
		}
	}
}
