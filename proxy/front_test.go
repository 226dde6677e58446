package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
)

// TestFrontHandsOn: whatever the form of a CONNECT, and in whatever pieces it comes, the bytes on its heels reach the upstream.
func TestFrontHandsOn(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	target := "pass.ok.test:" + port(l.plain)
	l.write("manifests/t1.yaml", strings.Replace(l.files().manifest, "allowedDomains: [", "allowedDomains: [\""+target+"\", ", 1))
	l.proxy.Reload(l.load())
	get := "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	auth := "Proxy-Authorization: " + l.basic(l.token) + "\r\n"
	for name, parts := range map[string][]string{
		"plain":                {"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n" + auth + "\r\n" + get},
		"plain, bytes later":   {"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n" + auth + "\r\n", get},
		"another header":       {"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nX-Other: y\r\n" + auth + "\r\n" + get},
		"another host":         {"CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n" + get},
		"in two pieces":        {"CONNECT " + target + " HT", "TP/1.1\r\nHost: " + target + "\r\n" + auth + "\r\n" + get},
		"longer than a peek":   {"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nUser-Agent: " + strings.Repeat("a", maxPlainHead) + "\r\n" + auth + "\r\n" + get},
		"many bytes at a time": {"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n" + auth + "\r\n" + strings.Replace(get, "Host", "X-Long: "+strings.Repeat("b", 20_000)+"\r\nHost", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := l.dial()
			for i, part := range parts {
				if _, err := io.WriteString(c, part); err != nil {
					t.Fatal(err)
				}
				if i == 0 && len(parts) > 1 && strings.HasSuffix(part, "HT") {
					waitUntil(t, func() bool { return nobodyWaits(l.proxy) }) // the front has passed it on
				}
			}
			all, err := io.ReadAll(c)
			if head := "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n"; err != nil || !strings.HasPrefix(string(all), head) || !strings.HasSuffix(string(all), "hello") {
				t.Errorf("%q, %v", all, err)
			}
			_ = c.Close()
			if rec := l.next(); rec.str("decision") != "allow" || rec.str("kind") != "tunnel" || rec.str("host") != "pass.ok.test" || rec.str("subject") != "user:alice" {
				t.Errorf("record %v", rec)
			}
			l.noMore()
		})
	}
}

func nobodyWaits(p *Proxy) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.fronts {
		f.mu.Lock()
		n := len(f.waiting)
		f.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}

// TestFrontGivesPlacesBack: whatever became of a connection, it is counted out once.
func TestFrontGivesPlacesBack(t *testing.T) {
	l := newLab(t)
	var conns []net.Conn
	target := l.target("pass.ok.test")
	for _, head := range []string{
		"", "C", "CONNECT x HTTP/1.1\r\n\r\n", "GET http://evil.ok.test/ HTTP/1.1\r\nHost: evil.ok.test\r\nConnection: close\r\n\r\n",
		fmt.Sprintf("CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target),
		fmt.Sprintf("CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: %[2]s\r\n\r\n\x15", target, l.basic(l.token)),
	} {
		c := l.dial()
		conns = append(conns, c)
		_, _ = io.WriteString(c, head)
	}
	for i, c := range conns {
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil && err != io.EOF { // an answer, or the end
			t.Errorf("%d: %v", i, err)
		}
		_ = c.Close()
	}
	f := l.proxy.fronts[0]
	waitUntil(t, func() bool { return f.held.Load() == 0 && nobodyWaits(l.proxy) })
}

// TestShutdownEndsSilentConnections: nobody waits out a drain for clients that never spoke.
func TestShutdownEndsSilentConnections(t *testing.T) {
	l := newLab(t, replaced(t, "headerTimeout: 2s", "headerTimeout: 1m"))
	c := l.dial()
	waitUntil(t, func() bool { return !nobodyWaits(l.proxy) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.proxy.Shutdown(ctx)
	if ctx.Err() != nil {
		t.Error("the shutdown waited")
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	waitUntil(t, func() bool { return l.proxy.fronts[0].held.Load() == 0 })
	l.proxy.tunnels = newRegistry(config.Limits{IdleTimeout: time.Minute}) // the lab shuts down once more
	l.proxy.inner.server = &http.Server{}
}

// TestShutdownWaitsForCallsOfTheFront: a tunnel that is being dialled when the drain begins is recorded before the drain ends. It is
// too late to be opened.
func TestShutdownWaitsForCallsOfTheFront(t *testing.T) {
	l := newLab(t)
	l.names.hold = make(chan struct{})
	c, target := l.dial(), l.target("pass.ok.test")
	fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: %[2]s\r\n\r\n", target, l.basic(l.token))
	waitUntil(t, func() bool { return len(l.names.asked()) > 0 })
	_, ended := l.drain()
	select {
	case <-ended:
		t.Error("the call was not waited for")
	case <-time.After(200 * time.Millisecond):
	}
	close(l.names.hold)
	<-ended
	if rec := l.next(); rec.str("kind") != "tunnel" || rec.str("code") != "not_ready" {
		t.Errorf("record %v", rec)
	}
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 503 {
		t.Errorf("the client got %v %v", res, err)
	}
}
