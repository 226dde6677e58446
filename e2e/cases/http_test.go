//go:build linux

package cases

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func httpCases() []replay {
	return []replay{
		{"HTP-02", "tinyproxy#604, #616 (CVE-2026-31842, CVE-2026-54387)",
			"odd values of Transfer-Encoding, each beside a Content-Length", "400, or one framing header upstream", captures(oddFraming)},
		{"HTP-03", "tinyproxy#623 (CVE-2026-54388)",
			"a space before the colon of a framing header", "400 and the connection ends; nothing reaches the upstream", captures(spacedColon)},
		{"HTP-04", "CVE-2025-22871 (Go net/http)",
			"a chunk-size line that ends in a bare LF, and a request after the body", "the request after it is not carried out", captures(bareLF)},
		{"HTP-05", "CVE-2023-39326 (Go net/http)",
			"10 MiB of chunks of one byte with extensions of 4 KiB", "refused after little of it; memory stays", captures(chunkExtensions)},
		{"HTP-06", "Go net/http; RFC 9112, section 6.1",
			"an HTTP/1.0 request with a chunked body", "one response, then the connection ends; the body is not taken for a request", captures(oldChunked)},
		{"HTP-07", "Go net/http; RFC 9112, section 5.2",
			"header lines that are folded", "400, or one unfolded value", captures(foldedHeader)},
		{"HTP-09", "tinyproxy#602, #611 (CVE-2026-3945)",
			"chunk sizes with a sign, a prefix, too many digits", "400, and the sidecar lives", captures(chunkSizes)},
		{"HTP-11", "CVE-2025-64763 (Envoy)",
			"a CONNECT that is refused and a request right behind it", "403, the connection ends, the request is not carried out", earlyData},
		{"HTP-13", "CVE-2026-71324 (traefik)",
			"CONNECT inside a tunnel, in HTTP/1 and HTTP/2, with a body that is a request", "refused and not forwarded; another tenant gets its own answer", nestedConnect},
		{"HTP-14", "CVE-2024-45410, CVE-2026-29054 (traefik); GHSA-w9mr-28mw-j8hg (oathkeeper)",
			"a Connection header that nominates Authorization", "the credential goes upstream exactly once", captures(nominated)},
		{"HTP-15", "tinyproxy#533 (CVE-2023-49606)",
			"Connection headers that nominate themselves", "a normal answer, and the sidecar lives", captures(selfNominated)},
		{"HTP-16", "CVE-2025-4673 (Go net/http)",
			"headers of the client's connection and for the proxy", "none goes upstream but TE: trailers", captures(hopHeaders)},
		{"HTP-17", "CVE-2025-64484 (oauth2-proxy); envoy edge best practices",
			"headers that claim a tenant, and twins of them with underscores", "the record's tenant is the token's; no twin of a proxy header goes upstream", captures(twins)},
		{"HTP-22", "CVE-2025-62168 (squid)",
			"TRACE", "403 or 405, not forwarded", captures(trace)},
		{"HTP-25", "Go net/http",
			"a trailer field that is called Authorization", "it does not go upstream; the credential does, once", captures(trailerField)},
		{"HTP-27", "CVE-2021-39214, CVE-2022-24766 (mitmproxy)",
			"upstream answers with two lengths, or two framings, and another answer behind", "502 or one answer; what is behind is nobody's answer", secondAnswer},
		{"HTP-30", "Go net/http",
			"odd versions, methods and spaces in the request line", "an error of 4xx or 5xx or an answer as HTTP/1.1, and never for a host that is not allowed", oddLines},
	}
}

func oddFraming(t *testing.T, _ *world, m mode, c *captured) {
	for _, te := range []string{"Chunked", "chunked,", "chunked, gzip", "gzip, chunked", "xchunked", "chunked\t", "chunked\r\nTransfer-Encoding: chunked",
		"chunked\r\nTransfer-Encoding: identity", " chunked", "\x0bchunked"} {
		c.reset()
		_, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Content-Length: 15\r\nTransfer-Encoding: "+te+"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
		framing := c.lines("content-length", "transfer-encoding")
		switch {
		case got.status == http.StatusBadRequest || got.status == http.StatusNotImplemented:
			if c.String() != "" {
				t.Errorf("%q: refused, and yet the upstream got %q", te, c)
			}
		case got.status != http.StatusOK || len(framing) != 1:
			t.Errorf("%q: status %d, framing upstream %q", te, got.status, framing)
		}
	}
}

func spacedColon(t *testing.T, _ *world, m mode, c *captured) {
	for _, line := range []string{"Content-Length : 5", "Transfer-Encoding : chunked", "Content-Length\t: 5"} {
		a, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+line+"\r\n\r\nhello")
		got.is(t, line, http.StatusBadRequest)
		if !a.ended(t) {
			t.Errorf("%s: the connection goes on", line)
		}
	}
	if c.String() != "" {
		t.Errorf("the upstream got %q", c)
	}
}

func bareLF(t *testing.T, _ *world, m mode, c *captured) {
	a, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"+
		"GET {U}/second HTTP/1.1\r\nHost: api.ok.test\r\n{A}\r\n")
	got.is(t, "the bare LF", http.StatusBadRequest, 0)
	if !a.ended(t) {
		t.Error("the connection goes on")
	}
	if strings.Contains(c.String(), "/second") {
		t.Errorf("the upstream got %q", c)
	}
}

func chunkExtensions(t *testing.T, w *world, m mode, c *captured) {
	before := w.metric(t, "process_resident_memory_bytes", "")
	a := m.dial()
	a.send(t, m.expand("POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\n\r\n"))
	chunk := "1;" + strings.Repeat("e", 4096) + "\r\nx\r\n"
	sent := make(chan int)
	go func() {
		n := 0
		for n < 10<<20 {
			if _, err := io.WriteString(a.Conn, chunk); err != nil {
				break
			}
			n += len(chunk)
		}
		sent <- n
	}()
	a.read(t, "POST").is(t, "the chunks", http.StatusBadRequest, 0)
	_ = a.ended(t)
	_ = a.Close()
	if n := <-sent; n > 8<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if n := strings.Count(c.String(), "\r\nx\r\n"); n > 64 {
		t.Errorf("%d chunks were passed on", n)
	}
	if grown := w.metric(t, "process_resident_memory_bytes", "") - before; grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}

func oldChunked(t *testing.T, _ *world, m mode, c *captured) {
	a, got := m.ask(t, "POST", "POST {U}/ HTTP/1.0\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+
		"GET {U}/second HTTP/1.0\r\nHost: api.ok.test\r\n{A}\r\n")
	got.is(t, "the request", http.StatusOK, http.StatusBadRequest)
	if rest, _ := io.ReadAll(a.r); len(rest) > 0 {
		t.Errorf("after the response came %q", rest)
	}
	if strings.Contains(c.String(), "/second") || len(c.lines("transfer-encoding")) > 0 {
		t.Errorf("the upstream got %q", c)
	}
}

func foldedHeader(t *testing.T, _ *world, m mode, c *captured) {
	_, got := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}X-A: b\r\n c\r\nAuthorization: Basic\r\n\tZm9v\r\n\r\n")
	if got.status == http.StatusBadRequest {
		return
	}
	got.is(t, "folded lines", http.StatusOK)
	authorization := "Authorization: Basic Zm9v"
	if m.name == "inside" {
		authorization = "Authorization: Bearer " + secretA
	}
	if a, x := c.lines("authorization"), c.lines("x-a"); len(a) != 1 || a[0] != authorization || len(x) != 1 || x[0] != "X-A: b c" {
		t.Errorf("the upstream got %q", c)
	}
}

func chunkSizes(t *testing.T, _ *world, m mode, _ *captured) {
	for _, size := range []string{"-1", "+5", "0x5", "ffffffffffffffff1", "5 5", ""} {
		_, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\n\r\n"+size+"\r\nhello\r\n0\r\n\r\n")
		got.is(t, size, http.StatusBadRequest)
	}
	_, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n")
	got.is(t, "leading zeros", http.StatusOK, http.StatusBadRequest)
}

func earlyData(t *testing.T, w *world) {
	a := w.dial(t)
	a.send(t, "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n"+w.auth()+"\r\nGET http://api.ok.test/early HTTP/1.1\r\nHost: api.ok.test\r\n"+w.auth()+"\r\n")
	a.read(t, "GET").is(t, "CONNECT", http.StatusForbidden) // read as GET: a refusal has a body
	if !a.ended(t) {
		t.Error("the connection goes on")
	}
	w.silent(t)
	w.none(t)
}

func nestedConnect(t *testing.T, w *world) {
	const inner = "GET /inner HTTP/1.1\r\nHost: api.ok.test\r\n\r\n"
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.WriteString(rw, "for "+r.Header.Get("Authorization"))
	})
	a := w.inside(t, "api.ok.test:443")
	a.send(t, fmt.Sprintf("CONNECT api.ok.test:443 HTTP/1.1\r\nHost: api.ok.test:443\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner))
	a.read(t, "GET").is(t, "in HTTP/1", http.StatusBadRequest, http.StatusMethodNotAllowed)

	h := w.h2(t, "api.ok.test:443")
	h.headers(t, 1, false, ":method", "CONNECT", ":authority", "api.ok.test:443")
	h.data(t, 1, true, inner)
	if status := h.status(t, 1); status != "400" && status != "405" && status != "reset" {
		t.Errorf("in HTTP/2: status %s", status)
	}
	w.none(t)
	res, err := w.client(t, w.t2, w.tokenB, false).Get("https://api.ok.test/other")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	// The credential is masked in what comes back.
	if got := w.up.arrivals(); res.StatusCode != http.StatusOK || len(got) != 1 || got[0].uri != "/other" || got[0].header.Get("Authorization") != "Bearer "+secretB {
		t.Errorf("the other tenant: %d, upstreams got %+v", res.StatusCode, got)
	}
}

func nominated(t *testing.T, w *world, m mode, c *captured) {
	_, got := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Connection: close, Authorization, authorization, X-Agent-Task\r\n"+
		"Authorization: Bearer of-the-tool\r\nX-Agent-Task: k9\r\n\r\n")
	got.is(t, "the request", http.StatusOK)
	lines := c.lines("authorization")
	if m.name == "inside" && (len(lines) != 1 || lines[0] != "Authorization: Bearer "+secretA) || m.name == "plain" && len(lines) > 0 {
		t.Errorf("the upstream got %q", c)
	}
	if r := w.records(); len(r) > 0 && r[len(r)-1].Task != "k1" {
		t.Errorf("the record is %+v", r[len(r)-1])
	}
}

func selfNominated(t *testing.T, w *world, m mode, _ *captured) {
	_, got := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Connection: connection\r\nProxy-Connection: proxy-connection, connection\r\n\r\n")
	got.is(t, "the request", http.StatusOK)
	if !w.ready() {
		t.Error("the sidecar is not ready any more")
	}
}

func hopHeaders(t *testing.T, w *world, m mode, c *captured) {
	_, got := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Proxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nTE: gzip, trailers\r\n"+
		"Trailer: X-T\r\nUpgrade: foo\r\nProxy-Authenticate: Basic\r\nConnection: te\r\n\r\n")
	got.is(t, "the request", http.StatusOK)
	if lines := c.lines("proxy-authorization", "proxy-connection", "keep-alive", "trailer", "upgrade", "proxy-authenticate"); len(lines) > 0 {
		t.Errorf("the upstream got %q", lines)
	}
	if te := c.lines("te"); len(te) > 1 || len(te) == 1 && te[0] != "Te: trailers" {
		t.Errorf("the upstream got %q", te)
	}
	if strings.Contains(c.String(), w.tokenA) {
		t.Error("the upstream got the task token")
	}
}

func twins(t *testing.T, w *world, m mode, c *captured) {
	before := len(w.records())
	_, got := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}X_Agent_Tenant: B\r\nX-Agent-Tenant: B\r\nproxy_authorization: x\r\nToolgate_Authorization: y\r\n\r\n")
	got.is(t, "the request", http.StatusOK)
	if lines := c.lines("proxy-authorization", "toolgate-authorization"); len(lines) > 0 {
		t.Errorf("the upstream got %q", lines)
	}
	eventually(t, "a record", func() bool { return len(w.records()) > before })
	if r := w.records()[before]; r.Tenant != "A" {
		t.Errorf("the record is %+v", r)
	}
}

func trace(t *testing.T, _ *world, m mode, c *captured) {
	for _, method := range []string{"TRACE", "trace"} {
		_, got := m.ask(t, method, method+" {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}\r\n")
		got.is(t, method, http.StatusForbidden, http.StatusMethodNotAllowed)
		got.quiet(t)
	}
	if c.String() != "" {
		t.Errorf("the upstream got %q", c)
	}
}

func trailerField(t *testing.T, _ *world, m mode, c *captured) {
	_, got := m.ask(t, "POST", "POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Transfer-Encoding: chunked\r\nTrailer: Authorization, X-Sum\r\n\r\n"+
		"5\r\nhello\r\n0\r\nAuthorization: Bearer of-the-tool\r\nX-Sum: 1\r\n\r\n")
	got.is(t, "the request", http.StatusOK)
	if strings.Contains(c.String(), "of-the-tool") || len(c.lines("x-sum")) != 1 {
		t.Errorf("the upstream got %q", c)
	}
	if lines := c.lines("authorization"); m.name == "inside" && (len(lines) != 1 || lines[0] != "Authorization: Bearer "+secretA) {
		t.Errorf("the upstream got %q", lines)
	}
}

func secondAnswer(t *testing.T, w *world) {
	const behind = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!"
	for _, first := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 204 No Content\r\n\r\n",
	} {
		fresh := w.lab.world(t)
		w.dns.set("api.ok.test", at(addrU3))
		asked := make(chan string, 16)
		w.up.speak(addrU3+":80", func(c net.Conn) {
			for r := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				asked <- req.URL.Path
				if req.URL.Path == "/first" {
					_, _ = io.WriteString(c, first+behind)
				} else {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest")
				}
			}
		})
		got := fresh.get(t, "http://api.ok.test/first")
		got.is(t, first, http.StatusOK, http.StatusNoContent, http.StatusBadGateway)
		if strings.Contains(got.body, "EVIL") {
			t.Errorf("%q: the first answer is %q", first, got.body)
		}
		if got := fresh.get(t, "http://api.ok.test/next"); got.status != http.StatusOK || got.body != "honest" {
			t.Errorf("%q: the next answer is %d %q", first, got.status, got.body)
		}
	}
}

func oddLines(t *testing.T, w *world) {
	fresh := w.lab.world(t)
	c := w.capture()
	for _, line := range []string{"GET %s HTTP/1.2", "GET %s HTTP/0.9", "GET %s HTTP/3.0", "get %s HTTP/1.1", "GET  %s HTTP/1.1", "GET %s  HTTP/1.1", "GET %s", "GET\t%s HTTP/1.1",
		"G\x00T %s HTTP/1.1"} {
		allowed, denied := fmt.Sprintf(line, "http://api.ok.test/"), fmt.Sprintf(line, "http://evil.test/")
		rest := "\r\nHost: api.ok.test\r\n" + fresh.auth() + "Connection: close\r\n\r\n"
		if got := fresh.once(t, "GET", allowed+rest); got.status != http.StatusOK && got.status < 400 {
			t.Errorf("%q: status %d", allowed, got.status)
		}
		if got := fresh.once(t, "GET", denied+rest); got.status < 400 {
			t.Errorf("%q: status %d", denied, got.status)
		}
	}
	fresh.once(t, "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").is(t, "the preface of HTTP/2", 0, http.StatusBadRequest, http.StatusHTTPVersionNotSupported)
	for line := range strings.Lines(c.String()) {
		if strings.HasPrefix(line, "GET ") && line != "GET / HTTP/1.1\r\n" {
			t.Errorf("the upstream got the line %q", line)
		}
	}
}
