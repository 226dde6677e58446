package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// TestSidecarsByTheirTokens: sidecars get their NATS credentials for the token that they have, with the CA in the config itself.
// Without a good token one is never in touch.
func TestSidecarsByTheirTokens(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	cert, ca := upstreamPKI(t, "control.test")
	dir := t.TempDir()
	chain, key := write(t, dir, "tls.crt", certPEM(cert)), write(t, dir, "tls.key", keyPEM(t, cert.PrivateKey))
	p := newPlane(t, "--tls-cert", chain, "--tls-key", key, "--nats-tls-cert", chain, "--nats-tls-key", key, "--sidecar-issuer", w.tasks.URL())
	p.caFile = write(t, dir, "ca.pem", ca)
	token := func(pod, audience string) string {
		text, err := w.tasks.Mint(map[string]any{
			"aud": audience, "sub": "system:serviceaccount:shop:orders",
			"kubernetes.io": map[string]any{"namespace": "shop", "pod": map[string]any{"name": pod}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return write(t, dir, pod, text)
	}
	credentials := regexp.MustCompile(`(?m)^    tokenFile: .*$`) // as the server says it, but for the file
	snippet := p.snippet + "    ca: |\n      " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      ") + "\n"
	by := func(file string) string {
		return credentials.ReplaceAllString(snippet, "    tokenFile: "+file)
	}
	p.snippet = by(token("stranger", "another-service"))
	stranger := w.launch(t, "stranger", p.config(w, "stranger"))
	p.snippet = by(token("one", "toolgate-killswitch"))
	s := p.sidecar(t, w, "one")
	p.must(t, 0, []string{`"user": "shop_one"`}, "sidecars", "-o", "json")
	p.must(t, 0, []string{"acknowledged by 1 of 1"}, "revoke", "--tool", "orders_reader", "--reason", "drill", "--yes")
	if got := connect(t, w, s, w.task(t, "user:alice")); !strings.Contains(got.body, `"code":"revoked"`) {
		t.Errorf("a new call: %d %s", got.status, got.body)
	}
	if stranger.ready() {
		t.Error("a sidecar with a token for another service is in touch")
	}
}
