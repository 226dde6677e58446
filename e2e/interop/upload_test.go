package interop

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	uploadSize = 2 << 30
	maxGrowth  = 32 << 20
)

// TestUploadNeedsNoMemory streams a body that is larger than a container's memory through interception, with a credential and
// thus with its echoes looked for, and watches the sidecar's resident memory.
func TestUploadNeedsNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: an upload of 2 GiB takes some seconds")
	}
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(rw, "%s %d %v", r.Proto, n, err)
	}), true)
	s := w.start(t)
	for i, h2 := range []bool{false, true} {
		proto := []string{"HTTP/1.1", "HTTP/2.0"}[i]
		t.Run(proto, func(t *testing.T) {
			tr := &http.Transport{
				Proxy: http.ProxyURL(s.proxyURL()), ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{RootCAs: roots(t, w.trusted(boundHost))},
			}
			defer tr.CloseIdleConnections()
			post := func(size int64) string {
				body := io.LimitReader(pattern{}, size) // of a length that nobody is told
				res, err := (&http.Client{Transport: tr}).Post(urlOf("https", boundHost, port, "/"), "application/octet-stream", body)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				return string(must[[]byte](t)(io.ReadAll(res.Body)))
			}
			before := len(s.records(t, boundHost))
			post(1 << 20) // what the first call makes stays for all
			grown := s.watchMemory(t)
			if got, want := post(uploadSize), fmt.Sprintf("%s %d <nil>", proto, uploadSize); got != want {
				t.Errorf("the upstream says %q, want %q", got, want)
			}
			if by := grown(); by > maxGrowth {
				t.Errorf("the sidecar's memory grew by %d KiB, want at most %d", by>>10, maxGrowth>>10)
			} else {
				t.Logf("the sidecar's memory grew by %d KiB", by>>10)
			}
			if r := s.awaitRecords(t, boundHost, before+2)[before+1]; r.BytesOut != uploadSize || r.Status != http.StatusOK {
				t.Errorf("record %+v", r)
			}
		})
	}
}

// pattern reads as the same bytes for ever.
type pattern struct{}

func (pattern) Read(p []byte) (int, error) { return len(p), nil }

// watchMemory samples the sidecar's resident memory until the function that it returns is called, which tells by how many bytes it
// has grown at most.
func (s *sidecar) watchMemory(t *testing.T) (grown func() int64) {
	t.Helper()
	first := s.resident(t)
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		peak := first
		for {
			select {
			case <-tick.C:
				peak = max(peak, s.resident(t))
			case <-stop:
				most <- peak
				return
			}
		}
	}()
	return func() int64 { close(stop); return <-most - first }
}

// resident returns VmRSS (proc_pid_status(5)) in bytes.
func (s *sidecar) resident(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil {
		t.Error(err)
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Error(err)
			}
			return n << 10
		}
	}
	t.Error("no VmRSS")
	return 0
}
