package proxy

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/tracing"
	"github.com/toolgate/toolgate/tracing/otlp"
)

// collector takes spans by OTLP/HTTP.
type collector struct {
	server *httptest.Server

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*trace.Span
}

func newCollector(t testing.TB) *collector {
	k := new(collector)
	k.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var m trace.TracesData
		if err := proto.Unmarshal(b, &m); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.raw.Write(b)
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				k.spans = append(k.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(k.server.Close)
	return k
}

// traced gives the lab's proxy a tracer before any call; the function that it returns flushes and returns what the collector has.
func (l *lab) traced(o tracing.Options) (k *collector, flush func() []*trace.Span) {
	l.t.Helper()
	k = newCollector(l.t)
	o.Collector = otlp.Options{Endpoint: k.server.URL, Protocol: otlp.HTTP}
	o.Observe, o.Log = l.metrics.Spans, slog.New(slog.DiscardHandler)
	if o.PerSecond == 0 {
		o.PerSecond = 1000
	}
	tracer, err := tracing.New(o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.proxy.tracer = tracer
	flush = func() []*trace.Span {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		tracer.Close(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.spans
	}
	l.t.Cleanup(func() { flush() })
	return k, flush
}

const (
	toolTrace       = "0af7651916cd43dd8448eb211c80319c"
	toolSpan        = "b7ad6b7169203331"
	toolTraceparent = "00-" + toolTrace + "-" + toolSpan + "-01"
)

// ask makes a request with headers, and returns its status.
func (l *lab) ask(c *http.Client, method, target string, body string, headers ...string) int {
	l.t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// boundTarget is the target of the lab's binding.
func boundTarget(f *labFiles) string {
	_, rest, _ := strings.Cut(f.config, `targets: ["`)
	target, _, _ := strings.Cut(rest, `"`)
	return target
}

func attributesOf(s *trace.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = time.Duration(v.IntValue).String() // any text that tells zero from others
		}
	}
	return out
}

func byName(t *testing.T, spans []*trace.Span) map[string]*trace.Span {
	t.Helper()
	out := map[string]*trace.Span{}
	for _, s := range spans {
		if out[s.Name] != nil {
			t.Errorf("span %s twice", s.Name)
		}
		out[s.Name] = s
	}
	return out
}

// TestSpansOfACall: one span of a call below the tool's, three below that; the record and the upstream name them.
func TestSpansOfACall(t *testing.T) {
	l := newLab(t, func(f *labFiles) {
		f.config += `tracing: {endpoint: "http://127.0.0.1:1", propagate: ["` + strings.Replace(boundTarget(f), "bound", "*", 1) + `"]}` + "\n"
	})
	var told http.Header
	l.mux.HandleFunc("/p", func(_ http.ResponseWriter, r *http.Request) { told = r.Header })
	l.mux.HandleFunc("/unlisted", func(_ http.ResponseWriter, r *http.Request) { told = r.Header })
	_, flush := l.traced(tracing.Options{SampleRatio: 0})
	if s := l.ask(l.client(l.token, false), "POST", l.url("https", "bound.ok.test", "/p?q=1"), "x", "Traceparent", toolTraceparent, "Tracestate", "a=1, b=2"); s != 200 {
		t.Fatal(s)
	}
	r, toldBound := l.next(), told
	if s := l.ask(l.client(l.token, false), "GET", l.url("http", "plain.ok.test", "/unlisted"), "", "Traceparent", strings.Replace(toolTraceparent, "0af", "fff", 1)); s != 200 {
		t.Fatal(s)
	}
	l.next()
	if got := told.Get("Traceparent"); got != strings.Replace(toolTraceparent, "0af", "fff", 1) {
		t.Errorf("an upstream that is not listed was told %q", got)
	}
	told = toldBound
	all := flush()
	spans := byName(t, slices.DeleteFunc(all, func(s *trace.Span) bool { return hex.EncodeToString(s.TraceId) != toolTrace }))
	call := spans["execute_tool t1"]
	if len(spans) != 4 || call == nil {
		t.Fatalf("spans %v", spans)
	}
	if hex.EncodeToString(call.TraceId) != toolTrace || hex.EncodeToString(call.ParentSpanId) != toolSpan {
		t.Errorf("the tool's trace is not continued: %v", call)
	}
	for _, name := range []string{"decision", "exchange", "upstream"} {
		s := spans[name]
		if s == nil || !bytes.Equal(s.ParentSpanId, call.SpanId) || !bytes.Equal(s.TraceId, call.TraceId) ||
			s.StartTimeUnixNano < call.StartTimeUnixNano || s.EndTimeUnixNano > call.EndTimeUnixNano || s.EndTimeUnixNano <= s.StartTimeUnixNano {
			t.Errorf("%s is not within the call: %v", name, s)
		}
	}
	if r.str("trace_id") != toolTrace || r.str("span_id") != toolSpan || r.str("call_span_id") != hex.EncodeToString(call.SpanId) {
		t.Errorf("record %v", r)
	}
	if want := "00-" + toolTrace + "-" + hex.EncodeToString(spans["upstream"].SpanId) + "-01"; told.Get("Traceparent") != want || told.Get("Tracestate") != "a=1,b=2" {
		t.Errorf("the upstream was told %q %q, want %q", told["Traceparent"], told["Tracestate"], want)
	}
	a := attributesOf(call)
	for key, want := range map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t1", "gen_ai.agent.id": "agent-1", "gen_ai.conversation.id": "run-1",
		"toolgate.decision.id": r.str("id"), "toolgate.decision": "allow", "server.address": "bound.ok.test", "toolgate.tenant": "acme",
		"toolgate.credential.binding": "bound", "toolgate.credential.kind": "token_exchange", "error.type": "",
	} {
		if a[key] != want {
			t.Errorf("%s is %q, want %q", key, a[key], want)
		}
	}
	if p := a["enduser.pseudo.id"]; p == "" || strings.Contains(p, "alice") {
		t.Errorf("enduser.pseudo.id %q", p)
	}
}

// TestWhichCallsAreTraced holds the choice, and what an upstream is told that nobody lists: the tool's own words.
func TestWhichCallsAreTraced(t *testing.T) {
	for _, c := range []struct {
		name, header string
		ratio        float64
		spans        int
		trace        string // of the record; "new": one of our own
	}{
		{"none, ratio 1", "", 1, 3, "new"},
		{"none, ratio 0", "", 0, 0, ""},
		{"sampled", toolTraceparent, 0, 3, toolTrace},
		{"not sampled", strings.TrimSuffix(toolTraceparent, "1") + "0", 1, 0, toolTrace},
		{"malformed", "00-" + toolTrace + "-0000000000000000-01", 1, 3, "new"},
		{"later version", "cc-" + toolTrace + "-" + toolSpan + "-01-more", 0, 3, toolTrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			told := make(chan []string, 1)
			l.mux.HandleFunc("/p", func(_ http.ResponseWriter, r *http.Request) { told <- r.Header["Traceparent"] })
			_, flush := l.traced(tracing.Options{SampleRatio: c.ratio})
			var headers []string
			if c.header != "" {
				headers = []string{"Traceparent", c.header}
			}
			if s := l.ask(l.client(l.token, false), "GET", l.url("http", "plain.ok.test", "/p"), "", headers...); s != 200 {
				t.Fatal(s)
			}
			r := l.next()
			spans := flush()
			if len(spans) != c.spans || (r.str("call_span_id") != "") != (c.spans > 0) {
				t.Errorf("%d spans, want %d; record %v", len(spans), c.spans, r)
			}
			if got := r.str("trace_id"); c.trace == "new" && (len(got) != 32 || got == toolTrace) || c.trace != "new" && got != c.trace {
				t.Errorf("trace_id %q, want %q", got, c.trace)
			}
			if got := strings.Join(<-told, ","); got != c.header {
				t.Errorf("the upstream was told %q", got)
			}
		})
	}
}

// TestATraceparentBuysNoMore: beyond the tool's limit the sampled flag changes nothing, for callers that nobody knows as well.
func TestATraceparentBuysNoMore(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/p", func(http.ResponseWriter, *http.Request) {})
	_, flush := l.traced(tracing.Options{PerSecond: 1})
	begun := time.Now()
	const calls = 40
	for _, token := range []string{l.token, ""} {
		for range calls {
			l.ask(l.client(token, false), "GET", l.url("http", "plain.ok.test", "/p"), "", "Traceparent", toolTraceparent)
			l.next()
		}
	}
	most := 2 * (2 + int(time.Since(begun).Seconds()))
	n := 0
	for _, s := range flush() {
		if strings.HasPrefix(s.Name, "execute_tool") {
			n++
		}
	}
	if n < 2 || n > most || n > calls {
		t.Errorf("%d calls traced, want at most %d", n, most)
	}
}

// TestSpansOfRefusals: the denial's code is on the call and on what ended it, and a host that no rule has is not named.
func TestSpansOfRefusals(t *testing.T) {
	l := newLab(t)
	_, flush := l.traced(tracing.Options{SampleRatio: 1})
	l.ask(l.client(l.token, false), "GET", l.url("http", "secret-text.evil.test", "/p"), "")
	l.next()
	l.revoke(killswitch.Selector{Tool: []string{"t1"}})
	l.ask(l.client(l.token, false), "GET", l.url("http", "plain.ok.test", "/p"), "")
	l.next()
	var codes []string
	for _, s := range flush() {
		a := attributesOf(s)
		codes = append(codes, s.Name+" "+a["error.type"]+" "+a["toolgate.revocation.id"]+a["server.address"])
		if s.Status.GetCode() != trace.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: status %v", s.Name, s.Status)
		}
	}
	want := "execute_tool t1 domain_not_allowed |decision domain_not_allowed |execute_tool t1 revoked r0|decision revoked "
	if got := strings.Join(codes, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSpansOfTunnels: a relayed tunnel is a call, an intercepted one is not.
func TestSpansOfTunnels(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/p", func(http.ResponseWriter, *http.Request) {})
	_, flush := l.traced(tracing.Options{SampleRatio: 1})
	for _, host := range []string{"pass.ok.test", "bound.ok.test"} {
		c := l.client(l.token, false)
		l.ask(c, "GET", l.url("https", host, "/p"), "")
		c.CloseIdleConnections()
		l.next()
	}
	var got []string
	for _, s := range flush() {
		if strings.HasPrefix(s.Name, "execute") {
			a := attributesOf(s)
			got = append(got, a["toolgate.kind"]+" "+a["server.address"])
		}
	}
	if strings.Join(got, ",") != "tunnel pass.ok.test,request bound.ok.test" {
		t.Errorf("got %v", got)
	}
}

// TestSpansLeakNothing plants a canary in every input of a call and looks for it in all that is exported.
func TestSpansLeakNothing(t *testing.T) {
	const canary = "CANARY7f3a"
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Answer", canary)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, canary)
	})
	k, flush := l.traced(tracing.Options{SampleRatio: 1})
	token := l.mint(map[string]any{"sub": "user:" + canary, "email": canary + "@example.test", "jti": canary, "task_id": "password=" + canary, "run_id": "https://x.test/?token=" + canary})
	for _, host := range []string{"http://plain.ok.test", "https://bound.ok.test", "https://ruled.ok.test", "https://pass.ok.test", "http://" + strings.ToLower(canary) + ".evil.test"} {
		scheme, name, _ := strings.Cut(host, "://")
		for _, token := range []string{token, canary} {
			c := l.client(token, false)
			r, err := http.NewRequest(canary, l.url(scheme, name, "/ok/"+canary+"?q="+canary), strings.NewReader(`{"a":"`+canary+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Traceparent", toolTraceparent)
			for _, h := range []string{"Authorization", "Cookie", "X-Api-Key", "Tracestate", "User-Agent", "Baggage"} {
				r.Header.Set(h, "k="+canary)
			}
			r.Header.Set("Content-Type", "application/json; c="+canary)
			if res, err := c.Do(r); err == nil {
				_ = res.Body.Close()
			}
			c.CloseIdleConnections()
			l.next()
		}
	}
	if n := len(flush()); n < 15 {
		t.Fatalf("only %d spans", n)
	}
	all := strings.ToLower(k.raw.String())
	for _, form := range []string{strings.ToLower(canary), hex.EncodeToString([]byte(canary)), strings.ToLower(token), "alice"} {
		if strings.Contains(all, form) {
			t.Errorf("exported: %q", all[max(0, strings.Index(all, form)-120):][:160])
		}
	}
}

// TestExemplars: with tracing, exemplars name traces that there are, and each duration of a call has one.
func TestExemplars(t *testing.T) {
	for _, c := range []struct {
		name   string
		traced bool
		flag   string
		want   int
	}{{"off", false, "1", 1}, {"sampled", true, "1", 1}, {"not sampled", true, "0", 0}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.mux.HandleFunc("/p", func(http.ResponseWriter, *http.Request) {})
			if c.traced {
				l.traced(tracing.Options{SampleRatio: 1})
			}
			l.ask(l.client(l.token, false), "GET", l.url("https", "bound.ok.test", "/p"), "", "Traceparent", toolTraceparent[:54]+c.flag)
			l.next()
			r, _ := http.NewRequest("GET", l.admin.URL+"/metrics", nil)
			r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			b, _ := io.ReadAll(res.Body)
			for _, name := range []string{"call_duration_seconds", "decision_duration_seconds", "token_exchange_duration_seconds"} {
				got := 0
				for line := range strings.Lines(string(b)) {
					if strings.HasPrefix(line, "toolgate_"+name+"_bucket{") && strings.Contains(line, `# {trace_id="`+toolTrace+`"}`) {
						got++
					}
				}
				if got != c.want {
					t.Errorf("%s: %d exemplars, want %d", name, got, c.want)
				}
			}
		})
	}
}

// TestNoTracingDoesNotAllocate: where nothing is traced, tracing costs nothing.
func TestNoTracingDoesNotAllocate(t *testing.T) {
	c, a, h := &call{proxy: new(Proxy)}, &ask{traceparent: toolTraceparent}, http.Header{}
	allocs := testing.AllocsPerRun(1000, func() {
		c.joinTrace(a)
		c.span.Exchange(time.Time{}, "")
		c.span.Upstream(time.Time{})
		c.propagate(h)
		_ = c.exemplar()
		c.span.End(&c.rec)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
