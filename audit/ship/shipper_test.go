package ship

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/tracing/otlp"
)

// quick are the times of tests, which wait for what happens and not for these.
var quick = times{collect: time.Millisecond, send: 10 * time.Second, retry: time.Millisecond, long: 5 * time.Millisecond, asked: time.Hour}

// collector answers with what answer says, and keeps what it has taken.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	asked   int
	records []*logs.LogRecord
	answer  func(n int, records []*logs.LogRecord) (status int, rejected int64)
	after   string // Retry-After
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{answer: func(int, []*logs.LogRecord) (int, int64) { return 200, 0 }}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var m logs.LogsData
	if proto.Unmarshal(b, &m) != nil || r.URL.Path != "/v1/logs" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	records := m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	status, rejected := c.answer(c.asked, records)
	if c.after != "" {
		w.Header().Set("Retry-After", c.after)
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	c.records = append(c.records, records...)
	if rejected > 0 {
		_, _ = w.Write([]byte{0x0a, 2, 0x08, byte(rejected)}) // partial_success.rejected_log_records
	}
}

func (c *collector) lines() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		all = append(all, r.GetBody().GetStringValue())
	}
	return all
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// counts are what a Shipper observed.
type counts struct {
	mu     sync.Mutex
	by     map[string]int
	failed int
}

func (c *counts) get(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if result == "failed" {
		return c.failed
	}
	return c.by[result]
}

func ship(t *testing.T, c *collector, spool Spool) (*Shipper, *counts) {
	t.Helper()
	n := &counts{by: map[string]int{}}
	s, err := newShipper(Options{
		Collector: otlp.Options{Endpoint: c.URL, Protocol: otlp.HTTP}, Spool: spool, Version: "v0", Log: slog.New(slog.DiscardHandler),
		Observe: func(result string, k int) { n.mu.Lock(); n.by[result] += k; n.mu.Unlock() },
		Failed:  func() { n.mu.Lock(); n.failed++; n.mu.Unlock() },
	}, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(s, 0) })
	return s, n
}

func end(s *Shipper, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	s.Close(ctx)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for tick := time.Tick(time.Millisecond); !cond(); <-tick {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func someLines(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(`{"kind":"request","seq":%d}`, i))
	}
	return all
}

func text(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

// TestFullSpoolDropsAndCounts: what memory has no room for is dropped, nobody waits, and what was kept arrives.
func TestFullSpoolDropsAndCounts(t *testing.T) {
	c := newCollector(t)
	var up bool
	c.answer = func(int, []*logs.LogRecord) (int, int64) {
		if up {
			return 200, 0
		}
		return 503, 0
	}
	all := someLines(100, 110) // of one length
	s, n := ship(t, c, NewMemory(6*len(all[0])+1))
	s.Wrote(text(all[:7]))
	for _, l := range all[7:] {
		s.Wrote(text([]string{l}))
	}
	if n.get(Dropped) != 4 || s.Waiting() != 6 {
		t.Errorf("dropped %d, waiting %d", n.get(Dropped), s.Waiting())
	}
	eventually(t, "failures are counted", func() bool { return n.get("failed") > 2 })
	c.mu.Lock()
	up = true
	c.mu.Unlock()
	eventually(t, "all have come", func() bool { return s.Waiting() == 0 })
	if got := c.lines(); !slices.Equal(got, all[:6]) || n.get(Shipped) != 6 {
		t.Errorf("%d shipped: %q", n.get(Shipped), got)
	}
	s.Wrote(text(someLines(200, 203)))
	end(s, time.Minute)
	if got := c.lines(); len(got) != 9 || n.get(Dropped) != 4 {
		t.Errorf("after the end: %q, dropped %d", got, n.get(Dropped))
	}
}

// TestStopWithoutACollector: what memory still holds is counted; what a file holds is not lost.
func TestStopWithoutACollector(t *testing.T) {
	c := newCollector(t)
	c.answer = func(int, []*logs.LogRecord) (int, int64) { return 401, 0 } // which whoever mends the key will end
	s, n := ship(t, c, NewMemory(1<<20))
	s.Wrote(text(someLines(0, 5)))
	eventually(t, "it was tried", func() bool { return c.count() > 3 })
	end(s, 0)
	if n.get(Dropped) != 5 || n.get(Rejected) != 0 {
		t.Errorf("dropped %d, rejected %d", n.get(Dropped), n.get(Rejected))
	}
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(path, text(someLines(0, 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, n = ship(t, c, follow(t, path))
	before := c.count()
	eventually(t, "it was tried", func() bool { return c.count() > before+3 })
	if end(s, 0); n.get(Dropped) != 0 || s.Waiting() != 5 {
		t.Errorf("of a file: dropped %d, waiting %d", n.get(Dropped), s.Waiting())
	}
}

func follow(t *testing.T, path string) Spool {
	t.Helper()
	f, err := audit.Follow(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDeletedBefore: lines of files that were deleted before they were sent are counted once the rest has come.
func TestDeletedBefore(t *testing.T) {
	c := newCollector(t)
	c.answer = func(int, []*logs.LogRecord) (int, int64) { return 502, 0 }
	path := filepath.Join(t.TempDir(), "records.jsonl")
	w, _, err := audit.OpenFile(path, 120, 1) // four lines
	if err != nil {
		t.Fatal(err)
	}
	s, n := ship(t, c, follow(t, path))
	for _, l := range someLines(100, 150) {
		if _, err := w.Write(text([]string{l})); err != nil {
			t.Fatal(err)
		}
		s.Wrote(text([]string{l}))
	}
	eventually(t, "it was tried", func() bool { return c.count() > 2 })
	c.mu.Lock()
	c.answer = func(int, []*logs.LogRecord) (int, int64) { return 200, 0 }
	c.mu.Unlock()
	eventually(t, "none waits", func() bool { return s.Waiting() == 0 })
	if got := len(c.lines()); got == 0 || n.get(Dropped) != 50-got || n.get(Shipped) != got {
		t.Errorf("%d came, %d are counted, %d dropped", got, n.get(Shipped), n.get(Dropped))
	}
}

// TestOneBadLine: a line that a collector refuses for good does not hold up the others, and is the only one that is counted.
func TestOneBadLine(t *testing.T) {
	c := newCollector(t)
	all := someLines(0, 40)
	c.answer = func(_ int, records []*logs.LogRecord) (int, int64) {
		for _, r := range records {
			if r.GetBody().GetStringValue() == all[17] {
				return 400, 0
			}
		}
		return 200, 0
	}
	s, n := ship(t, c, NewMemory(1<<20))
	s.Wrote(text(all))
	end(s, time.Minute)
	if got := c.lines(); !slices.Equal(got, append(slices.Clone(all[:17]), all[18:]...)) || n.get(Rejected) != 1 || n.get(Shipped) != 39 {
		t.Errorf("%d came, %d rejected, %d shipped", len(got), n.get(Rejected), n.get(Shipped))
	}
}

// TestPartialSuccess: what a collector says it has thrown away counts as rejected, and is not sent again.
func TestPartialSuccess(t *testing.T) {
	c := newCollector(t)
	c.answer = func(int, []*logs.LogRecord) (int, int64) { return 200, 2 }
	s, n := ship(t, c, NewMemory(1<<20))
	s.Wrote(text(someLines(0, 5)))
	end(s, time.Minute)
	if n.get(Rejected) != 2 || n.get(Shipped) != 3 || c.count() != 1 {
		t.Errorf("%d rejected, %d shipped, asked %d times", n.get(Rejected), n.get(Shipped), c.count())
	}
}

// TestRetryAfter: a collector that asks to be left alone is, until the sidecar stops.
func TestRetryAfter(t *testing.T) {
	c := newCollector(t)
	c.after = "3000"
	c.answer = func(n int, _ []*logs.LogRecord) (int, int64) {
		if n == 1 {
			return 429, 0
		}
		return 200, 0
	}
	s, n := ship(t, c, NewMemory(1<<20))
	s.Wrote(text(someLines(0, 5)))
	eventually(t, "it was refused", func() bool { return n.get("failed") == 1 })
	s.Wrote(text(someLines(5, 6)))
	if len(c.lines()) != 0 {
		t.Error("it was not left alone")
	}
	end(s, time.Minute)
	if len(c.lines()) != 6 || c.count() != 2 {
		t.Errorf("%d came, asked %d times", len(c.lines()), c.count())
	}
}

// TestRecord: what is said beside a line, of each kind.
func TestRecord(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, c := range []struct{ line, event, severity, attributes, trace string }{
		{`{"chain":"c9","kind":"start","seq":1,"time":"2026-11-30T09:12:04.400Z"}`, "toolgate.audit.start", "INFO", "toolgate.audit.chain=c9 toolgate.audit.seq=1", ""},
		{`{"kind":"intent","decision":"allow","seq":2,"tool":"t"}`, "toolgate.audit.intent", "INFO", "toolgate.audit.chain=c toolgate.audit.seq=2 gen_ai.tool.name=t toolgate.decision=allow", ""},
		{`{"kind":"request","decision":"deny","code":"revoked","trace_id":"` + trace + `","span_id":"` + span + `"}`, "toolgate.audit.request", "WARN", "toolgate.audit.chain=c toolgate.decision=deny toolgate.denial.code=revoked", trace + span},
		{`{"kind":"tunnel","decision":"allow","error_class":"cut","trace_id":"` + trace + `","span_id":"` + trace + `","call_span_id":"` + span + `"}`, "toolgate.audit.tunnel", "ERROR", "toolgate.audit.chain=c toolgate.decision=allow toolgate.error.class=cut", trace + span},
		{`{"kind":"request","trace_id":"xyz","span_id":"` + span + `"}`, "toolgate.audit.request", "INFO", "toolgate.audit.chain=c", ""},
		{`{"kind":"new","tool":"` + strings.Repeat("x", 300) + `"}`, "toolgate.audit.line", "INFO", "toolgate.audit.chain=c", ""},
		{`{"kind":"req`, "toolgate.audit.line", "INFO", "toolgate.audit.chain=c", ""},
	} {
		m, _ := new(Shipper).message([][]byte{[]byte(c.line)}, "c")
		r := m.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()[0]
		var a []string
		for _, kv := range r.GetAttributes() {
			v := kv.GetValue().GetStringValue()
			if v == "" {
				v = fmt.Sprint(kv.GetValue().GetIntValue())
			}
			a = append(a, kv.GetKey()+"="+v)
		}
		if got := strings.Join(a, " "); r.GetEventName() != c.event || r.GetSeverityText() != c.severity || got != c.attributes {
			t.Errorf("%s: %s %s %s", c.line, r.GetEventName(), r.GetSeverityText(), got)
		}
		if got := fmt.Sprintf("%x%x", r.GetTraceId(), r.GetSpanId()); got != c.trace || r.GetBody().GetStringValue() != c.line {
			t.Errorf("%s: trace %s, body %s", c.line, got, r.GetBody())
		}
	}
	r := record([]byte("{\"a\":\"\xc3"), &named{}, "")
	if b, err := proto.Marshal(r); err != nil || string(r.GetBody().GetBytesValue()) != "{\"a\":\"\xc3" || len(b) == 0 {
		t.Errorf("a line that was cut within a letter: %v %v", r, err)
	}
}

// BenchmarkMessage: what a line costs, on a goroutine that no call waits for.
func BenchmarkMessage(b *testing.B) {
	line := []byte(`{"agent":"support-agent","bytes_in":46,"bytes_out":106,"capability_classes":["read_private","write_side_effect"],"decision":"allow","host":"orders.test","id":"01a22bb9-c430-72ad-b1f0-31ee4f9eb156","kind":"request","listener":"tool","method":"POST","policy_revision":"5432de17c7bf","port":37693,"prev_hash":"4e319a15fa279f6a0f3568a4257264063557280058c2d4367ba3a68d73ab6c76","seq":7,"status":201,"subject":"user:alice","tenant":"acme","time":"2026-11-30T09:12:04.400Z","tool":"draft_refund_request","total_ms":2.335,"v":1}`)
	lines := slices.Repeat([][]byte{line}, 100)
	s := new(Shipper)
	b.ReportAllocs()
	for b.Loop() {
		m, _ := s.message(lines, "c")
		if _, err := proto.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}
