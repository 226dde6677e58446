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
	if !l.proxy.tunnels.add(another) {
		t.Error("another tool finds no room")
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
