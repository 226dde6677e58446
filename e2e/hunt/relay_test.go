package hunt

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// relay is an upstream proxy: it connects to this machine whatever the name, but for names that it refuses in words of its own.
type relay struct {
	*planted
	url string
	got tape // the heads of requests
}

func newRelay(t *testing.T, p *planted) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	r := &relay{planted: p, url: "http://" + ln.Addr().String()}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

// refusals are what it says of the hosts of these names, with places for what it adds.
var refusals = map[string]string{
	"proxy403.hunt.test":  "HTTP/1.1 403 %s\r\nX-Why: %s\r\nContent-Length: 30\r\n\r\n%s",
	"proxy407.hunt.test":  "HTTP/1.1 407 %s\r\nProxy-Authenticate: Basic realm=\"%s\"\r\nContent-Length: 30\r\n\r\n%s",
	"proxygone.hunt.test": "HTTP/1.1 2%s\r\nBroken %s\r\n\r\n%s",
}

func (r *relay) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	r.got.request(req)
	host, port, _ := net.SplitHostPort(req.Host)
	said := func(where string) any { return r.plant("answer of the upstream proxy", where) }
	if format := refusals[host]; format != "" {
		_, _ = fmt.Fprintf(conn, format, said("reason"), said("header"), said("body"))
		return
	}
	if req.Method != http.MethodConnect || strings.Contains(host, ".nx.") {
		_, _ = io.WriteString(conn, "HTTP/1.1 502 No\r\n\r\n")
		return
	}
	server, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 502 No\r\n\r\n")
		return
	}
	defer func() { _ = server.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 Yes\r\nX-Proxy: %s\r\n\r\n", said("header of a good one"))
	go func() { _, _ = io.Copy(server, br); _ = server.Close() }()
	_, _ = io.Copy(conn, server)
}

// byProxy makes calls that the upstream proxy refuses.
func (w *world) byProxy(t *testing.T) {
	t.Helper()
	for host := range refusals {
		w.connect(t, "tool", host+":"+w.up.port, proxyAuth("agent", w.task))
		w.plainly(t, fmt.Sprintf("GET http://%s:%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", host, w.up.plain, host, proxyAuth("agent", w.task)))
	}
}
