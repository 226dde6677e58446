package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
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
	certificatesInMetrics(t, p.api, ca, cert.Certificate[0])

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

// certificatesInMetrics: an alert must see when what the control plane shows ends.
func certificatesInMetrics(t *testing.T, api, ca string, leaf []byte) {
	t.Helper()
	parsed, err := x509.ParseCertificate(leaf)
	if err != nil {
		t.Fatal(err)
	}
	ends := parsed.NotAfter.Unix()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(api + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^toolgate_central_certificate_expiry_timestamp_seconds\{certificate="([a-z]+)"\} (.+)$`).FindAllStringSubmatch(string(text), -1) {
		seconds, err := strconv.ParseFloat(m[2], 64)
		found[m[1]] = err == nil && int64(seconds) == ends
	}
	if len(found) != 2 || !found["api"] || !found["nats"] {
		t.Errorf("found %v, expected api and nats with %d", found, ends)
	}
}
