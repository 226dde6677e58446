package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

const (
	manyStreams    = 30
	streamBytes    = 512 << 10 // several times what anything may hold
	perStreamBound = 256 << 10
)

// streamed are bodies that go on when this much of them has come.
func streamed() map[string]struct {
	header http.Header
	sent   []byte
	plain  int
} {
	line := strings.Repeat("some words of a text that goes on for long, and ", 20) + "\n"
	event := "data: {\"index\":0,\"delta\":\"some words of a text\"}\n\n"
	text := strings.Repeat(line, streamBytes/len(line))
	events := strings.Repeat(event, streamBytes/len(event))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, text)
	_ = w.Flush()
	type body = struct {
		header http.Header
		sent   []byte
		plain  int
	}
	return map[string]body{
		"plain": {http.Header{"Content-Type": {"text/plain"}}, []byte(text), len(text)},
		"gzip":  {http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}}, z.Bytes(), len(text)},
		"SSE":   {http.Header{"Content-Type": {"text/event-stream"}}, []byte(events), len(events)},
	}
}

// Looking for the credential and copying for the log hold a bounded part of each stream, beyond what its relay holds. All streams are in their
// midst when it is measured.
func TestMemoryOfManyStreams(t *testing.T) {
	bare := newLab(t, replaced(t, "payloads: true", "payloads: false"))
	full := newLab(t)
	for kind, body := range streamed() {
		heap := map[string]int64{}
		for _, with := range []struct {
			name, host string
			lab        *lab
			plain      bool
		}{{"relay", "ruled.ok.test", bare, false}, {"all", "bound.ok.test", full, true}} {
			n := int64(len(body.sent))
			if with.plain {
				n = int64(body.plain)
			}
			heap[with.name] = with.lab.heapOfStreams("/ok/"+kind, with.host, body.header, body.sent, n)
		}
		each := (heap["all"] - heap["relay"]) / manyStreams
		t.Logf("%s: %d KiB for each of %d streams, and %d KiB more with all on", kind, heap["relay"]/manyStreams>>10, manyStreams, each>>10)
		if each > perStreamBound {
			t.Errorf("%s: %d bytes for each stream, want at most %d", kind, each, perStreamBound)
		}
	}
}

// heapOfStreams returns what the heap and the stacks have grown by when all streams are open and have brought n bytes.
func (l *lab) heapOfStreams(path, host string, header http.Header, sent []byte, n int64) int64 {
	l.t.Helper()
	end := make(chan struct{})
	l.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		for name, v := range header {
			w.Header()[name] = v
		}
		_, _ = w.Write(sent)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	client := l.client(l.token, false)
	before := inUse()
	came, ended := make(chan error, manyStreams), make(chan error, manyStreams)
	for range manyStreams {
		go func() {
			res, err := client.Get(l.url("https", host, path))
			if err == nil {
				if res.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", res.StatusCode)
				} else {
					_, err = io.CopyN(io.Discard, res.Body, n)
				}
			}
			came <- err
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			ended <- err
		}()
	}
	for range manyStreams {
		if err := <-came; err != nil {
			l.t.Fatal(err)
		}
	}
	grown := inUse() - before
	close(end)
	for range manyStreams {
		<-ended // what is gzip ends short
		l.next()
	}
	return grown
}

// inUse returns the bytes of live objects and of stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what pools keep is gone with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
