package e2e

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const gatewayHost = "gateway.test"

// behindGateway is a sidecar whose only way out is a gateway, both as they are deployed: one binary, two configs. The sidecar shows a
// token, as a pod without certificates does.
type behindGateway struct {
	*world
	sidecar, gateway *sidecar
	address          string // of the gateway
}

func newBehindGateway(t *testing.T, w *world) *behindGateway {
	t.Helper()
	cert, caPEM := upstreamPKI(t, gatewayHost)
	write(t, w.dir, "gateway.crt", certPEM(cert))
	write(t, w.dir, "gateway.key", keyPEM(t, cert.PrivateKey))
	write(t, w.dir, "gateway-ca.crt", caPEM)
	write(t, w.dir, "gateway-token", w.mint(t, map[string]any{"sub": "system:serviceaccount:acme:reader", "aud": "toolgate-gateway"}))
	b := &behindGateway{world: w}
	b.startGateway(t, "127.0.0.1:0")
	w.way = fmt.Sprintf("  gateway: {address: %q, serverName: %s, caFile: %q, tokenFile: %q}",
		b.address, gatewayHost, filepath.Join(w.dir, "gateway-ca.crt"), filepath.Join(w.dir, "gateway-token"))
	b.sidecar = w.start(t)
	return b
}

// startGateway starts the gateway; another one may have been there before.
func (b *behindGateway) startGateway(t *testing.T, listen string) {
	t.Helper()
	write(t, b.dir, "gateway-revocations.yaml", noRevocation) // its own
	b.render(t, "gateway.yaml", "gateway.yaml", map[string]string{
		"Listen": listen, "KillSwitch": fmt.Sprintf("killSwitch: {file: %q}", filepath.Join(b.dir, "gateway-revocations.yaml")),
	})
	b.gateway = b.run(t, "gateway", "tool", "admin")
	b.address = b.gateway.tool
	eventually(t, "the gateway is ready", b.gateway.ready)
}

// TestGateway takes each client through the chain of sidecar and gateway, by interception and by relay.
func TestGateway(t *testing.T) {
	b := newBehindGateway(t, newWorld(t, gitRoot(t), devAuthority))
	token := b.task(t, "user:carol")
	through := errand{proxy: proxyURL(b.sidecar.tool, token)}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			for _, host := range []string{ordersHost, plainHost} {
				checkArrives(t, b.world, b.sidecar, c, through, host, "user:carol")
			}
			checkDenied(t, b.world, b.sidecar, c, through)
		})
	}
	eventually(t, "the gateway has records of the tunnels", func() bool {
		return count(b.gateway.records(t, plainHost), func(r record) bool { return r.Subject == "user:carol" && r.Decision == "allow" }) >= 2
	})
	if said := b.gateway.stdout.String() + b.gateway.stderr.String() + b.sidecar.stdout.String() + b.sidecar.stderr.String(); strings.Contains(said, "eyJ") {
		t.Error("a log or a record shows a token")
	}
}

// TestToolDialsTheGateway: a tool that has escaped, has its caller's token and speaks to the gateway as well as any client can.
func TestToolDialsTheGateway(t *testing.T) {
	needs("curl")(t)
	b := newBehindGateway(t, newWorld(t, "", devAuthority))
	_, port, _ := net.SplitHostPort(b.address)
	for _, workload := range []string{"", b.task(t, "user:carol"), b.mint(t, map[string]any{"sub": "system:serviceaccount:evil:reader", "aud": "toolgate-gateway"})} {
		args := []string{"-sSv", "--max-time", "20", "--resolve", gatewayHost + ":" + port + ":127.0.0.1", "--proxy-cacert", filepath.Join(b.dir, "gateway-ca.crt"),
			"--cacert", filepath.Join(b.dir, "upstream-ca.pem"), "--proxy-user", "orders_reader:" + b.task(t, "user:carol"),
			"--proxy", "https://" + gatewayHost + ":" + port, b.up.url(plainHost, "/v1/orders/42")}
		if workload != "" {
			args = append(args, "--proxy-header", "Toolgate-Workload: "+workload)
		}
		out, err := run(t, nil, "curl", args...)
		if err == nil || !strings.Contains(out, "workload_not_allowed") {
			t.Errorf("%v, output:\n%s", err, out)
		}
	}
	if n := len(b.up.arrivals(plainHost)); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// TestGatewayGoesAndComesBack: without it no call leaves, and each says that it may be tried again; with it they go on.
func TestGatewayGoesAndComesBack(t *testing.T) {
	b := newBehindGateway(t, newWorld(t, "", devAuthority))
	client := toolClient(t, proxyURL(b.sidecar.tool, b.task(t, "user:carol")), b.sidecar.caFile)
	ask := func() answer { t.Helper(); return get(t, client, b.up.url(ordersHost, "/v1/orders/42")) }
	if a := ask(); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	b.gateway.kill()
	if a := ask(); a.status != 502 || a.header.Get("Toolgate-Denial") != "upstream_unreachable" || a.header.Get("Retry-After") == "" {
		t.Errorf("without a gateway: %+v", a)
	}
	b.startGateway(t, b.address)
	if a := ask(); a.status != 200 {
		t.Errorf("with the gateway again: %+v", a)
	}
}

// TestGatewayCuts the tunnels of a tool that its own kill switch stops, whatever the sidecar does.
func TestGatewayCuts(t *testing.T) {
	b := newBehindGateway(t, newWorld(t, "", devAuthority))
	conn, err := net.Dial("tcp", b.sidecar.tool)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	target := strings.TrimPrefix(b.up.url(plainHost, ""), "https://")
	_, _ = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", target, target, b.task(t, "user:carol"))
	buf := make([]byte, 256)
	if n, err := conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200 ") {
		t.Fatalf("%q %v", buf[:n], err)
	}
	write(t, b.dir, "gateway-revocations.yaml", strings.Replace(noRevocation, "[]",
		"\n  - {id: stop, selector: {tool: orders_reader}, reason: test, by: tests, at: 2026-01-01T00:00:00Z}", 1))
	if n, err := conn.Read(buf); err == nil || err == io.EOF {
		t.Errorf("the tunnel ended with %d bytes and %v, expected a reset", n, err)
	}
	client := toolClient(t, proxyURL(b.sidecar.tool, b.task(t, "user:carol")), b.sidecar.caFile)
	if a := get(t, client, b.up.url(ordersHost, "/v1/orders/42")); a.status != 403 || a.header.Get("Toolgate-Denial") != "revoked" {
		t.Errorf("%+v", a)
	}
}
