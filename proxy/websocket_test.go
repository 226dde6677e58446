package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/killswitch"
)

// handshake is what a WebSocket client sends (RFC 6455, section 1.3).
const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// sockets serves upgrades on the lab's upstreams: each connection is handed to serve once the 101 has been sent.
func (l *lab) sockets(serve func(c *bufferedConn, r *http.Request)) {
	l.mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") || r.Header.Get("Sec-Websocket-Key") == "" {
			http.Error(w, "no upgrade asked for", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			l.t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Echo: %s\r\n\r\n", r.Header.Get("Authorization"))
		serve(&bufferedConn{conn, rw.Reader}, r)
	})
}

// textFrame is a text frame as servers send it (RFC 6455, section 5.2).
func textFrame(text string) string { return "\x81" + string(rune(len(text))) + text }

func echo(c *bufferedConn, _ *http.Request) { _, _ = io.Copy(c.Conn, c) }

// place is one of the ways in which a WebSocket is opened.
type place struct {
	name string
	open func(l *lab, early string) *wire
}

var places = []place{
	{"ws, absolute form", func(l *lab, early string) *wire {
		w := l.wire(routes[0], "")
		w.send("GET", "/ws", "HTTP/1.1", handshake, early)
		return w
	}},
	{"ws, through a tunnel", func(l *lab, early string) *wire {
		target := "plain.ok.test:" + port(l.plain)
		c := l.connectTo(target, fmt.Sprintf("GET /ws HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", target, handshake, early))
		return &wire{Conn: c, t: l.t, r: c.r}
	}},
	{"wss", func(l *lab, early string) *wire {
		w := l.wire(routes[1], "")
		w.send("GET", "/ws", "HTTP/1.1", handshake, early)
		return w
	}},
}

// plainIntercepted has the tunnels to the plain port intercepted, too.
func plainIntercepted(f *labFiles) {
	name := f.allowed("plain.ok.test:")
	f.config = replaceOnce(f.config, "denials: {", "intercept: {targets: [\""+name+"\"], caOutFile: ca.crt}\ndenials: {")
}

// overPlaces runs a test for every way of opening a WebSocket.
func overPlaces(t *testing.T, test func(t *testing.T, l *lab, p place), options ...labOption) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { test(t, newLab(t, append([]labOption{plainIntercepted}, options...)...), p) })
	}
}

func (w *wire) expect(text string) {
	w.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(w.r, b); err != nil || string(b) != text {
		w.t.Fatalf("got %q %v, expected %q", b[:n], err, text)
	}
}

func (w *wire) write(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) switched() *http.Response {
	w.t.Helper()
	res := w.response()
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("Sec-Websocket-Accept") == "" {
		w.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	return res
}

// TestWebSocket sends a frame on the heels of the handshake and then one at a time, and ends from either side.
func TestWebSocket(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it closes connections that were forgotten
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		l.sockets(func(c *bufferedConn, _ *http.Request) {
			_, _ = io.WriteString(c, textFrame("hello ")) // at once after the 101
			buf := make([]byte, 100)
			for {
				n, err := c.Read(buf)
				if err != nil || string(buf[:n]) == textFrame("bye") {
					return
				}
				_, _ = c.Write(buf[:n])
			}
		})
		before, descriptors := 0, 0
		for i := range 6 {
			w := p.open(l, textFrame("early"))
			if echo := w.switched().Header.Get("X-Echo"); p.name == "wss" && echo != "Bearer [REDACTED:credential]" {
				t.Errorf("the 101 echoes the credential: %q", echo)
			}
			w.expect(textFrame("hello ") + textFrame("early"))
			w.write(textFrame("one"))
			w.expect(textFrame("one"))
			out := 12.0
			if i%2 == 0 { // the upstream ends it
				w.write(textFrame("bye"))
				out += 5
				if rest, err := w.ended(); rest != "" || err != nil {
					t.Errorf("%q %v", rest, err)
				}
			}
			_ = w.Close()
			rec := l.next()
			for key, want := range map[string]any{"decision": "allow", "status": 101.0, "bytes_in": 20.0, "bytes_out": out, "method": "GET"} {
				if rec[key] != want {
					t.Errorf("record: %s is %v, expected %v", key, rec[key], want)
				}
			}
			if rec.str("error_class") != "" || rec.str("code") != "" || (rec.str("credential_binding") == "bound") != (p.name == "wss") {
				t.Errorf("record %v", rec)
			}
			if before == 0 {
				before, descriptors = l.settled(), openFiles(t)
			}
		}
		l.noLeak(before)
		eventually(t, "descriptors closed", func() bool { return openFiles(t) <= descriptors+3 })
		l.noMore()
		if open := l.proxy.tunnels.list(func(*open) bool { return true }); len(open) != 0 {
			t.Errorf("%d tunnels still registered", len(open))
		}
	})
}

// openFiles counts the process's descriptors; it is 0 where there is no /proc.
func openFiles(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(d)
}

// TestWebSocketWhoseUpstreamDoesNotFollow: the client is gone, the upstream keeps its side open.
func TestWebSocketWhoseUpstreamDoesNotFollow(t *testing.T) {
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		t.Parallel()
		stay := make(chan struct{})
		defer close(stay)
		l.sockets(func(*bufferedConn, *http.Request) { <-stay })
		w := p.open(l, "")
		w.switched()
		_ = w.Close()
		if rec := l.next(); rec["status"] != 101.0 {
			t.Errorf("record %v", rec)
		}
	})
}

// TestWebSocketWhoseClientDoesNotFollow: the upstream is gone, the client keeps its side open, and must see the end.
func TestWebSocketWhoseClientDoesNotFollow(t *testing.T) {
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		t.Parallel()
		l.sockets(func(c *bufferedConn, _ *http.Request) { _, _ = io.WriteString(c, textFrame("bye")) })
		w := p.open(l, "")
		w.switched()
		if rest, err := w.ended(); rest != textFrame("bye") || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		l.next()
	})
}

func TestWebSocketCutByTheKillSwitch(t *testing.T) {
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		gone := make(chan struct{})
		l.sockets(func(c *bufferedConn, r *http.Request) { echo(c, r); close(gone) })
		w := p.open(l, textFrame("frame"))
		w.switched()
		w.expect(textFrame("frame"))
		l.revoke(killswitch.Selector{Run: []string{"run-1"}})
		if rest, err := w.ended(); err == nil {
			t.Errorf("the client took it for the end: %q", rest)
		}
		<-gone
		rec := l.next()
		if rec.str("code") != "revoked" || rec.str("error_class") != "cut" || rec.str("revocation_id") != "r0" || rec.str("decision") != "allow" || rec["bytes_out"] != 7.0 {
			t.Errorf("record %v", rec)
		}
		l.noMore()
	})
}

func TestIdleWebSocketEnds(t *testing.T) {
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		t.Parallel()
		l.sockets(echo)
		w := p.open(l, "")
		w.switched()
		_, _ = w.ended()
		if rec := l.next(); rec.str("error_class") != "idle" {
			t.Errorf("record %v", rec)
		}
	}, replaced(t, "idleTimeout: 30s", "idleTimeout: 2s"))
}

func TestRefusedUpgradePasses(t *testing.T) {
	overPlaces(t, func(t *testing.T, l *lab, p place) {
		l.mux.HandleFunc("/ws", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not you", http.StatusForbidden) })
		w := p.open(l, "")
		res := w.response()
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 403 || string(b) != "not you\n" || res.Header.Get("Toolgate-Denial") != "" {
			t.Errorf("%d %q %v", res.StatusCode, b, res.Header)
		}
		if rec := l.next(); rec["status"] != 403.0 || rec.str("code") != "" {
			t.Errorf("record %v", rec)
		}
	})
}

// TestWebSocketsAreBounded: one over the limit is told so, and its upstream let go.
func TestWebSocketsAreBounded(t *testing.T) {
	l := newLab(t, replaced(t, "maxTunnels: 64", "maxTunnels: 1"))
	l.sockets(echo)
	first := places[0].open(l, "")
	first.switched()
	second := places[0].open(l, "")
	if res := second.response(); res.StatusCode != 503 || res.Header.Get("Toolgate-Denial") != "overloaded" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if rec := l.next(); rec.str("code") != "overloaded" || rec.str("decision") != "allow" || rec["status"] != 503.0 { // the upstream has switched
		t.Errorf("record %v", rec)
	}
}

// TestUnaskedSwitch: a client that asked for no upgrade, or for another, must not get a raw connection to the upstream.
func TestUnaskedSwitch(t *testing.T) {
	for name, c := range map[string]struct{ header, upgrade string }{
		"nothing asked":  {"", "websocket"},
		"h2c asked":      {"Connection: Upgrade\r\nUpgrade: h2c\r\n", "h2c"},
		"other answered": {handshake, "tls/1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			l, target := rawUpstream(t, func(conn net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nraw bytes", c.upgrade)
				_, _ = io.Copy(io.Discard, conn)
				close(gone)
			})
			w := l.wire(routes[0], target)
			w.send("GET", "/", "HTTP/1.1", c.header, "")
			res := w.response()
			b, _ := io.ReadAll(res.Body)
			if res.StatusCode != 502 || problemOf(t, string(b)).Code != UpstreamProtocol {
				t.Errorf("%d %q", res.StatusCode, b)
			}
			if rec := l.next(); rec.str("code") != "upstream_protocol" || rec.str("error_class") != "upstream_protocol" {
				t.Errorf("record %v", rec)
			}
			<-gone
		})
	}
}

// Messages that come at a time are looked at together: one by one, small ones cost an upstream less than they cost the sidecar. So a
// credential that is spread over them goes out with none of its parts.
func TestMessagesAreScrubbedTogether(t *testing.T) {
	l := newLab(t, plainIntercepted)
	secret := make(chan string, 1)
	l.sockets(func(c *bufferedConn, r *http.Request) {
		value := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		secret <- value
		var frames strings.Builder
		for i := range value {
			frames.WriteString(textFrame(value[i : i+1]))
		}
		_, _ = io.WriteString(c, frames.String()+textFrame("end"))
		_, _ = c.Read(make([]byte, 1))
	})
	p := places[len(places)-1]
	w := p.open(l, "")
	w.switched()
	var want strings.Builder
	value := <-secret
	mask := "[REDACTED:credential]" + strings.Repeat("*", len(value))
	for i := range value {
		want.WriteString(textFrame(mask[i : i+1]))
	}
	w.expect(want.String() + textFrame("end"))
}
