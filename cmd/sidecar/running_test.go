package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
)

// patience is how long a test waits for something that ought to come at once.
const patience = 20 * time.Second

// running is an app in this process, with what it writes.
type running struct {
	*app
	lab          *lab
	records, log *lines
	stopOnce     sync.Once
}

// start runs the app on the lab's files until the test ends.
func (l *lab) start() *running {
	l.t.Helper()
	path := l.path("sidecar.yaml")
	s, err := config.Load(path)
	if err != nil {
		l.t.Fatal(err)
	}
	r := &running{lab: l, records: newLines(), log: newLines()}
	if r.app, err = start(path, s, r.records, r.log); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		r.stop()
		if l.t.Failed() {
			l.t.Logf("the log:\n%s", r.log.text())
		}
	})
	return r
}

func (r *running) stop() {
	r.lab.t.Helper()
	r.stopOnce.Do(func() {
		if err := r.shutdown(context.Background()); err != nil {
			r.lab.t.Errorf("shutdown: %v", err)
		}
	})
}

// client is a stock client of a tool. It gives the token as the proxy password, the tool as the user, and tells what the
// proxy answered to its CONNECTs.
func (r *running) client(listener, tool, token string, connects func(*http.Response)) *http.Client {
	p := &url.URL{Scheme: "http", Host: r.addrs[listener]}
	if tool != "" {
		p.User = url.UserPassword(tool, token)
	}
	tr := &http.Transport{
		Proxy: http.ProxyURL(p), TLSClientConfig: &tls.Config{RootCAs: r.lab.trusted()}, DisableCompression: true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			if connects != nil {
				connects(res)
			}
			return nil
		},
	}
	r.lab.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// code makes one GET and returns "allow" or the code of the refusal.
func (r *running) code(listener, tool, token, target string) string {
	r.lab.t.Helper()
	var code string
	client := r.client(listener, tool, token, func(res *http.Response) { code = res.Header.Get("Toolgate-Denial") })
	defer client.CloseIdleConnections()
	res, err := client.Get(target)
	switch {
	case code != "":
		return code
	case err != nil:
		return err.Error()
	}
	_ = res.Body.Close()
	if code = res.Header.Get("Toolgate-Denial"); code != "" {
		return code
	}
	if res.StatusCode != http.StatusOK {
		return res.Status
	}
	return "allow"
}

// admin gets a page of the admin listener.
func (r *running) adminPage(path string) (int, string) {
	r.lab.t.Helper()
	res, err := http.Get("http://" + r.addrs["admin"] + path)
	if err != nil {
		r.lab.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.lab.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// eventually asks again and again until ok, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit.C:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// lines collects what is written and lets tests wait for it.
type lines struct {
	mu    sync.Mutex
	b     bytes.Buffer
	taken int           // bytes that next has returned
	more  chan struct{} // closed and replaced with every write
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// line returns the next line that was not returned yet, or the channel that says when to ask again.
func (l *lines) line() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.b.Bytes()[l.taken:]
	i := bytes.IndexByte(rest, '\n')
	if i < 0 {
		return "", l.more
	}
	l.taken += i + 1
	return string(rest[:i]), nil
}

// next returns the next line, which it waits for.
func (l *lines) next(t *testing.T) string {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		text, wait := l.line()
		if wait == nil {
			return text
		}
		select {
		case <-wait:
		case <-limit.C:
			t.Fatal("no line came")
		}
	}
}

// find returns the next line that matches; lines before it are passed over.
func (l *lines) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if text := l.next(t); re.MatchString(text) {
			return text
		}
	}
}

// record is a record as it was written.
type record map[string]any

func (r record) str(key string) string { s, _ := r[key].(string); return s }

// isCall tells the record of a call from an intent and from a line about the chain.
func (r record) isCall() bool { return r.str("kind") == "request" || r.str("kind") == "tunnel" }

// record returns the next record of a call.
func (l *lines) record(t *testing.T) record {
	t.Helper()
	for {
		if r := parseRecord(t, l.next(t)); r.isCall() {
			return r
		}
	}
}

// calls returns the records of calls in what was written.
func calls(t *testing.T, text string) (all []record) {
	t.Helper()
	for line := range strings.Lines(text) {
		if r := parseRecord(t, line); r.isCall() {
			all = append(all, r)
		}
	}
	return all
}

// call returns the one record of a call in what was written.
func call(t *testing.T, text string) record {
	t.Helper()
	all := calls(t, text)
	if len(all) != 1 {
		t.Fatalf("%d records of calls: %s", len(all), text)
	}
	return all[0]
}

func parseRecord(t *testing.T, line string) record {
	t.Helper()
	var r record
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("not a record: %q: %v", line, err)
	}
	return r
}
