package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// socketUpstream echoes messages as they come, and ends as the client asks for in the query.
func socketUpstream(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 64, Subprotocols: []string{"echo"}})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(-1)
		for {
			kind, in, err := c.Reader(r.Context())
			if err != nil {
				return
			}
			out, err := c.Writer(r.Context(), kind)
			if err != nil {
				return
			}
			first := make([]byte, 5)
			n, _ := io.ReadFull(in, first)
			if string(first[:n]) == "leave" {
				_ = c.Close(4001, "as asked")
				return
			}
			if _, err := io.Copy(out, io.MultiReader(bytes.NewReader(first[:n]), in)); err != nil || out.Close() != nil {
				return
			}
		}
	})
}

// socketWay is one of the ways in which a client reaches a WebSocket through a proxy.
type socketWay struct {
	name, scheme, host string
	kind               string // of its record
	transport          func(s *sidecar) *http.Transport
}

var socketWays = []socketWay{
	{"wss, intercepted with a credential", "wss", boundHost, "request", throughProxy},
	{"wss, intercepted", "wss", namedHost, "request", throughProxy},
	{"wss, relayed", "wss", plainHost, "tunnel", throughProxy},
	{"ws, absolute form", "ws", plainHost, "request", throughProxy},
	{"ws by CONNECT, intercepted", "ws", namedHost, "request", throughConnect},
	{"ws by CONNECT, relayed", "ws", plainHost, "tunnel", throughConnect},
}

// throughProxy is what a client does by itself when it is told of a proxy.
func throughProxy(s *sidecar) *http.Transport {
	return &http.Transport{Proxy: http.ProxyURL(s.proxyURL())}
}

// throughConnect is what some clients do for ws as well (RFC 6455, section 4.1).
func throughConnect(s *sidecar) *http.Transport {
	return &http.Transport{DialContext: func(_ context.Context, _, to string) (net.Conn, error) { return s.connect(to) }}
}

func TestWebSockets(t *testing.T) {
	w := newWorld(t)
	ports := map[string]string{"wss": w.serve(t, socketUpstream(t), true), "ws": w.serve(t, socketUpstream(t), false)}
	s := w.start(t)
	modes := map[string]websocket.CompressionMode{
		"plain": websocket.CompressionDisabled, "compressed": websocket.CompressionContextTakeover, "compressed apart": websocket.CompressionNoContextTakeover,
	}
	for _, way := range socketWays {
		for mode, compression := range modes {
			t.Run(way.name+", "+mode, func(t *testing.T) {
				before := len(s.records(t, way.host))
				tr := way.transport(s)
				tr.TLSClientConfig = &tls.Config{RootCAs: roots(t, w.trusted(way.host))}
				defer tr.CloseIdleConnections()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				c, res, err := websocket.Dial(ctx, urlOf(way.scheme, way.host, ports[way.scheme], "/"), &websocket.DialOptions{
					HTTPClient: &http.Client{Transport: tr}, CompressionMode: compression, CompressionThreshold: 64, Subprotocols: []string{"other", "echo"},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.CloseNow() }()
				agreed := strings.Contains(res.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate")
				wanted := compression != websocket.CompressionDisabled && way.host != boundHost // a coded message could repeat the credential unseen
				if agreed != wanted || c.Subprotocol() != "echo" {
					t.Errorf("agreed on %v", res.Header)
				}
				converse(ctx, t, c)
				if got := s.awaitRecords(t, way.host, before+1)[before:]; len(got) != 1 || !way.recorded(got[0]) {
					t.Errorf("records %+v", got)
				}
			})
		}
	}
}

// recorded reports whether the record is that of a WebSocket that went well. Whether a tunnel ended well is for its ends to know:
// a client that closes its socket with something unread resets it.
func (way socketWay) recorded(r record) bool {
	well := r.ErrorClass == "" && r.Status == http.StatusSwitchingProtocols && r.Intercepted == (way.host != plainHost)
	if way.kind == "tunnel" {
		well = (r.ErrorClass == "" || r.ErrorClass == "connection") && !r.Intercepted
	}
	return well && r.Kind == way.kind && r.Decision == "allow" && r.Code == ""
}

// converse exchanges messages of every size class of RFC 6455, section 5.2, whole and in fragments, and ends by the
// server's word.
func converse(ctx context.Context, t *testing.T, c *websocket.Conn) {
	t.Helper()
	c.SetReadLimit(-1)
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 3 << 20} {
		message := make([]byte, size)
		_, _ = rand.Read(message)
		copy(message[size/2:], bytes.Repeat([]byte("again "), size/12)) // half of it can be compressed
		for _, parts := range []int{1, 7} {
			done := make(chan error, 1)
			go func() { done <- send(ctx, c, message, parts) }()
			kind, back, err := c.Read(ctx)
			if err = errors.Join(err, <-done); err != nil {
				t.Fatalf("%d bytes in %d parts: %v", size, parts, err)
			}
			if kind != websocket.MessageBinary || !bytes.Equal(back, message) {
				t.Fatalf("%d bytes in %d parts came back changed: %d bytes", size, parts, len(back))
			}
		}
	}
	if err := c.Write(ctx, websocket.MessageText, []byte("leave")); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Read(ctx)
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != 4001 || closed.Reason != "as asked" {
		t.Errorf("the end was %v", err)
	}
}

// send writes a message in fragments.
func send(ctx context.Context, c *websocket.Conn, message []byte, parts int) error {
	w, err := c.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	size := len(message)/parts + 1
	for len(message) > 0 {
		n := min(size, len(message))
		if _, err := w.Write(message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return w.Close()
}
