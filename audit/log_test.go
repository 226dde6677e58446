package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// tally counts what a Log observes.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) observe(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[result]++
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("written %d dropped %d error %d", c.n["written"], c.n["dropped"], c.n["error"])
}

// verifyChain checks prev_hash of each line and returns the values of seq.
func verifyChain(t *testing.T, out []byte) (seqs []int) {
	t.Helper()
	prev := strings.Repeat("0", 64)
	for line := range bytes.Lines(out) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		m := decode(t, line)
		if m["prev_hash"] != prev {
			t.Fatalf("line %d: prev_hash %v, want %s", len(seqs), m["prev_hash"], prev)
		}
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		seqs = append(seqs, int(m["seq"].(float64)))
	}
	return seqs
}

func TestChain(t *testing.T) {
	var out bytes.Buffer
	var c tally
	l := New(&out, Options{Chain: true, Observe: c.observe})
	for i := range 500 {
		l.Write(Record{ID: fmt.Sprint(i), Kind: "request"})
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	seqs := verifyChain(t, out.Bytes())
	for i, s := range seqs {
		if s != i+1 {
			t.Fatalf("seq %d at line %d", s, i)
		}
	}
	if len(seqs) != 500 || c.String() != "written 500 dropped 0 error 0" {
		t.Fatalf("%d lines, %v", len(seqs), &c)
	}
}

func TestNoChain(t *testing.T) {
	var out bytes.Buffer
	l := New(&out, Options{})
	l.Write(Record{Kind: "tunnel"})
	if err := l.Close(time.Minute); err != nil || out.String() != `{"kind":"tunnel","v":1}`+"\n" {
		t.Fatalf("%v %q", err, out.String())
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatalf("second Close: %v", err)
	}
}

func TestWriteAfterCloseDrops(t *testing.T) {
	var c tally
	l := New(io.Discard, Options{Observe: c.observe})
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	l.Write(Record{})
	if c.String() != "written 0 dropped 1 error 0" {
		t.Fatal(&c)
	}
}

// A pipe that nobody reads fills up. Calls go on, records are dropped and counted, and reading on brings all back.
func TestUnreadPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var c tally
	l := New(write, Options{Chain: true, Buffer: 64, Observe: c.observe})
	const n = 2000 // of about 500 bytes: more than a pipe, a batch and the buffer hold
	for range n {
		l.Write(Record{Tool: strings.Repeat("t", 500)})
	}
	if err := l.Ready(); !errors.Is(err, ErrFull) {
		t.Fatalf("Ready: %v", err)
	}
	read1 := bufio.NewReader(read)
	var out bytes.Buffer
	done := make(chan error)
	go func() {
		_, err := io.Copy(&out, read1)
		done <- err
	}()
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(); err != nil {
		t.Errorf("Ready after draining: %v", err)
	}
	write.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	seqs := verifyChain(t, out.Bytes())
	dropped := n - len(seqs)
	if want := fmt.Sprintf("written %d dropped %d error 0", len(seqs), dropped); dropped == 0 || c.String() != want {
		t.Fatalf("observed %v, want %s", &c, want)
	}
}

func TestCloseGivesUpOnBlockedSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := blocked{entered: make(chan struct{}, 8), release: make(chan struct{})}
		var c tally
		l := New(sink, Options{Observe: c.observe})
		l.Write(Record{})
		<-sink.entered
		for range 5 {
			l.Write(Record{})
		}
		start := time.Now()
		if err := l.Close(time.Second); !errors.Is(err, ErrUnwritten) || time.Since(start) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if c.String() != "written 0 dropped 0 error 5" {
			t.Fatal(&c)
		}
		close(sink.release) // the writer must end: synctest fails when a goroutine stays
	})
}

type blocked struct{ entered, release chan struct{} }

func (s blocked) Write(b []byte) (int, error) {
	s.entered <- struct{}{}
	<-s.release
	return len(b), nil
}

// flaky takes a few bytes and fails, some times over.
type flaky struct {
	bytes.Buffer
	failures int
}

func (s *flaky) Write(b []byte) (int, error) {
	if s.failures > 0 {
		s.failures--
		n, _ := s.Buffer.Write(b[:min(len(b), 7)])
		return n, errors.New("disk full at https://user:hunter2@host/")
	}
	return s.Buffer.Write(b)
}

func TestSinkFailsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{failures: 3}
		var c tally
		l := New(sink, Options{Chain: true, Observe: c.observe})
		l.Write(Record{Tool: "one"})
		synctest.Wait()
		var sinkErr *SinkError
		if err := l.Ready(); !errors.As(err, &sinkErr) || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("Ready: %v", err)
		}
		l.Write(Record{Tool: "two"})
		time.Sleep(10 * time.Second) // no further record is needed for the log to recover
		synctest.Wait()
		if err := l.Ready(); err != nil {
			t.Fatalf("Ready after recovery: %v", err)
		}
		if err := l.Close(time.Second); err != nil {
			t.Fatal(err)
		}
		if seqs := verifyChain(t, sink.Bytes()); len(seqs) != 2 || c.String() != "written 2 dropped 0 error 0" {
			t.Fatalf("%d lines, %v: %q", len(seqs), &c, sink.String())
		}
	})
}

func TestCloseGivesUpOnFailingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tally
		l := New(&flaky{failures: 1 << 30}, Options{Observe: c.observe})
		l.Write(Record{Tool: strings.Repeat("t", 1000)})
		synctest.Wait()
		l.Write(Record{Tool: "two"})
		if err := l.Close(time.Second); !errors.Is(err, ErrUnwritten) {
			t.Fatal(err)
		}
		synctest.Wait()
		if c.String() != "written 0 dropped 0 error 2" {
			t.Fatal(&c)
		}
	})
}

func TestConcurrentWrites(t *testing.T) {
	var out bytes.Buffer
	l := New(&out, Options{Chain: true})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				l.Write(Record{Tool: "t"})
			}
		})
	}
	wg.Wait()
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if seqs := verifyChain(t, out.Bytes()); len(seqs) != 800 || seqs[799] != 800 {
		t.Fatalf("%d lines", len(seqs))
	}
}

func BenchmarkWrite(b *testing.B) {
	l := New(io.Discard, Options{Chain: true})
	r := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		l.Write(r)
	}
	_ = l.Close(time.Minute)
}

// BenchmarkSave is the cost of an intent without a disk: the record is encoded and chained, and the caller waits for the writer.
func BenchmarkSave(b *testing.B) {
	l := New(io.Discard, Options{Chain: true, Process: &Process{Key: testKey(1)}})
	r := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Save(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	_ = l.Close(time.Minute)
}

// BenchmarkSaveFile is the same with a file that is synced.
func BenchmarkSaveFile(b *testing.B) {
	f, _, err := OpenFile(filepath.Join(b.TempDir(), "records"), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	l := New(f, Options{Chain: true})
	r := filled(b)
	for b.Loop() {
		if err := l.Save(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	_ = l.Close(time.Minute)
}

// BenchmarkEncode is what a record costs the writer: canonical form and hash.
func BenchmarkEncode(b *testing.B) {
	l := New(io.Discard, Options{Chain: true})
	w := newWriter(l, io.Discard, Options{Chain: true, Process: &Process{Key: testKey(1)}})
	r := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		w.add(&entry{record: r})
		if w.marks.due() {
			w.mark(KindCheckpoint)
		}
		w.flush()
	}
}

// TestAllocations: a record with the chain costs the writer few of them, whatever it holds.
func TestAllocations(t *testing.T) {
	l := New(io.Discard, Options{Chain: true})
	w := newWriter(l, io.Discard, Options{Chain: true})
	r := filled(t)
	if n := testing.AllocsPerRun(1000, func() {
		e := l.pool.Get().(*entry)
		e.record = r
		w.add(e)
		w.flush()
	}); n > 10 {
		t.Errorf("%v allocations, want at most 10", n)
	}
}
