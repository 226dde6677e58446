package hunt

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// drive makes every kind of call once.
func (w *world) drive(t *testing.T) {
	w.bound(t)
	if w.UpstreamProxy { // which changes how upstreams are reached, and nothing before
		w.byProxy(t)
		w.requests(t)
		w.unreached(t)
		w.streams(t)
		return
	}
	w.bodies(t)
	w.requests(t)
	w.malformedRequests(t)
	w.callers(t)
	w.unreached(t)
	w.odd(t)
	w.streams(t)
	w.names(t)
}

// bindings are the hosts with a credential, and what a call to them needs besides.
var bindings = map[string][]string{
	"exchange.hunt.test": nil, "assertion.hunt.test": nil, "dpop.hunt.test": nil, "grant.hunt.test": nil, "static.hunt.test": nil,
	"query.hunt.test": nil, "basic.hunt.test": nil, "github.hunt.test": nil, "kv.hunt.test": nil, "lease.hunt.test": nil, "gcp.hunt.test": nil,
	"mtls.hunt.test": nil, "places.hunt.test": {"X-Key: TOOLGATE_HUNT_ONE"},
	"s3.eu-central-1.amazonaws.com": {
		"X-Amz-Date: 20200101T000000Z",
		"Authorization: AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20200101/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=00",
	},
}

// bound sends a call for each binding to an upstream that repeats what it was sent, over h1 and h2, and one that it refuses.
func (w *world) bound(t *testing.T) {
	t.Helper()
	h2 := w.h2(t)
	for host, header := range bindings {
		if answer := w.get(t, host, "/echo", header...); !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("%s over h1: %.900s", host, answer)
		}
		req, _ := http.NewRequest(http.MethodGet, "https://"+host+":"+w.up.port+"/echo", nil)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Set(name, value)
		}
		if status := w.do(t, h2, req); status != 200 {
			t.Errorf("%s over h2: %d", host, status)
		}
		w.get(t, host, "/refuse", header...) // once more with another credential
	}
	w.get(t, "places.hunt.test", "/echo/TOOLGATE_HUNT_ONE?k=TOOLGATE_HUNT_ONE")
	w.raw(t, "places.hunt.test", "POST /echo HTTP/1.1\r\nHost: places.hunt.test:"+w.up.port+"\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 37\r\n\r\n"+
		`{"auth": {"key":"TOOLGATE_HUNT_TWO"}}`)
	w.get(t, "places.hunt.test", "/echo", "X-Other: TOOLGATE_HUNT_TWO")
	for _, name := range failing {
		if answer := w.get(t, name+".hunt.test", "/echo"); !strings.Contains(answer, "credential_") {
			t.Errorf("%s: %.300s", name, answer)
		}
	}
}

// part returns a body of a type with canaries where the type has places for them.
func (w *world) content(t *testing.T, kind string) (mediaType string, body []byte) {
	t.Helper()
	text := func(where string) string { return w.plant("body", kind+", "+where) }
	field := func(where string) string { return w.plant("body, of `redactFields`", kind+", "+where) }
	other := func(where string) string { return w.plant("body, of another type", kind+", "+where) }
	switch kind {
	case "JSON":
		return "application/json; charset=utf-8", fmt.Appendf(nil, `{"known": "%s", "%s": 1, "list": [{"x": "%s"}], "customer_note": "%s", "order": {"lines": [{"remark": {"deep": ["%s"]}}]}, "password": "%s", "apiKey": "%s", "nested": "{\"client_secret\": \"%s\"}"}`,
			text("value"), text("key"), text("deep"), field("name"), field("path"), field("password"), field("API key"), field("nested"))
	case "NDJSON":
		return "application/x-ndjson", fmt.Appendf(nil, "{\"a\": \"%s\"}\n{\"customerNote\": \"%s\"}\n", text("line"), field("line"))
	case "broken JSON":
		return "application/json", fmt.Appendf(nil, `{"a": "%s", "b": %s`, other("value"), other("rest"))
	case "form":
		return "application/x-www-form-urlencoded", fmt.Appendf(nil, "a=%s&customer_note=%s&client_secret=%s&%s", text("value"), field("field"), field("secret"), text("no pair"))
	case "text":
		return "text/plain", fmt.Appendf(nil, "hello %s\npassword: %s\nAuthorization: Bearer %s\nhttps://u:%s@x.test/p?code=%s\n", text("word"), field("password"), field("bearer"), field("user info"), field("code"))
	case "XML":
		return "application/xml", fmt.Appendf(nil, "<a b=\"%s\">%s</a>", text("attribute"), text("text"))
	case "events":
		return "text/event-stream", fmt.Appendf(nil, "event: %s\ndata: {\"a\": \"%s\", \"password\": \"%s\"}\n\n: %s\n\n", text("name"), text("data"), field("data"), text("comment"))
	case "multipart":
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		part, _ := m.CreateFormFile(text("name"), text("file"))
		_, _ = io.WriteString(part, other("content"))
		_ = m.WriteField("customer_note", field("field"))
		_ = m.WriteField("plain", text("field"))
		_ = m.Close()
		return m.FormDataContentType(), b.Bytes()
	case "gRPC":
		message := append([]byte{0x0a, 26}, other("message")...)
		return "application/grpc", append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	case "no type":
		return "", []byte(other("body"))
	default:
		return "application/" + w.plant("media type", kind), append([]byte{0, 1, 0xff}, other("bytes")...)
	}
}

// bodies sends a body of each type over h1 and h2, to an upstream with a credential and to one without.
func (w *world) bodies(t *testing.T) {
	t.Helper()
	h2 := w.h2(t)
	for _, kind := range []string{"JSON", "NDJSON", "broken JSON", "form", "text", "XML", "events", "multipart", "gRPC", "no type", "unknown"} {
		for _, host := range []string{"seen.hunt.test", "static.hunt.test", "exchange.hunt.test"} {
			mediaType, body := w.content(t, kind)
			if answer := w.raw(t, host, fmt.Sprintf("POST /in HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", host, w.up.port, mediaType, len(body), body)); !strings.Contains(answer, "HTTP/1.1 200") {
				t.Errorf("%s to %s: %.200s", kind, host, answer)
			}
			mediaType, body = w.content(t, kind)
			req, _ := http.NewRequest(http.MethodPost, "https://"+host+":"+w.up.port+"/in", bytes.NewReader(body))
			if req.Header.Set("Content-Type", mediaType); mediaType == "" {
				req.Header.Del("Content-Type")
			}
			req.Trailer = http.Header{"X-Trailer": {w.plant("trailer", "h2")}}
			w.do(t, h2, req)
		}
	}
}

// requests sends canaries in every part of the head, by each way: h1 and h2 inside a tunnel, and plain HTTP.
func (w *world) requests(t *testing.T) {
	t.Helper()
	h2 := w.h2(t)
	for _, host := range []string{"seen.hunt.test", "static.hunt.test", "ruled.hunt.test"} {
		path, header := w.head(host)
		if answer := w.get(t, host, path, header...); !strings.Contains(answer, "HTTP/1.1 200") {
			t.Errorf("%s: %.300s", host, answer)
		}
		path, header = w.head(host + " h2")
		req, _ := http.NewRequest(http.MethodGet, "https://"+host+":"+w.up.port+path, nil)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Add(name, value)
		}
		if status := w.do(t, h2, req); status != 200 {
			t.Errorf("%s over h2: %d", host, status)
		}
		method := strings.ToUpper(w.plant("method", host))
		w.raw(t, host, fmt.Sprintf("%s / HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", method, host, w.up.port))
		w.get(t, host, "/denied/"+w.plant("path", host)) // by the rule of one of them
		w.raw(t, host, fmt.Sprintf("POST /v1/x HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\nabc\r\n0\r\nX-T: %s\r\n\r\n", host, w.up.port, w.plant("trailer", "h1")))
	}
	path, header := w.head("plain")
	w.plainly(t, fmt.Sprintf("GET http://plain.hunt.test:%s%s HTTP/1.1\r\nHost: plain.hunt.test\r\nConnection: close\r\n%s%s\r\n", w.up.plain, path, proxyAuth("agent", w.task), lines(header)))
	host := w.plant("host", "plain") + ".hunt.test"
	w.plainly(t, fmt.Sprintf("GET http://%s:%s/x HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", host, w.up.plain, host, proxyAuth("agent", w.task)))
	w.plainly(t, fmt.Sprintf("GET http://plain.hunt.test:%s/x#%s HTTP/1.1\r\nHost: plain.hunt.test\r\nConnection: close\r\n%s\r\n", w.up.plain, w.plant("fragment", "absolute form"), proxyAuth("agent", w.task)))
	w.plainly(t, fmt.Sprintf("GET http://u:%s@plain.hunt.test:%s/x HTTP/1.1\r\nHost: plain.hunt.test\r\nConnection: close\r\n%s\r\n", w.plant("user info", "absolute form"), w.up.plain, proxyAuth("agent", w.task)))
	// By a listener with a token file, and with a user that chooses the tool.
	if conn := w.connect(t, "file", "seen.hunt.test:"+w.up.port, ""); conn != nil {
		w.say(t, w.secure(t, conn, "seen.hunt.test"), "GET /file HTTP/1.1\r\nHost: seen.hunt.test:"+w.up.port+"\r\nConnection: close\r\n\r\n")
	}
	if conn := w.connect(t, "several", "static.hunt.test:"+w.up.port, proxyAuth("writer", w.task)); conn != nil {
		_, body := w.content(t, "JSON")
		w.say(t, w.secure(t, conn, "static.hunt.test"), fmt.Sprintf("POST /write HTTP/1.1\r\nHost: static.hunt.test:%s\r\nConnection: close\r\nIdempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			w.up.port, w.plant("header", "idempotency"), len(body), body))
	}
}

// head returns a path and header lines full of canaries.
func (w *world) head(where string) (path string, header []string) {
	h := func(name string) string { return w.plant("header", where+", "+name) }
	ok := func(name string) string { return w.plant("header, harmless", where+", "+name) }
	path = "/v1/" + w.plant("path", where) + "?" + w.plant("query name", where) + "=" + w.plant("query value", where) + "&sig=" + w.plant("query value", where) + "&" + w.plant("query value", where+", no pair")
	header = []string{
		"X-Unknown: " + h("unknown"), w.plant("header name", where) + ": x", "X-Api-Token: " + h("token"), "Idempotency-Key: " + h("idempotency"),
		"Cookie: " + w.plant("cookie name", where) + "=" + w.plant("cookie", where) + "; sid=" + w.plant("cookie", where) + "; " + w.plant("cookie", where+", no pair"),
		"Authorization: Bearer " + w.plant("tool's own credential", where), "X-Amz-Security-Token: " + w.plant("tool's own credential", where),
		"Referer: https://u:" + w.plant("cookie", where+", referer") + "@x.test/?code=" + w.plant("query value", where+", referer"),
		"User-Agent: " + ok("agent"), "Accept-Language: " + ok("language"), "X-Request-Id: " + ok("id"),
		"Tracestate: a=" + h("tracestate"), "Baggage: user=" + h("baggage"), "Traceparent: " + ok("traceparent"), "X-Forwarded-For: " + h("forwarded"),
		"If-None-Match: \"" + h("etag") + "\"", "Forwarded: for=" + h("forwarded"),
	}
	return path, header
}

// malformedRequests sends what is no request, to the proxy port and inside a tunnel.
func (w *world) malformedRequests(t *testing.T) {
	t.Helper()
	bad := func(where string) string { return w.plant("malformed request", where) }
	auth := proxyAuth("agent", w.task)
	host := "Host: seen.hunt.test:" + w.up.port + "\r\n"
	requests := func(where string) []string {
		return []string{
			bad(where+", line") + "\r\n\r\n",
			"GET / HTTP/1.1 " + bad(where+", version") + "\r\n" + host + "\r\n",
			"GET / HTTP/" + bad(where+", version") + "\r\n" + host + "\r\n",
			"GE(T" + bad(where+", method") + " / HTTP/1.1\r\n" + host + "\r\n",
			"GET /%zz" + bad(where+", path") + " HTTP/1.1\r\n" + host + "\r\n",
			"GET http://[::" + bad(where+", URL") + "/ HTTP/1.1\r\n" + host + "\r\n",
			"GET / HTTP/1.1\r\n" + host + "No colon " + bad(where+", header") + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + bad(where+", name") + " : x\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "X: \x00" + bad(where+", value") + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + " " + bad(where+", folded") + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "Host: " + bad(where+", second host") + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a b" + bad(where+", host") + "\r\n\r\n",
			"POST / HTTP/1.1\r\n" + host + auth + "Content-Length: " + bad(where+", length") + "\r\n\r\n",
			"POST / HTTP/1.1\r\n" + host + auth + "Content-Length: 3\r\nTransfer-Encoding: " + bad(where+", coding") + "\r\n\r\nabc",
			"POST / HTTP/1.1\r\n" + host + auth + "Expect: " + bad(where+", expect") + "\r\nContent-Length: 1\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + auth + "X-Large: " + bad(where+", large") + strings.Repeat("a", 70<<10) + bad(where+", end") + "\r\n\r\n",
			"GET /" + bad(where+", long") + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\n" + host + "\r\n",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bad(where+", h2"),
			"\x16\x03\x01\x00\x40" + bad(where+", hello") + bad(where+", hello"),
		}
	}
	for _, r := range requests("proxy") {
		w.half(t, w.dial(t, "tool"), r)
	}
	for _, r := range append(requests("inside"),
		"POST /in HTTP/1.1\r\n"+host+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+bad("chunk size")+"\r\nabc\r\n0\r\n\r\n",
		"POST /in HTTP/1.1\r\n"+host+"Connection: close\r\nContent-Length: 100\r\n\r\n"+w.plant("body, of another type", "cut off")) {
		if conn := w.connect(t, "tool", "seen.hunt.test:"+w.up.port, auth); conn != nil {
			w.half(t, w.secure(t, conn, "seen.hunt.test"), r)
		}
	}
	// TLS that the client breaks off, and HTTP/2 that is none.
	if conn := w.connect(t, "tool", "seen.hunt.test:"+w.up.port, auth); conn != nil {
		w.half(t, conn, "\x16\x03\x01\x00\x40"+bad("hello")+bad("hello"))
	}
	if conn := w.connect(t, "tool", "seen.hunt.test:"+w.up.port, auth); conn != nil {
		w.half(t, w.secure(t, conn, "seen.hunt.test", "h2"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x1a\x01\x05\x00\x00\x00\x01"+bad("frame"))
	}
}

// half sends bytes and the end of them, and returns what comes back.
func (w *world) half(t *testing.T, conn net.Conn, bytes string) {
	t.Helper()
	_, _ = io.WriteString(conn, bytes)
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
	w.say(t, conn, "")
}

// callers shows tokens that are not accepted.
func (w *world) callers(t *testing.T) {
	t.Helper()
	bad := func(where string) string { return w.plant("token that is not accepted", where) }
	part := func(format string, args ...any) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, format, args...))
	}
	forged := func(where, header, payload string) string {
		return part(header, bad(where+", header")) + "." + part(payload, bad(where+", claim"), w.tasks.URL()) + "." + part("%s", bad(where+", signature"))
	}
	mint := func(where string, claims map[string]any) string {
		return w.mint(t, "token that is not accepted", where, claims)
	}
	tokens := []string{
		mint("audience", map[string]any{"sub": bad("audience, sub"), "aud": bad("audience")}),
		mint("expired", map[string]any{"sub": bad("expired, sub"), "aud": "toolgate", "exp": time.Now().Add(-time.Hour).Unix()}),
		mint("scope", map[string]any{"sub": "someone", "aud": "toolgate", "scope": bad("scope")}),
		w.plant("opaque token", "caller"),
		forged("key", `{"alg": "ES256", "kid": "%s"}`, `{"iss": "%[2]s", "sub": "%[1]s", "aud": "toolgate"}`),
		forged("algorithm", `{"alg": "%s"}`, `{"iss": "%[2]s", "sub": "%[1]s"}`),
		forged("issuer", `{"alg": "ES256", "x": "%s"}`, `{"iss": "https://%[1]s.test", "sub": "x%[2]s"}`),
		forged("no JSON", `{"alg": "ES256", "x": "%s"`, `{"%[1]s": %[2]s`),
	}
	for _, token := range tokens {
		w.connect(t, "tool", "seen.hunt.test:"+w.up.port, proxyAuth("agent", token))
		w.connect(t, "tool", "seen.hunt.test:"+w.up.port, "Proxy-Authorization: Bearer "+token+"\r\n")
		if conn := w.connect(t, "file", "seen.hunt.test:"+w.up.port, ""); conn != nil {
			w.say(t, w.secure(t, conn, "seen.hunt.test"), "GET / HTTP/1.1\r\nHost: seen.hunt.test:"+w.up.port+"\r\nConnection: close\r\nToolgate-Authorization: Bearer "+token+"\r\n\r\n")
		}
	}
	for _, header := range []string{"Basic %s", "Basic !%s", "Digest username=\"%s\"", "%s", "Bearer a %s"} {
		w.connect(t, "tool", "seen.hunt.test:"+w.up.port, fmt.Sprintf("Proxy-Authorization: "+header+"\r\n", w.plant("proxy credential", header)))
	}
	for _, header := range []string{"Digest %s", "Bearer %s x"} {
		w.connect(t, "file", "seen.hunt.test:"+w.up.port, fmt.Sprintf("Toolgate-Authorization: "+header+"\r\n", w.plant("proxy credential", "header, "+header)))
	}
	w.connect(t, "several", "seen.hunt.test:"+w.up.port, proxyAuth(w.plant("proxy credential", "user"), w.task))
	w.connect(t, "tool", "seen.hunt.test:"+w.up.port, "")
}

// unreached asks for targets that are refused or cannot be reached.
func (w *world) unreached(t *testing.T) {
	t.Helper()
	auth := proxyAuth("agent", w.task)
	refused := func(where string) string { return w.plant("host, refused", where) }
	malformed := func(where string) string { return w.plant("host, malformed", where) }
	for _, authority := range []string{
		refused("denied") + ".denied.test:443", malformed("user info") + "@seen.hunt.test:443", "a_" + malformed("port") + ":99999",
		malformed("no port"), malformed("U-label") + "ü.test:443", "[" + malformed("brackets") + "]:443", malformed("slash") + "/x:443",
		"127.0.0.1:" + w.up.port, "-" + malformed("dash") + "-.test:443", "%" + malformed("percent") + ".test:443",
		w.plant("host", "no such name") + ".nx.hunt.test:" + w.up.port,
		w.plant("host", "nobody there") + ".hunt.test:" + fmt.Sprint(w.values["Closed"]), "badcert.hunt.test:" + w.up.port, w.plant("host", "plain on TLS") + ".hunt.test:" + w.up.plain,
	} {
		if conn := w.connect(t, "tool", authority, auth); conn != nil {
			if strings.HasPrefix(authority, "badcert") {
				w.say(t, w.secure(t, conn, "badcert.hunt.test"), "GET / HTTP/1.1\r\nHost: "+authority+"\r\nConnection: close\r\n\r\n")
			}
			_ = conn.Close()
		}
	}
	// Another host inside than outside: in the request, and in the hello of a tunnel that is relayed.
	w.get(t, "seen.hunt.test", "/", "Host: "+w.plant("malformed request", "second host"))
	w.raw(t, "seen.hunt.test", "GET / HTTP/1.1\r\nHost: "+refused("inside")+".test\r\nConnection: close\r\n\r\n")
	if conn := w.connect(t, "tool", "blind.hunt.test:"+w.up.port, auth); conn != nil {
		w.half(t, conn, string(clientHello(w.plant("name in the TLS hello", "sni")+".hunt.test")))
	}
}

// odd fetches answers that no client may take.
func (w *world) odd(t *testing.T) {
	t.Helper()
	kinds := []string{"reason"}
	for kind := range malformed {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		w.get(t, "static.hunt.test", "/odd/"+kind)
		if kind == "gzip" || kind == "unknown" { // without a credential nothing is decoded
			continue
		}
		w.get(t, "seen.hunt.test", "/odd/"+kind)
		w.plainly(t, fmt.Sprintf("GET http://plain.hunt.test:%s/odd/%s HTTP/1.1\r\nHost: plain.hunt.test\r\nConnection: close\r\n%s\r\n", w.up.plain, kind, proxyAuth("agent", w.task)))
	}
}

// streams are a WebSocket, an event stream that its client leaves, and a tunnel that is relayed.
func (w *world) streams(t *testing.T) {
	t.Helper()
	for _, host := range []string{"seen.hunt.test", "static.hunt.test"} {
		frame := append([]byte{0x81, 0x80 | 26, 0, 0, 0, 0}, w.plant("frame of a WebSocket", host)...)
		conn := w.connect(t, "tool", host+":"+w.up.port, proxyAuth("agent", w.task))
		if conn == nil {
			continue
		}
		c := w.secure(t, conn, host)
		_, _ = fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: %s\r\nSec-WebSocket-Key: %s\r\n\r\n%s",
			host, w.up.port, w.plant("header", "subprotocol"), base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")), frame)
		got := make([]byte, 0, 1024)
		for !bytes.Contains(got, frame[6:]) {
			n, err := c.Read(got[len(got):cap(got)])
			if got = got[:len(got)+n]; err != nil {
				t.Errorf("the WebSocket at %s sends nothing back: %q", host, got)
				break
			}
		}
		_, _ = w.tool.Write(got)
		_ = c.Close()
	}
	if conn := w.connect(t, "tool", "blind.hunt.test:"+w.up.port, proxyAuth("agent", w.task)); conn != nil {
		w.say(t, w.secure(t, conn, "blind.hunt.test"), "GET /blind HTTP/1.1\r\nHost: blind.hunt.test\r\nConnection: close\r\nX-Blind: "+w.plant("relayed bytes", "h1")+"\r\n\r\n")
	}
}

// names asks the listener for DNS.
func (w *world) names(t *testing.T) {
	t.Helper()
	for _, name := range []string{"seen.hunt.test.", w.plant("host, refused", "query") + ".denied.test."} {
		q, err := dnsmessage.NewName(name)
		if err != nil {
			t.Fatal(err)
		}
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: q, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}}}
		query, _ := m.Pack()
		conn := w.dial(t, "names")
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		b := make([]byte, 512)
		n, _ := conn.Read(b)
		_ = conn.Close()
		_, _ = w.tool.Write(b[:n])
	}
}
