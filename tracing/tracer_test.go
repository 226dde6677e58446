package tracing

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/tracing/otlp"
)

const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var quick = times{collect: time.Millisecond, send: 5 * time.Second, retry: time.Millisecond, again: 2}

// results counts what Observe is told.
type results struct {
	mu sync.Mutex
	n  map[string]int
}

func (r *results) observe(result string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[result] += n
}

func (r *results) of(result string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n[result]
}

func begin(t *testing.T, endpoint string, timing times, log io.Writer) (*Tracer, *results) {
	t.Helper()
	r := &results{n: map[string]int{}}
	tracer, err := newTracer(Options{
		Collector: otlp.Options{Endpoint: endpoint, Protocol: otlp.HTTP}, SampleRatio: 1, PerSecond: 1_000_000,
		Observe: r.observe, Log: slog.New(slog.NewTextHandler(log, nil)),
	}, timing)
	if err != nil {
		t.Fatal(err)
	}
	return tracer, r
}

func closeIn(tracer *Tracer, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	tracer.Close(ctx)
}

// TestDeadCollector: a collector that takes the connection and never answers costs calls nothing but spans, which are counted, and the
// stop no more than it is allowed.
func TestDeadCollector(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	tracer, r := begin(t, "http://"+ln.Addr().String(), times{collect: time.Millisecond, send: time.Hour, retry: time.Hour, again: 5}, io.Discard)
	const calls = 2 * (maxQueue + 2*maxBatch)
	for range calls { // each that waited would wait for an hour
		tracer.Begin("t", sampled).End(&audit.Record{Time: time.Now()})
	}
	if n := r.of(Dropped); n < 2*(calls-maxQueue-maxBatch) {
		t.Errorf("%d spans dropped", n)
	}
	closeIn(tracer, 10*time.Millisecond)
	if n := r.of(Dropped); n != 2*calls || r.of(Exported) != 0 {
		t.Errorf("%d spans dropped in the end, want all %d", n, 2*calls)
	}
	tracer.Begin("t", sampled).End(&audit.Record{}) // after the end
	if n := r.of(Dropped); n != 2*calls+2 {
		t.Errorf("a late span is not counted: %d", n)
	}
	closeIn(tracer, time.Millisecond) // once more harms nobody
}

// TestCollectorThatRefuses: what may be taken later is sent again, what may not is not; each state is logged once.
func TestCollectorThatRefuses(t *testing.T) {
	var mu sync.Mutex
	var asked int
	answers := []int{503, 429, 200, 400, 502, 502, 502, 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(answers[asked])
		asked++
	}))
	defer server.Close()
	var log bytes.Buffer
	tracer, r := begin(t, server.URL, quick, &log)
	total := func() int { return r.of(Exported) + r.of(Failed) }
	for i := range 4 {
		tracer.Begin("t", sampled).End(&audit.Record{Time: time.Now()})
		for end := time.Now().Add(10 * time.Second); total() < 2*(i+1); {
			if time.Now().After(end) {
				t.Fatalf("batch %d did not end: %v", i, r.n)
			}
			<-time.After(time.Millisecond)
		}
	}
	closeIn(tracer, 5*time.Second)
	if asked != len(answers) || r.of(Exported) != 4 || r.of(Failed) != 4 {
		t.Errorf("asked %d times: %v", asked, r.n)
	}
	if n, m := strings.Count(log.String(), "cannot be sent"), strings.Count(log.String(), "sent again"); n != 1 || m != 1 {
		t.Errorf("log:\n%s", log.String())
	}
}

// TestRejectedSpans counts those that the collector says it threw away, and no more than there were.
func TestRejectedSpans(t *testing.T) {
	for _, c := range []struct {
		answer             string
		rejected, exported int
	}{
		{"", 0, 2},
		{"\x0a\x02\x08\x01", 1, 1},
		{"\x0a\x02\x08\x63", 2, 0},
		{"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, 2}, // -1
		{"\x0a\x03\x12\x01x", 0, 2},                                    // a warning
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) }))
		tracer, r := begin(t, server.URL, quick, io.Discard)
		tracer.Begin("t", sampled).End(&audit.Record{Time: time.Now()})
		closeIn(tracer, 5*time.Second)
		server.Close()
		if r.of(Rejected) != c.rejected || r.of(Exported) != c.exported {
			t.Errorf("%q: %v", c.answer, r.n)
		}
	}
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limits{perSecond: 2, now: time.Now, buckets: map[string]*bucket{}}
		taken := func(tool string) (n int) {
			for range 10 {
				if l.take(tool) {
					n++
				}
			}
			return n
		}
		if a, b := taken("a"), taken("b"); a != 2 || b != 2 {
			t.Errorf("%d and %d taken, want 2 each: a tool has its own", a, b)
		}
		time.Sleep(500 * time.Millisecond) // of the bubble's clock
		if n := taken("a"); n != 1 {
			t.Errorf("%d after half a second", n)
		}
		time.Sleep(time.Hour)
		if n := taken("a"); n != 2 {
			t.Errorf("%d after an hour", n)
		}
	})
}

func TestSampleRatio(t *testing.T) {
	tracer, _ := begin(t, "http://127.0.0.1:1", quick, io.Discard)
	defer closeIn(tracer, 0)
	tracer.options.SampleRatio = 0.25
	n := 0
	for range 4000 {
		if tracer.Begin("t", "") != nil {
			n++
		}
	}
	if n < 800 || n > 1200 { // seven standard deviations
		t.Errorf("%d of 4000", n)
	}
}

func TestNil(t *testing.T) {
	var tracer *Tracer
	s := tracer.Begin("t", sampled)
	s.Exchange(time.Now(), "b")
	s.Upstream(time.Now())
	s.End(&audit.Record{})
	tracer.Close(context.Background())
	if s != nil || s.ID() != "" || s.TraceID() != "" || s.Traceparent() != "" {
		t.Error("a nil tracer traces")
	}
}

// BenchmarkCall is what a traced call pays: the choice, the ids, the copy of its record.
func BenchmarkCall(b *testing.B) {
	tracer, err := newTracer(Options{
		Collector: otlp.Options{Endpoint: "http://127.0.0.1:1", Protocol: otlp.HTTP}, PerSecond: 1 << 30,
		Observe: func(string, int) {}, Log: slog.New(slog.DiscardHandler),
	}, quick)
	if err != nil {
		b.Fatal(err)
	}
	defer closeIn(tracer, 0)
	r := &audit.Record{Time: time.Now(), Tool: "t"}
	b.ReportAllocs()
	for b.Loop() {
		s := tracer.Begin("t", sampled)
		r.TraceID, r.CallSpanID = s.TraceID(), s.ID()
		s.End(r)
	}
}
