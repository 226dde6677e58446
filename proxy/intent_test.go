package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/identity"
)

const effects = "sideEffects: external_write"

// TestIntentIsRecordedFirst: when the upstream sees a call of a tool with side effects, its intent is on the sink, with all that was known.
func TestIntentIsRecordedFirst(t *testing.T) {
	l := newLab(t, replaced(t, "sideEffects: none", effects))
	var there []record
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		l.records.mu.Lock()
		defer l.records.mu.Unlock()
		there = append([]record{}, l.records.all...)
	})
	for _, target := range []string{l.url("http", "plain.ok.test", "/"), l.url("https", "bound.ok.test", "/x"), l.url("https", "pass.ok.test", "/")} {
		l.records.mu.Lock()
		had := len(l.records.all)
		l.records.mu.Unlock()
		client := l.client(l.token, false)
		req, err := http.NewRequest(http.MethodPost, target, strings.NewReader(`{"amount": 5}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "order-17-refund")
		res, err := client.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %v", target, res, err)
		}
		_ = res.Body.Close()
		client.CloseIdleConnections()
		if len(there) != had+1 {
			t.Fatalf("%s: the upstream saw the call when there were %d more records, want 1", target, len(there)-had)
		}
		intent, outcome := l.next(), l.next()
		if intent.str("kind") != audit.KindIntent || outcome.str("kind") == audit.KindIntent || intent.str("id") != outcome.str("id") || intent["status"] != nil ||
			outcome["intent_ms"] == nil {
			t.Errorf("%s:\nintent  %v\noutcome %v", target, intent, outcome)
		}
		keys := []string{"decision", "tool", "tenant", "subject", "run", "host", "method", "rule", "side_effects", "credential_binding", "path", "idempotency_key", "input_type"}
		for _, key := range keys {
			if intent.str(key) != outcome.str(key) {
				t.Errorf("%s: %s is %q in the intent, and %q in the record", target, key, intent.str(key), outcome.str(key))
			}
		}
		if tunnel := strings.Contains(target, "pass."); !tunnel && (outcome.str("idempotency_key") == "" || outcome.str("input_type") != "application/json") {
			t.Errorf("%s: %v", target, outcome)
		}
	}
	if strings.Contains(l.printed(), "order-17-refund") && !strings.Contains(l.log.String(), "order-17-refund") {
		t.Error("the idempotency key is in a record")
	}
	l.noMore()
}

// TestNoIntentWithoutSideEffects: a tool without leaves one record.
func TestNoIntentWithoutSideEffects(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	if status, body, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/")); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	if r := l.next(); r.str("kind") != "request" || r.str("side_effects") != "none" {
		t.Errorf("%v", r)
	}
	l.noMore()
}

// TestCallsThatCannotBeRecordedAreDenied: the sink fails, or hangs, for the first time with the intent itself. No gate knew that before.
func TestCallsThatCannotBeRecordedAreDenied(t *testing.T) {
	for name, sink := range map[string]io.Writer{"fails": brokenSink{}, "hangs": hungSink{}} {
		for _, target := range []string{"http plain.ok.test", "https bound.ok.test", "https pass.ok.test"} {
			t.Run(name+" "+target, func(t *testing.T) {
				t.Parallel() // a sink that hangs is waited for
				l := newLab(t, replaced(t, "sideEffects: none", effects))
				l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { t.Error("the upstream saw the call") })
				records := audit.New(sink, audit.Options{})
				t.Cleanup(func() { _ = records.Close(0) })
				l.proxy.audit = records
				var scheme, host string
				_, _ = fmt.Sscan(target, &scheme, &host)
				status, body, err := get(l.client(l.token, false), l.url(scheme, host, "/"))
				if host == "pass.ok.test" {
					if err == nil || !strings.Contains(err.Error(), "not_ready") && !strings.Contains(err.Error(), "Service Unavailable") {
						t.Fatal(status, body, err)
					}
					return
				}
				if err != nil || status != http.StatusServiceUnavailable || problemOf(t, body).Code != NotReady {
					t.Fatal(status, body, err)
				}
			})
		}
	}
}

// hungSink is a disk that does not answer.
type hungSink struct{}

func (hungSink) Write([]byte) (int, error) { select {} }

// TestReasonOfARefusedToken: the record tells a replay from an expired token.
func TestReasonOfARefusedToken(t *testing.T) {
	l := newLab(t)
	if status, _, err := get(l.client(l.mint(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), false), l.url("http", "plain.ok.test", "/")); err != nil || status != http.StatusProxyAuthRequired {
		t.Fatal(status, err)
	}
	if r := l.next(); r.str("reason") != "expired" {
		t.Errorf("%v", r)
	}
}

// TestRunClassesBefore: a record says what the run's earlier calls could do, and not what another's could, nor what was denied.
func TestRunClassesBefore(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	call := func(run, host string) string {
		t.Helper()
		if _, _, err := get(l.client(l.mint(map[string]any{"run_id": run}), false), l.url("http", host, "/")); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(l.next()["run_classes_before"])
	}
	for i, c := range []struct{ run, host, want string }{
		{"a", "nowhere.ok.test", "<nil>"},
		{"a", "plain.ok.test", "<nil>"},
		{"b", "plain.ok.test", "<nil>"},
		{"a", "plain.ok.test", "[read_private]"},
		{"a", "nowhere.ok.test", "[read_private]"},
	} {
		if got := call(c.run, c.host); got != c.want {
			t.Errorf("call %d: %s, want %s", i, got, c.want)
		}
	}
}

func TestRunsAreBounded(t *testing.T) {
	var r runs
	of := func(n int) run { return runOf(&identity.Caller{Issuer: "i", Run: fmt.Sprint(n)}) }
	const n = 5 * maxRuns
	for i := range n {
		r.touch(of(i), []string{"write_side_effect", "read_public"})
		r.touch(of(0), []string{"read_untrusted"})
	}
	if got := fmt.Sprint(r.before(of(0))); got != "[read_public read_untrusted write_side_effect]" {
		t.Errorf("a run that goes on: %s", got)
	}
	if r.before(of(1)) != nil || r.before(of(n-maxRuns)) == nil || len(r.young)+len(r.aged) > 2*maxRuns {
		t.Errorf("%v %v, %d and %d", r.before(of(1)), r.before(of(n-maxRuns)), len(r.young), len(r.aged))
	}
	r.touch(run{}, []string{"read_public"})
	if r.before(run{}) != nil {
		t.Error("calls without a run are one run")
	}
	if allocs := testing.AllocsPerRun(100, func() { r.touch(of2, []string{"read_public"}); r.before(of2) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

var of2 = run{"i", "", "7"}
