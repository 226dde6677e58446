package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tour takes the steps of the quickstart as a tool would, with a stock HTTP client, and checks each.
type tour struct {
	world *world
	app   *app
	out   io.Writer
	tool  *http.Client
}

// run takes every step and returns how many did not do what they say.
func (t *tour) run(ctx context.Context) (failed int) {
	if err := t.connect(); err != nil {
		fmt.Fprintf(t.out, "   failed: %v\n", safeError(err))
		return 1
	}
	for i, step := range []func(context.Context) (string, error){
		t.allowed, t.otherDomain, t.metadataAddress, t.theLog, t.theKillSwitch, t.theMetrics,
	} {
		text, err := step(ctx)
		if err != nil {
			failed++
			text = strings.TrimSpace(text + "\n   FAILED: " + safeError(err).Error())
		}
		fmt.Fprintf(t.out, " %d %s\n", i+1, text)
	}
	return failed
}

// connect makes the tool's client: it knows the proxy and the sidecar's CA, and holds the task token as proxy password.
func (t *tour) connect() error {
	ca, err := os.ReadFile(filepath.Join(t.world.dir, "ca.crt"))
	if err != nil {
		return err
	}
	proxyURL := &url.URL{Scheme: "http", Host: t.app.addrs["tool"], User: url.UserPassword("tool", t.world.task)}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.Proxy = http.ProxyURL(proxyURL)
	tr.TLSClientConfig.RootCAs = trust(ca)
	t.tool = &http.Client{Transport: tr, Timeout: 20 * time.Second}
	return nil
}

func (t *tour) orders(path string) string {
	return fmt.Sprintf("https://%s:%d%s", ordersHost, t.world.upstream.port, path)
}

// line formats the first line of a step.
func line(name, what, result, note string) string {
	return strings.TrimRight(fmt.Sprintf("%-22s %-62s %s   %s", name, what, result, note), " ")
}

func (t *tour) allowed(ctx context.Context) (string, error) {
	target := t.orders("/v1/orders/42")
	name, what := "an allowed call", "GET "+target
	status, _, err := t.get(ctx, target)
	if err != nil {
		return name, err
	}
	claims, _ := t.world.upstream.last()
	act, _ := claims["act"].(map[string]any)
	text := line(name, what, fmt.Sprint(status), "the tool sent no credential") + fmt.Sprintf(
		"\n   upstream saw  sub=%v act=%v aud=%v scope=%v  expires in %.0f s", claims["sub"], act["sub"], claims["aud"], claims["scope"], secondsLeft(claims))
	switch {
	case status != http.StatusOK:
		return text, fmt.Errorf("expected status 200")
	case claims["sub"] != "user:alice" || act["sub"] != "sidecar" || claims["scope"] != "orders:read refunds:draft" || !isAudience(claims["aud"]):
		return text, fmt.Errorf("the upstream's token is not the one of the binding")
	}
	return text, nil
}

func isAudience(aud any) bool {
	if list, ok := aud.([]any); ok {
		return len(list) == 1 && list[0] == ordersAudience
	}
	return aud == ordersAudience
}

func secondsLeft(claims map[string]any) float64 {
	exp, _ := claims["exp"].(float64)
	return float64(int64(exp) - time.Now().Unix())
}

func (t *tour) otherDomain(ctx context.Context) (string, error) {
	target := "https://attacker.quickstart.test/"
	_, _, err := t.get(ctx, target)
	if err == nil || !strings.Contains(err.Error(), "domain_not_allowed") {
		return "a domain not allowed", fmt.Errorf("expected the CONNECT to be refused with domain_not_allowed, found: %w", orNone(err))
	}
	return line("a domain not allowed", "GET "+target, "403", "domain_not_allowed · retryable: no · never resolved"), nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func (t *tour) metadataAddress(ctx context.Context) (string, error) {
	target := "http://169.254.169.254/latest/meta-data/"
	status, body, err := t.get(ctx, target)
	if err != nil {
		return "the metadata address", err
	}
	var p struct{ Code string }
	if err := json.Unmarshal(body, &p); err != nil {
		return "the metadata address", err
	}
	text := line("the metadata address", "GET "+target, fmt.Sprint(status), p.Code+" · never dialled")
	if status != http.StatusForbidden || p.Code != "private_network" {
		return text, fmt.Errorf("expected 403 private_network")
	}
	return text, nil
}

// theLog sends a body and a header that must not be found again in anything that the sidecar wrote.
func (t *tour) theLog(ctx context.Context) (string, error) {
	const email, payment, own = "alice@customer.example", "pay-4f2e9c", "Bearer of-the-tools-own-making"
	body := fmt.Sprintf(`{"order": "42", "amount": 12.5, "customer_email": %q, "payment_token": %q}`, email, payment)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.orders("/v1/refunds/drafts"), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", own)
	status, _, err := t.do(req)
	if err != nil {
		return "the log of a call", err
	}
	logged, err := t.waitFor(ctx, "sidecar.log", `"msg":"payload".*POST`)
	if err != nil {
		return "the log of a call", err
	}
	masked := excerpts(logged)
	text := line("the log of a call", "POST "+t.orders("/v1/refunds/drafts"), fmt.Sprint(status), "a header of the tool's own was replaced") +
		"\n   " + strings.Join(masked, "  ")
	_, issued := t.world.upstream.last()
	if status != http.StatusCreated {
		return text, fmt.Errorf("expected status 201")
	}
	if len(masked) != 3 {
		return text, fmt.Errorf("expected the header and the two fields in the log, masked")
	}
	n, err := t.absent(email, payment, strings.TrimPrefix(own, "Bearer "), issued, t.world.task)
	return text + fmt.Sprintf("\n   searched %d bytes of log and records for the e-mail, the payment token and three credentials: not there", n), err
}

var excerptPattern = regexp.MustCompile(`(?i)\\?"?(customer_email|payment_token|authorization)\\?"?\s*[:=]\s*\\?"?((?:Bearer |Basic )?\[REDACTED:[a-z_]+\])`)

func excerpts(line string) []string {
	var found []string
	for _, m := range excerptPattern.FindAllStringSubmatch(line, -1) {
		found = append(found, strings.ToLower(m[1])+"="+m[2])
	}
	return found
}

// absent reads everything that the sidecar wrote and returns an error if one of the values is in it.
func (t *tour) absent(values ...string) (int, error) {
	total := 0
	for _, name := range []string{"sidecar.log", "records.jsonl"} {
		b, err := os.ReadFile(filepath.Join(t.world.dir, name))
		if err != nil {
			return 0, err
		}
		total += len(b)
		for _, v := range values {
			if v == "" || bytes.Contains(b, []byte(v)) {
				return total, fmt.Errorf("a value that must not be written is in %s", name)
			}
		}
	}
	return total, nil
}

func (t *tour) theKillSwitch(ctx context.Context) (string, error) {
	const name = "kill switch"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.orders("/v1/orders/stream"), nil)
	if err != nil {
		return name, err
	}
	res, err := t.tool.Do(req)
	if err != nil {
		return name, err
	}
	defer func() { _ = res.Body.Close() }()
	stream := bufio.NewReader(res.Body)
	if _, err := stream.ReadString('\n'); err != nil {
		return name, fmt.Errorf("the stream did not begin: %w", err)
	}
	revocation := fmt.Sprintf("apiVersion: toolgate/v1\nkind: Revocations\nrevocations:\n  - id: quickstart-drill\n    selector: {tool: draft_refund_request}\n"+
		"    reason: quickstart drill\n    by: responder@example.com\n    at: %s\n", time.Now().UTC().Format(time.RFC3339))
	if err := t.world.file("revocations.yaml", revocation, 0o644); err != nil {
		return name, err
	}
	began := time.Now()
	_, err = io.Copy(io.Discard, stream)
	cut := time.Since(began)
	// The tunnels from before are being reset, some of them perhaps not idle yet: a new call is to have one of its own.
	t.tool.CloseIdleConnections()
	t.tool.Transport = t.tool.Transport.(*http.Transport).Clone()
	if err == nil {
		return name, fmt.Errorf("the stream ended as if it were complete")
	}
	if err := t.refusedAsRevoked(ctx); err != nil {
		return name, err
	}
	text := line(name, "revoked draft_refund_request while a stream was running: ", fmt.Sprintf("cut after %d ms", cut.Milliseconds()), "new calls 403 revoked")
	if err := t.world.file("revocations.yaml", noRevocations, 0o644); err != nil {
		return text, err
	}
	for _, decision := range []string{"allow", "deny"} { // the stream that was cut, and the new call
		if _, err := t.waitFor(ctx, "records.jsonl", `"code":"revoked".*"decision":"`+decision+`"`); err != nil {
			return text, err
		}
	}
	return text, t.restored(ctx)
}

// refusedAsRevoked makes a new call. It is refused at its CONNECT, or inside a tunnel that is being reset and still takes a request.
func (t *tour) refusedAsRevoked(ctx context.Context) error {
	status, body, err := t.get(ctx, t.orders("/v1/orders/42"))
	if err == nil && status == http.StatusForbidden && strings.Contains(string(body), `"code":"revoked"`) {
		return nil
	}
	if err == nil || !strings.Contains(err.Error(), "revoked") {
		return fmt.Errorf("expected a new call to be refused with revoked, found: %d %w", status, orNone(err))
	}
	return nil
}

// restored waits until no revocation is in force: what the tour invites to try next must not meet its own.
func (t *tour) restored(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for t.app.kill.Status().Active > 0 {
		select {
		case <-ctx.Done():
			return errors.New("the revocation was not lifted")
		case <-tick.C:
		}
	}
	return nil
}

func (t *tour) theMetrics(ctx context.Context) (string, error) {
	target := "http://" + t.app.addrs["admin"] + "/metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "metrics", err
	}
	res, err := http.DefaultTransport.RoundTrip(req) // the operator's own way, not the tool's
	if err != nil {
		return "metrics", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "metrics", err
	}
	for l := range strings.Lines(string(body)) {
		if strings.HasPrefix(l, "toolgate_calls_total") && strings.Contains(l, `decision="deny"`) && strings.Contains(l, `code="revoked"`) {
			return line("metrics", target, strings.TrimSpace(l), ""), nil
		}
	}
	return line("metrics", target, "", ""), fmt.Errorf("no toolgate_calls_total with code=\"revoked\"")
}

// invite prints what a person may try next.
func (t *tour) invite() {
	p := func(name string) string { return filepath.Join(t.world.shown, name) }
	fmt.Fprintf(t.out, "try it yourself:\n  curl --cacert %s --proxy http://tool:$(cat %s)@%s %s\n", p("ca.crt"), p("task.jwt"), t.app.addrs["tool"], t.orders("/v1/orders/42"))
	fmt.Fprintf(t.out, "  curl --proxy http://tool:$(cat %s)@%s http://169.254.169.254/\n", p("task.jwt"), t.app.addrs["tool"])
	fmt.Fprintf(t.out, "  edit %s and %s: both are read again when they change\n", p("revocations.yaml"), p("manifests/draft_refund_request.yaml"))
	fmt.Fprintf(t.out, "  tail -f %s\nCtrl-C ends it\n", p("records.jsonl"))
}

func (t *tour) get(ctx context.Context, target string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, err
	}
	return t.do(req)
}

func (t *tour) do(req *http.Request) (int, []byte, error) {
	res, err := t.tool.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// waitFor returns the first line of a file that matches; what a call writes may come a moment after its answer.
func (t *tour) waitFor(ctx context.Context, name, pattern string) (string, error) {
	re := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(filepath.Join(t.world.dir, name))
		if err != nil {
			return "", err
		}
		for l := range strings.Lines(string(b)) {
			if re.MatchString(l) {
				return l, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s has no line with %s", name, pattern)
		case <-tick.C:
		}
	}
}
