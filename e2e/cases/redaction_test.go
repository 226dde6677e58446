//go:build linux

package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func redactionCases() []replay {
	return []replay{
		{"RED-04", "oras-project/oras-go#1271",
			"cookies, API keys and signed URLs, in requests that are answered, refused, malformed and fail, at every log level",
			"names are logged; no value is, in any form", everyCarrier},
		{"RED-05", "CVE-2024-45808 (Envoy), CVE-2026-42507 (Go net/textproto)",
			"line ends, JSON and terminal sequences in paths, headers, targets, tokens and in what upstreams and issuers say",
			"each line of log and records is one JSON object of the sidecar's own; no control byte", forgedLines},
		{"RED-07", "CVE-2025-1296 (nomad), CVE-2026-40945 (oxia)",
			"tokens of callers that are refused for every reason; a token endpoint and an introspection endpoint that repeat all that they were sent in their errors",
			"no token, assertion or secret in log, records, metrics or what the tool is told", failedLogins},
		{"RED-08", "CVE-2026-46358, CVE-2025-62513 (openbao)",
			"AUTHORIZATION, authorization, X-VAULT-TOKEN and the like over HTTP/1 and HTTP/2; JSON fields called password in every spelling",
			"masked with log.payloads, and absent without", everySpelling},
		{"RED-09", "agentcage#156, permitio/docs#640",
			"an upstream that repeats the credential in headers, bodies, trailers, 1xx, events and frames, in every form, cut at every place",
			"the tool never has it, and it is logged nowhere; there is no switch that turns this off", echoes},
		{"RED-10", "guard0-ai/g0#168",
			"sixty secrets of the usual forms, and six thousand, before the real one, in an answer and in a payload that is logged", "the real one is masked", manyHits},
		{"RED-12", "permitio/docs#640",
			"an answer that repeats the credential in gzip, br, zstd, deflate, two of them, an unknown coding, a part; gRPC and WebSocket messages that are compressed",
			"no coding is asked for; what comes coded nevertheless is decoded and masked, or not passed on", codedEchoes},
		{"RED-14", "CVE-2024-37307, CVE-2026-41520 (cilium)",
			"every path that debug servers have, every command that prints a config or records, SIGQUIT", "no secret; the admin port is off unless configured and has three paths", dumps},
		{"RED-15", "NVIDIA/OpenShell#708",
			"credentials in query and path, on calls that succeed, are sent back by a redirect, and fail in every way", "log, metrics, records, traces and answers have the placeholder or nothing", secretsInURLs},
		{"RED-16", "CVE-2020-8565 (k8s client-go)",
			"the most talkative settings of the sidecar, of the injector and of the libraries below them; a brokered call and calls to an API server", "no token", mostTalkative},
	}
}

// talkative has everything printed that can be.
func talkative(s *settings) { s.log = "debug, payloads: true" }

// collected has every call traced, to a collector that keeps the bytes.
func (l *lab) collected(t *testing.T) (*lockedBuffer, func(*settings)) {
	t.Helper()
	got := new(lockedBuffer)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(got, r.Body)
		rw.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	l.wire.own = append(l.wire.own, netip.MustParseAddrPort(u.Host))
	return got, func(set *settings) { set.top += fmt.Sprintf("tracing: {endpoint: %q, maxPerSecond: 100000}\n", s.URL) }
}

// told is all that a sidecar said, to whomever: it is ended, so that nothing is still to come.
func (w *world) told(t *testing.T, more ...*lockedBuffer) string {
	t.Helper()
	_, metrics := w.adminGet("/metrics")
	_, ready := w.adminGet("/readyz")
	if metrics == "" || ready == "" {
		t.Error("no metrics or no readiness")
	}
	w.stop(t)
	all := w.printed() + metrics + ready
	for _, m := range more {
		if m.String() == "" {
			t.Error("nothing came to the collector")
		}
		all += m.String()
	}
	return all
}

// hidden fails the test if text has one of the values, in any form.
func hidden(t *testing.T, where, text string, values ...string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, v := range values {
		for form, as := range forms(v) {
			at := strings.Index(text, as)
			if at < 0 && (form == "hex" || form == "percent, all") {
				at = strings.Index(lower, as)
			}
			if at >= 0 {
				t.Errorf("%s: %q is there as %s: …%q…", where, v, form, text[max(0, at-80):min(len(text), at+len(as)+40)])
			}
		}
	}
}

// says fails the test unless text has each of the words: what is hidden must have been there to be hidden.
func says(t *testing.T, where, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q:\n%s", where, word, tail(text))
		}
	}
}

// ownLines fails the test unless each line is a JSON object that begins as the sidecar's do, without control bytes.
func ownLines(t *testing.T, where, text string, keys ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var entry map[string]any
		body, ended := strings.CutSuffix(line, "\n")
		if err := json.Unmarshal([]byte(body), &entry); err != nil || !ended {
			t.Errorf("%s: a line is no JSON: %q %v", where, line, err)
			continue
		}
		for _, key := range keys {
			if entry[key] == nil {
				t.Errorf("%s: a line has no %s: %q", where, key, line)
			}
		}
		if entry["msg"] == forged || entry["kind"] == forged {
			t.Errorf("%s: a line was forged: %q", where, line)
		}
		if i := bytes.IndexFunc([]byte(body), func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }); i >= 0 {
			t.Errorf("%s: a control character in %q", where, line)
		}
	}
}

// forged is the message of the lines that the cases try to put in.
const forged = "forged-by-the-tool"

// transports are the ways in which a request may come, for a stock client: HTTP/1.1 and HTTP/2 in an intercepted tunnel.
func (w *world) transports(t *testing.T) map[string]*http.Client {
	return map[string]*http.Client{"h1": w.client(t, w.t1, w.tokenA, false), "h2": w.client(t, w.t1, w.tokenA, true)}
}

// canaries makes values that no rule knows by their form, and remembers them.
type canaries struct {
	mu  sync.Mutex
	all []string
}

func (c *canaries) next(what string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := fmt.Sprintf("quiet-river-%s-%d-stone", what, len(c.all))
	c.all = append(c.all, v)
	return v
}

// fill puts a value of its own in the place of each {C}.
func (c *canaries) fill(what, text string) string {
	for strings.Contains(text, "{C}") {
		text = strings.Replace(text, "{C}", c.next(what), 1)
	}
	return text
}
