package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIndependentIssuerExchange is the product's promise against an authorization server that shares no code with it.
func TestIndependentIssuerExchange(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "private_key_jwt"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, "", independent(method))
			s := w.start(t)
			// Two callers make two exchanges, so that a client assertion used twice would be noticed.
			seen := ""
			secrets := []string{clientSecret}
			for _, subject := range []string{"user:alice", "user:bob"} {
				token := w.task(t, subject)
				secrets = append(secrets, token)
				tool := toolClient(t, proxyURL(s.tool, token), s.caFile)
				seen += checkExchange(t, w, tool, subject)
				seen += checkRefused(t, w, tool, wideHost)
				seen += checkRefused(t, w, tool, unknownHost)
			}
			seen += metrics(t, s)
			s.stop(t)
			checkRecords(t, s)
			checkNoSecret(t, w, s, seen, secrets)
		})
	}
}

// checkExchange makes a call and compares the token that arrived with what the binding asks for.
func checkExchange(t *testing.T, w *world, tool *http.Client, subject string) string {
	t.Helper()
	before := len(w.up.arrivals(ordersHost))
	a := get(t, tool, w.up.url(ordersHost, "/v1/orders/42"))
	if a.status != http.StatusOK || !strings.Contains(a.body, `"id":"42"`) {
		t.Fatalf("%s: %d %s", subject, a.status, a.body)
	}
	arrivals := w.up.arrivals(ordersHost)[before:]
	if len(arrivals) != 1 {
		t.Fatalf("%s: %d requests reached the upstream, want 1", subject, len(arrivals))
	}
	c := arrivals[0].Claims
	if a.proto != "HTTP/2.0" || arrivals[0].Proto != a.proto {
		t.Errorf("the tool spoke %s, the upstream heard %s, want HTTP/2.0", a.proto, arrivals[0].Proto)
	}
	if c.Sub != subject || c.Act.Sub != workloadSub || c.ClientID != clientID || c.Scope != ordersScope ||
		!slices.Equal(c.Audience, []string{ordersAudience}) {
		t.Errorf("%s: the upstream saw %+v", subject, c)
	}
	for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "Toolgate-Authorization"} {
		if v := arrivals[0].Header.Get(h); v != "" {
			t.Errorf("%s: the upstream was sent %s", subject, h)
		}
	}
	return a.text()
}

// checkRefused calls a host whose binding the authorization server turns down.
func checkRefused(t *testing.T, w *world, tool *http.Client, host string) string {
	t.Helper()
	a := get(t, tool, w.up.url(host, "/v1/orders/42"))
	var problem struct {
		Code      string `json:"code"`
		Status    int    `json:"status"`
		Retryable bool   `json:"retryable"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
		t.Errorf("%s: %d, the body is no JSON: %q", host, a.status, a.body)
	}
	if a.status != http.StatusForbidden || problem.Status != a.status || problem.Code != "credential_denied" || problem.Retryable ||
		a.header.Get("Toolgate-Denial") != problem.Code || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d %v %s", host, a.status, a.header, a.body)
	}
	if n := len(w.up.arrivals(host)); n != 0 {
		t.Errorf("%s: %d requests reached the upstream without a credential", host, n)
	}
	return a.text()
}

func metrics(t *testing.T, s *sidecar) string {
	t.Helper()
	res, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), "toolgate_calls_total") {
		t.Errorf("/metrics: %v, %d bytes without toolgate_calls_total", err, len(body))
	}
	return string(body)
}

// checkRecords finds one record for each call and no other.
func checkRecords(t *testing.T, s *sidecar) {
	t.Helper()
	total := checkChain(t, s.stdout.String())
	if want := 2 * 3; total != want { // two callers, three hosts
		t.Errorf("%d records, want %d", total, want)
	}
	for _, subject := range []string{"user:alice", "user:bob"} {
		allowed := func(r record) bool {
			return r.Kind == "request" && r.Decision == "allow" && r.Code == "" && r.Tool == "orders_reader" && r.Subject == subject &&
				r.CredentialBinding == "orders" && slices.Equal(r.CredentialScopes, []string{ordersScope})
		}
		denied := func(r record) bool {
			return r.Kind == "request" && r.Decision == "deny" && r.Code == "credential_denied" && r.Subject == subject
		}
		for host, match := range map[string]func(record) bool{ordersHost: allowed, wideHost: denied, unknownHost: denied} {
			if n := count(s.records(t, host), match); n != 1 {
				t.Errorf("%d records of %s's call to %s, want 1", n, subject, host)
			}
		}
	}
}

// checkChain follows seq and prev_hash through the lines and returns how many records of calls there are.
func checkChain(t *testing.T, out string) int {
	t.Helper()
	prev, n, calls := strings.Repeat("0", 2*sha256.Size), 0, 0
	for line := range strings.Lines(out) {
		n++
		var link struct {
			Kind string `json:"kind"`
			Seq  int    `json:"seq"`
			Prev string `json:"prev_hash"`
		}
		if err := json.Unmarshal([]byte(line), &link); err != nil || link.Seq != n || link.Prev != prev {
			t.Errorf("record %d does not continue the chain: %v %+v, want prev_hash %s", n, err, link, prev)
		}
		prev = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSuffix(line, "\n"))))
		if link.Kind == "request" || link.Kind == "tunnel" {
			calls++
		}
	}
	return calls
}

func count(records []record, match func(record) bool) int {
	n := 0
	for _, r := range records {
		if match(r) {
			n++
		}
	}
	return n
}

// checkNoSecret searches all that the sidecar printed and wrote, and all that the tool saw, for every secret in the world.
func checkNoSecret(t *testing.T, w *world, s *sidecar, seen string, secrets []string) {
	t.Helper()
	places := map[string]string{"stdout": s.stdout.String(), "stderr": s.stderr.String(), "what the tool saw": seen}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		switch name := d.Name(); name {
		case "task.jwt", "workload.jwt", "client-key.pem":
			secrets = append(secrets, string(b))
		case "client-secret": // its value is among the secrets
		default:
			places[name] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range w.up.arrivals(ordersHost) {
		secrets = append(secrets, a.Token)
	}
	for _, secret := range secrets {
		for where, text := range places {
			for _, form := range forms(secret) {
				if strings.Contains(text, form) {
					t.Errorf("%s contains %.12s…", where, form)
				}
			}
		}
	}
}

// forms returns the telling parts of a secret: a JWT's payload and signature, the lines of a PEM block, and how a value looks in
// Basic credentials.
func forms(secret string) []string {
	var out []string
	for part := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '.' || r == '\n' }) {
		if len(part) > 20 && !strings.HasPrefix(part, "-----") && !strings.HasPrefix(part, "eyJhbGciOi") {
			out = append(out, part)
		}
	}
	return append(out, base64.StdEncoding.EncodeToString([]byte("tool:"+secret)), base64.StdEncoding.EncodeToString([]byte(clientID+":"+secret)))
}
