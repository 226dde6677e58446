package interop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
)

// startLogs runs the receiver for log records.
func (c *collector) startLogs(t *testing.T) (*consumertest.LogsSink, component.Component) {
	t.Helper()
	sink := new(consumertest.LogsSink)
	r := must[receiver.Logs](t)(c.factory.CreateLogs(t.Context(), c.settings(), c.conf, sink))
	startReceiver(t, r)
	return sink, r
}

// received are the log records that came, by the number of their line.
func received(t *testing.T, sinks ...*consumertest.LogsSink) []plog.LogRecord {
	t.Helper()
	var all []plog.LogRecord
	for _, sink := range sinks {
		for _, ld := range sink.AllLogs() {
			for _, rl := range ld.ResourceLogs().All() {
				for _, sl := range rl.ScopeLogs().All() {
					for _, r := range sl.LogRecords().All() {
						all = append(all, r)
					}
				}
			}
		}
	}
	return all
}

func bodies(records []plog.LogRecord) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.Body().Str() + "\n")
	}
	return b.String()
}

// verify asks the binary whether lines are whole.
func verify(t *testing.T, lines string) string {
	t.Helper()
	cmd := exec.Command(must[string](t)(sidecarBinary()), "audit", "verify", "-o", "json", "-")
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
	return string(out)
}

func attribute(r plog.LogRecord, name string) string {
	v, _ := r.Attributes().Get(name)
	return v.AsString()
}

// TestRecordsToCollector sends records to the Collector's own receiver, by both protocols: each body is a line as it stands in the output,
// the chain can be followed from them, and nothing of what was called is in it.
func TestRecordsToCollector(t *testing.T) {
	plant := plantedEnvironment(t)
	for _, p := range []struct{ name, protocol string }{{"http", "http/protobuf"}, {"grpc", "grpc"}} {
		t.Run(p.name, func(t *testing.T) {
			plant(t)
			w := newWorld(t)
			const canary = "canary-5e1f0a9d77"
			port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				rw.Header().Set("X-Answer", canary)
				_, _ = io.WriteString(rw, canary)
			}), true)
			c := newCollector(t, w, p.name)
			sink, _ := c.startLogs(t)
			w.audit = fmt.Sprintf("{output: stdout, otlp: {endpoint: \"https://%s\", protocol: %s, caFile: upstream-ca.pem}}", c.address, p.protocol)
			s := w.start(t)
			client := s.client(t, w)
			const trace = "0af7651916cd43dd8448eb211c80319c"
			for range 3 {
				r := must[*http.Request](t)(http.NewRequest(http.MethodPost, urlOf("https", boundHost, port, "/"+canary+"?q="+canary), strings.NewReader(`{"`+canary+`":"`+canary+`"}`)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
				for _, h := range []string{"Authorization", "Cookie", "X-Api-Key"} {
					r.Header.Set(h, canary)
				}
				res := must[*http.Response](t)(client.Do(r))
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			s.stop(t) // which flushes
			got := received(t, sink)
			if text := bodies(got); text != s.stdout.String() {
				t.Fatalf("arrived:\n%s\nwritten:\n%s", text, s.stdout.String())
			}
			if out := verify(t, bodies(got)); !strings.Contains(out, `"findings": []`) || !strings.Contains(out, `"records": 3`) {
				t.Errorf("verify: %s", out)
			}
			first, call := got[0], got[1]
			if jq, err := exec.LookPath("jq"); err == nil {
				export := ""
				for _, ld := range append(sink.AllLogs(), sink.AllLogs()...) { // what arrives twice counts once
					export += string(must[[]byte](t)((&plog.JSONMarshaler{}).MarshalLogs(ld))) + "\n"
				}
				cmd := exec.Command(jq, "-rs", "--arg", "chain", attribute(first, "toolgate.audit.chain"), exportQuery(t))
				cmd.Stdin = strings.NewReader(export)
				if out, err := cmd.Output(); err != nil || string(out) != s.stdout.String() {
					t.Errorf("the page's jq: %v\n%s", err, out)
				}
			}
			chain := attribute(first, "toolgate.audit.chain")
			if first.EventName() != "toolgate.audit.start" || call.EventName() != "toolgate.audit.request" || chain == "" || attribute(call, "toolgate.audit.chain") != chain {
				t.Errorf("%s, %s of chain %q", first.EventName(), call.EventName(), chain)
			}
			id := call.TraceID()
			if hex.EncodeToString(id[:]) != trace || call.SpanID().IsEmpty() || call.Timestamp() == 0 || call.SeverityNumber() != plog.SeverityNumberInfo {
				t.Errorf("trace %s, span %s, at %v, %v", id, call.SpanID(), call.Timestamp(), call.SeverityNumber())
			}
			if attribute(call, "toolgate.decision") != "allow" || attribute(call, "gen_ai.tool.name") != "interop" || attribute(call, "toolgate.audit.seq") != "2" {
				t.Errorf("attributes %v", call.Attributes().AsRaw())
			}
			for _, ld := range sink.AllLogs() {
				raw := must[[]byte](t)((&plog.ProtoMarshaler{}).MarshalLogs(ld))
				for _, never := range []string{canary, "planted", credential, hex.EncodeToString([]byte(canary))} {
					if bytes.Contains(raw, []byte(never)) {
						t.Errorf("sent: %q", never)
					}
				}
			}
		})
	}
}

// exportQuery is how docs/audit.md takes bodies out of what a collector has written.
func exportQuery(t *testing.T) string {
	t.Helper()
	page := string(must[[]byte](t)(os.ReadFile("../../docs/audit.md")))
	_, rest, _ := strings.Cut(page, "jq -rs --arg chain \"$CHAIN\" '")
	query, _, ok := strings.Cut(rest, "' export.json >bodies.jsonl\n")
	if !ok {
		t.Fatal("the page has no such jq")
	}
	return query
}

// client is one whose tool goes through the sidecar.
func (s *sidecar) client(t *testing.T, w *world) *http.Client {
	t.Helper()
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(s.proxyURL()), TLSClientConfig: &tls.Config{RootCAs: roots(t, w.trusted(boundHost))}, DisableKeepAlives: true}}
}

// TestCollectorIsAway: without a collector calls go on, and the file keeps what one that comes later is sent, also from a process before.
func TestCollectorIsAway(t *testing.T) {
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), true)
	c := newCollector(t, w, "grpc")
	w.audit = fmt.Sprintf("{output: records.jsonl, otlp: {endpoint: \"https://%s\", protocol: grpc, caFile: upstream-ca.pem}}", c.address)
	call := func(s *sidecar) {
		t.Helper()
		res := must[*http.Response](t)(s.client(t, w).Get(urlOf("https", boundHost, port, "/")))
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || !s.ready() {
			t.Errorf("status %d, ready %v", res.StatusCode, s.ready())
		}
	}
	file := func() string { return string(must[[]byte](t)(os.ReadFile(w.path("records.jsonl")))) }

	before := w.start(t)
	for range 5 {
		call(before)
	}
	eventually(t, "lines wait", func() bool { return before.metric(t, "toolgate_audit_spool_records") == 6 })
	before.stop(t)

	s := w.start(t)
	call(s)
	eventually(t, "the lines of both wait", func() bool { return s.metric(t, "toolgate_audit_spool_records") == 9 })
	first, r := c.startLogs(t)
	eventually(t, "all have come", func() bool { return bodies(received(t, first)) == file() })
	eventually(t, "none waits", func() bool { return s.metric(t, "toolgate_audit_spool_records") == 0 })
	if err := r.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		call(s)
	}
	eventually(t, "lines wait again", func() bool { return s.metric(t, "toolgate_audit_spool_records") == 3 })
	second, _ := c.startLogs(t)
	s.stop(t)
	all := received(t, first, second)
	if got := bodies(all); got != file() {
		t.Errorf("arrived:\n%s\nwritten:\n%s", got, file())
	}
	out := verify(t, bodies(all))
	var report struct{ Records, Chains int }
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Records != 9 || report.Chains != 2 {
		t.Errorf("verify: %s", out)
	}
	if names := chainsOf(all); len(names) != 2 {
		t.Errorf("chains %v", names)
	}
}

func chainsOf(all []plog.LogRecord) (names []string) {
	for _, r := range all {
		names = append(names, attribute(r, "toolgate.audit.chain"))
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

// metric is the value of a metric without labels, -1 if there is none.
func (s *sidecar) metric(t *testing.T, name string) float64 {
	t.Helper()
	res := must[*http.Response](t)(http.Get("http://" + s.admin + "/metrics"))
	defer func() { _ = res.Body.Close() }()
	for line := range strings.Lines(string(must[[]byte](t)(io.ReadAll(res.Body)))) {
		var v float64
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return -1
}
