package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestOneToolDoesNotTakeAllTunnels: at its own limit a tool is refused while there is room for others.
func TestOneToolDoesNotTakeAllTunnels(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 64, maxTunnelsPerTool: 2"))
	first := l.connectTo(l.target("pass.ok.test"), "")
	l.connectTo(l.target("bound.ok.test"), "")
	if _, _, err := get(l.client(l.token, false), l.url("https", "pass.ok.test", "/")); err == nil || !strings.Contains(err.Error(), "overloaded") {
		t.Errorf("error %v", err)
	}
	if rec := l.next(); rec.str("code") != "overloaded" || rec["status"] != 503.0 {
		t.Errorf("record %v", rec)
	}
	another := &open{tool: "another"}
	if d := l.proxy.tunnels.add(another); d != nil {
		t.Errorf("another tool finds no room: %v", d)
	}
	l.proxy.tunnels.remove(another)
	_ = first.Close()
	l.next()
	l.connectTo(l.target("pass.ok.test"), "")
}

// TestConnectionsAreBounded: one too many is told so; a place that is given up is taken again, whether its holder left or became
// a tunnel.
func TestConnectionsAreBounded(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 64, maxConnections: 2"))
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	first := l.dial()
	waiting := "GET " + l.url("http", "plain.ok.test", "/") + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + l.basic(l.token) + "\r\n\r\n"
	ask := func(c net.Conn) string {
		_, _ = io.WriteString(c, waiting)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
	if got := ask(first); got != "HTTP/1.1 200 OK" {
		t.Fatal(got)
	}
	second := l.dial()
	if got := ask(second); got != "HTTP/1.1 200 OK" {
		t.Fatal(got)
	}
	third := l.dial()
	res, err := http.ReadResponse(bufio.NewReader(third), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if p := problemOf(t, string(body)); err != nil || res.StatusCode != 503 || p.Code != Overloaded || !p.Retryable || res.Header.Get("Toolgate-Denial") != "overloaded" {
		t.Errorf("%d %+v %v", res.StatusCode, p, err)
	}
	_ = first.Close()
	waitUntil(t, func() bool {
		c := l.dial()
		defer func() { _ = c.Close() }()
		return ask(c) == "HTTP/1.1 200 OK"
	})
	for i := range 10 { // each takes a place and gives it up when it is a tunnel
		waitUntil(t, func() bool {
			c := l.dial()
			host := []string{"x", l.target("pass.ok.test")}[i%2] // read by net/http, and by the front
			_, _ = io.WriteString(c, "CONNECT "+l.target("pass.ok.test")+" HTTP/1.1\r\nHost: "+host+"\r\nProxy-Authorization: "+l.basic(l.token)+"\r\n\r\n")
			line, _ := bufio.NewReader(c).ReadString('\n')
			return strings.HasPrefix(line, "HTTP/1.1 200 ")
		})
	}
}

// TestOneTenantDoesNotTakeAllTunnels of a tool: at its own limit it is refused, and another tenant is served.
func TestOneTenantDoesNotTakeAllTunnels(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 64, maxTunnelsPerTenant: 2"))
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	target := l.url("https", "pass.ok.test", "/")
	first := l.connectTo(l.target("pass.ok.test"), "")
	l.connectTo(l.target("bound.ok.test"), "")
	if _, _, err := get(l.client(l.token, false), target); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("error %v", err)
	}
	if rec := l.next(); rec.str("code") != "too_many_calls" || rec["status"] != 429.0 || rec.str("decision") != "deny" {
		t.Errorf("record %v", rec)
	}
	for _, tenant := range []any{"globex", nil, nil, nil} { // who has no tenant is not counted as one
		if status, _, err := get(l.client(l.mint(map[string]any{"tenant": tenant}), false), target); err != nil || status != 200 {
			t.Errorf("tenant %v: %d %v", tenant, status, err)
		}
	}
	_ = first.Close()
	l.next()
	l.connectTo(l.target("pass.ok.test"), "")
}

// TestOneTenantDoesNotTakeAllRequests, be they plain or intercepted.
func TestOneTenantDoesNotTakeAllRequests(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 64, maxRequestsPerTenant: 2"))
	arrived, release := l.held("/slow", "")
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, true)
	slow := []string{l.url("http", "plain.ok.test", "/slow"), l.url("https", "bound.ok.test", "/slow")}
	done := make(chan error, len(slow))
	for _, target := range slow {
		go func() { _, _, err := get(client, target); done <- err }()
		<-arrived
	}
	for _, target := range []string{l.url("http", "plain.ok.test", "/"), l.url("https", "bound.ok.test", "/")} {
		status, body, err := get(client, target)
		if p := problemOf(t, body); err != nil || status != 429 || p.Code != TooManyCalls || !p.Retryable {
			t.Errorf("%d %q %v", status, body, err)
		}
		if rec := l.next(); rec.str("code") != "too_many_calls" || rec.str("decision") != "deny" {
			t.Errorf("record %v", rec)
		}
		if status, _, err := get(l.client(l.mint(map[string]any{"tenant": "globex"}), true), target); err != nil || status != 200 {
			t.Errorf("another tenant: %d %v", status, err)
		}
		l.next()
	}
	close(release)
	for range slow {
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.next()
	}
	if status, _, err := get(client, slow[0]); err != nil || status != 200 {
		t.Errorf("afterwards: %d %v", status, err)
	}
}
