package hunt

import (
	"bytes"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// target is every upstream: over TLS, h1 and h2, and over plain HTTP. What it answers is a canary in each part.
type target struct {
	*planted
	port, plain string
	got         tape
	streams     atomic.Int32 // open ones
}

func newTarget(t *testing.T, p *planted, certs *pki) *target {
	t.Helper()
	u := &target{planted: p}
	srv := httptest.NewUnstartedServer(u)
	good := certs.leaf(t, "*.hunt.test", "s3.eu-central-1.amazonaws.com")
	bad := certs.leaf(t, p.plant("name in a certificate", "badcert")+".test")
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "badcert.hunt.test" {
			return &bad, nil
		}
		return &good, nil
	}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	plain := httptest.NewServer(u)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		plain.Close()
	})
	_, u.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	_, u.plain, _ = net.SplitHostPort(plain.Listener.Addr().String())
	return u
}

func (u *target) answer(where string) string { return u.plant("answer", where) }

func (u *target) said(where string) string  { return u.plant("answer, body", where) }
func (u *target) field(where string) string { return u.plant("answer, of `redactFields`", where) }

func (u *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := u.got.request(r)
	switch {
	case strings.HasPrefix(r.URL.Path, "/echo"):
		u.echo(w, r, body)
	case strings.HasPrefix(r.URL.Path, "/odd/"):
		u.odd(w, strings.TrimPrefix(r.URL.Path, "/odd/"))
	case r.URL.Path == "/refuse":
		w.Header().Set("WWW-Authenticate", `Bearer error="`+u.said("challenge")+`"`)
		http.Error(w, u.said("refusal"), http.StatusUnauthorized)
	case r.URL.Path == "/stream":
		u.stream(w, r)
	case r.Header.Get("Upgrade") == "websocket":
		u.websocket(w, r)
	default:
		u.plainly(w)
	}
}

// plainly is an answer with something in each of its parts.
func (u *target) plainly(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Link", "</"+u.answer("informational")+">; rel=preload")
	w.WriteHeader(103)
	h.Del("Link")
	h.Set("X-Answer", u.answer("header"))
	h.Set("Set-Cookie", "id="+u.answer("cookie")+"; Path=/")
	h.Set("Location", "https://u:"+u.answer("user info")+"@x.test/?code="+u.answer("location"))
	h.Set("Content-Type", "application/json")
	h.Set("Trailer", "X-After")
	fmt.Fprintf(w, `{"answer": "%s", "customer_note": {"x": "%s"}, "access_token": "%s"}`, u.said("body"), u.field("name"), u.field("token"))
	h.Set("X-After", u.answer("trailer"))
}

// echo shows what it was sent, as it came and encoded.
func (u *target) echo(w http.ResponseWriter, r *http.Request, body []byte) {
	var b bytes.Buffer
	_ = r.Header.Write(&b)
	fmt.Fprintf(&b, "%s\n%s\n%x\n%s\n", r.RequestURI, body, body, base64.StdEncoding.EncodeToString(body))
	for name, values := range r.Header {
		w.Header()["X-Echo-"+name] = values
		for _, v := range values {
			fmt.Fprintf(&b, "%q %x %s\n", v, v, base64.StdEncoding.EncodeToString([]byte(v)))
		}
	}
	w.Header().Set("X-Echo-Uri", r.RequestURI)
	half := b.Len() / 2
	_, _ = w.Write(b.Bytes()[:half])
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write(b.Bytes()[half:])
}

// stream sends an event and keeps on.
func (u *target) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", u.said("event"))
	_ = http.NewResponseController(w).Flush()
	u.streams.Add(1)
	defer u.streams.Add(-1)
	<-r.Context().Done()
}

// websocket shakes hands and sends back each short message that it gets. Those of clients are masked, with zeros here (RFC 6455, section 5.1).
func (u *target) websocket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	in := io.TeeReader(rw, &u.got)
	for head := make([]byte, 6); ; {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		frame := append([]byte{head[0], head[1] & 0x7f}, make([]byte, head[1]&0x7f)...)
		if _, err := io.ReadFull(in, frame[2:]); err != nil {
			return
		}
		_, _ = conn.Write(frame)
	}
}

// malformed are answers that no client may take, with a place for a canary.
var malformed = map[string]string{
	"status":   "HTTP/1.1 2%s OK\r\n\r\n",
	"version":  "HTTP/%s 200 OK\r\n\r\n",
	"header":   "HTTP/1.1 200 OK\r\nNo colon %s\r\n\r\n",
	"name":     "HTTP/1.1 200 OK\r\n (%s): x\r\n\r\n",
	"length":   "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
	"lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4%s\r\n\r\nabc",
	"coding":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
	"chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\nabc\r\n0\r\n\r\n",
	"cut":      "HTTP/1.1 200 OK\r\nX-Cut: %s",
	"garbage":  "%s",
	"upgraded": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n",
	"gzip":     "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 26\r\n\r\n%s",
	"unknown":  "HTTP/1.1 200 OK\r\nContent-Encoding: x-%s\r\nContent-Length: 3\r\n\r\nabc",
}

// odd answers with bytes that net/http would not send.
func (u *target) odd(w http.ResponseWriter, kind string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // h2
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	if kind == "reason" {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nContent-Length: 2\r\n\r\nok", u.answer("reason phrase"))
		return
	}
	value := u.plant("malformed answer", kind)
	if kind == "unknown" { // the answer is refused; its coding is a harmless header
		value = u.said(kind)
	}
	_, _ = fmt.Fprintf(conn, malformed[kind], value)
}
