package interop

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// status asks for a URL through the sidecar on a connection of its own and returns the status, 0 where none came within some seconds.
func (s *sidecar) status(to string) int {
	tr := &http.Transport{Proxy: http.ProxyURL(s.proxyURL()), DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Get(to)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// crowdOf opens n connections to the sidecar that say something each. They are closed with the test, or before.
func (s *sidecar) crowdOf(t *testing.T, n int, say string) (leave func()) {
	t.Helper()
	conns := make([]net.Conn, 0, n)
	var once sync.Once
	leave = func() {
		once.Do(func() {
			for _, c := range conns {
				_ = c.Close()
			}
		})
	}
	t.Cleanup(leave)
	for range n {
		c := must[net.Conn](t)(net.Dial("tcp", s.tool))
		conns = append(conns, c)
		_, _ = io.WriteString(c, say)
	}
	return leave
}

func (s *sidecar) lives(t *testing.T) {
	t.Helper()
	select {
	case <-s.exited:
		t.Fatal("the sidecar has exited")
	default:
	}
}

// descriptors counts those that the sidecar holds.
func (s *sidecar) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/fd")
	if errors.Is(err, os.ErrPermission) {
		t.Skip("what the sidecar has open is for root alone to see")
	}
	return len(must[[]os.DirEntry](t)(entries, err))
}

// TestDescriptorsRunOut: without a free descriptor a call fails with a code, nobody is let through, the sidecar goes on, and once
// there are descriptors again it serves.
func TestDescriptorsRunOut(t *testing.T) {
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Connection", "close") }), false)
	s := w.start(t)
	to := urlOf("http", plainHost, port, "/")
	if got := s.status(to); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	held := must[net.Conn](t)(net.Dial("tcp", s.tool))
	defer func() { _ = held.Close() }()
	eventually(t, "the connection is accepted", func() bool {
		_, err := fmt.Fprintf(held, "GET http://unlisted.test/ HTTP/1.1\r\nHost: unlisted.test\r\n\r\n")
		return err == nil
	})
	r := bufio.NewReader(held)
	answer := func() *http.Response {
		_ = held.SetReadDeadline(time.Now().Add(15 * time.Second))
		res := must[*http.Response](t)(http.ReadResponse(r, nil))
		_, _ = io.Copy(io.Discard, res.Body)
		return res
	}
	if got := answer().StatusCode; got != http.StatusForbidden {
		t.Fatalf("status %d", got)
	}
	limit := s.descriptors(t) + 16
	out, err := exec.Command(program(t, "prlimit"), "--pid", strconv.Itoa(s.cmd.Process.Pid), fmt.Sprintf("--nofile=%d:%d", limit, limit)).CombinedOutput()
	if err != nil {
		t.Fatalf("prlimit: %v\n%s", err, out)
	}
	leave := s.crowdOf(t, 64, "GET http://")
	eventually(t, "descriptors are used up", func() bool { return s.descriptors(t) >= limit-1 })
	_, _ = fmt.Fprintf(held, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, address(plainHost, port))
	if res := answer(); res.StatusCode < 500 || res.Header.Get("Toolgate-Denial") == "" {
		t.Errorf("without descriptors: %d %v", res.StatusCode, res.Header)
	}
	_, _ = io.WriteString(held, "GET http://unlisted.test/ HTTP/1.1\r\nHost: unlisted.test\r\n\r\n")
	// 503 where the listener's token file was due to be read again.
	if res := answer(); res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without descriptors, what is denied: %d", res.StatusCode)
	}
	s.lives(t)
	leave()
	eventually(t, "the sidecar serves again", func() bool { return s.status(to) == http.StatusOK })
	s.lives(t)
}

// TestSilenceOnEverySide: clients that stop within their bodies, clients that do not read, and upstreams that say nothing are many at
// once; others are served meanwhile, what they hold is bounded, and it is given back when the idle timeout has passed.
func TestSilenceOnEverySide(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: waits for timeouts")
	}
	const each, upstreams = 100, 500
	w := newWorld(t)
	w.millis, w.limits = 4000, "{drain: 2s, idleTimeout: 3s, headerTimeout: 2s}"
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			_, _ = io.CopyN(rw, pattern{}, 64<<20)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}), false)
	silent := w.listen(t)
	quiet := w.ports[len(w.ports)-1]
	defer func() { _ = silent.Close() }()
	go func() {
		var held []net.Conn
		for {
			c, err := silent.Accept()
			if err != nil {
				for _, c := range held {
					_ = c.Close()
				}
				return
			}
			held = append(held, c)
		}
	}()
	s := w.start(t)
	normal := urlOf("http", plainHost, port, "/")
	if got := s.status(normal); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	descriptors, memory := s.descriptors(t), s.resident(t)
	request := func(method, to, port, more string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, to, address(plainHost, port), more)
	}
	s.crowdOf(t, each, request("POST", normal, port, "Content-Length: 1000\r\n")+"begun")
	s.crowdOf(t, each, request("GET", urlOf("http", plainHost, port, "/endless"), port, ""))
	s.crowdOf(t, upstreams, request("GET", urlOf("http", plainHost, quiet, "/"), quiet, ""))
	s.crowdOf(t, each, fmt.Sprintf("CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address(plainHost, quiet)))
	for range 20 {
		if got := s.status(normal); got != http.StatusOK {
			t.Errorf("beside the silent ones: status %d", got)
		}
	}
	if grown := s.resident(t) - memory; grown > (3*each+upstreams)*128<<10 {
		t.Errorf("%d silent connections hold %d KiB", 3*each+upstreams, grown>>10)
	}
	eventually(t, "descriptors are given back, but for those of the pool", func() bool { return s.descriptors(t) <= descriptors+40 })
	s.lives(t)
}

// TestBulkFitsInALittleMemory: bodies of many times the container's memory go through an intercepted tunnel and a blind one, both ways,
// and the most that the sidecar ever held stays below what a container of 64 MiB has.
func TestBulkFitsInALittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: moves 2 GiB")
	}
	const size, limit = 512 << 20, 64 << 20
	t.Setenv("GOMEMLIMIT", strconv.Itoa(limit*3/4))
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.CopyN(rw, pattern{}, size)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(rw, n)
	}), true)
	s := w.start(t)
	for _, host := range []string{boundHost, plainHost} {
		tr := &http.Transport{
			Proxy: func(*http.Request) (*url.URL, error) { return s.proxyURL(), nil }, TLSClientConfig: &tls.Config{RootCAs: roots(t, w.trusted(host))},
		}
		client := &http.Client{Transport: tr}
		down := must[*http.Response](t)(client.Get(urlOf("https", host, port, "/")))
		if n, err := io.Copy(io.Discard, down.Body); n != size || err != nil {
			t.Errorf("%s: %d bytes came, %v", host, n, err)
		}
		_ = down.Body.Close()
		up := must[*http.Response](t)(client.Post(urlOf("https", host, port, "/"), "application/octet-stream", io.LimitReader(pattern{}, size)))
		if b, err := io.ReadAll(up.Body); string(b) != strconv.Itoa(size) || err != nil {
			t.Errorf("%s: the upstream got %s bytes, %v", host, b, err)
		}
		_ = up.Body.Close()
		tr.CloseIdleConnections()
	}
	if most := s.peak(t); most > limit {
		t.Errorf("the sidecar held %d KiB", most>>10)
	} else {
		t.Logf("the sidecar held %d KiB", most>>10)
	}
}

// peak returns VmHWM (proc_pid_status(5)) in bytes.
func (s *sidecar) peak(t *testing.T) int64 {
	t.Helper()
	status := must[[]byte](t)(os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status"))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	text, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return must[int64](t)(strconv.ParseInt(text, 10, 64)) << 10
}
