package proxy

import "strings"

// post is a POST with a header and what follows it, and then a request that must be taken for what it is.
func post(header, body string) string {
	return "POST {U}/ok/a HTTP/1.1\r\nHost: {H}\r\n{A}" + header + "\r\n" + body + last
}

// line is a GET with a request line of its own.
func line(line, header string) string { return line + "\r\nHost: {H}\r\n{A}" + header + "\r\n" + last }

const (
	last     = "GET {U}/ok/last HTTP/1.1\r\nHost: {H}\r\n{A}Connection: close\r\n\r\n"
	smuggled = "GET {U}/smuggled HTTP/1.1\r\nHost: {H}\r\n{A}\r\n"
	te       = "Transfer-Encoding: chunked\r\n"
)

// requestStreams are the classics of request smuggling and of targets that servers read in different ways.
var requestStreams = []string{
	// well-formed
	post("Content-Length: 5\r\n", "hello"), post(te, "5\r\nhello\r\n0\r\n\r\n"), post("", ""), post(te, "0\r\n\r\n"), post(te, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
	post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), strings.Repeat(post("Content-Length: 0\r\n", ""), 3), line("HEAD {U}/ok/a HTTP/1.1", ""), line("OPTIONS * HTTP/1.1", ""),
	// CL.TE, TE.CL, TE.TE, CL.0, 0.CL
	post("Content-Length: 5\r\n"+te, "0\r\n\r\n"+smuggled), post(te+"Content-Length: 3\r\n", "5c\r\n"+smuggled+"\r\n0\r\n\r\n"), post(te+"Transfer-Encoding: identity\r\n", "0\r\n\r\n"+smuggled),
	post("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", "hello"), post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), post("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"),
	post("Transfer-Encoding: chunked\r\n\tidentity\r\nContent-Length: 4\r\n", "0\r\n\r\n"), post("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), post("Foo: bar\r\n\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	"GET {U}/ok/a HTTP/1.1\r\nHost: {H}\r\n{A}Content-Length: 40\r\n\r\n" + smuggled + last, post("Content-Length: 0\r\n", smuggled), post("Content-Length: 0\r\nContent-Length: 44\r\n", smuggled), post("Content-Length: 5, 5\r\n", "hello"),
	post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), post("Content-Length: \r\n", ""), post("Content-Length: 00005\r\n", "hello"), post("Content-Length: -0\r\n", ""), post("Content-Length: 0x5\r\n", "hello"),
	post("Content-Length: 5 \r\n", "hello"), post("Content-Length:\t5\r\n", "hello"), post("Content_Length: 44\r\nContent-Length: 5\r\n", "hello"), post("Content-Length: 99999999999999999999\r\n", "hello"),
	post("Content-Length: 5\r\nConnection: Content-Length\r\n", "hello"), post(te+"Connection: Transfer-Encoding\r\n", "0\r\n\r\n"),
	// chunks
	post(te, "5;x=y\r\nhello\r\n0\r\n\r\n"), post(te, "5;\nxx\r\nhello\r\n0\r\n\r\n"), post(te, "5\nhello\r\n0\r\n\r\n"), post(te, "5\r\nhelloXX0\r\n\r\n"), post(te, "5 \r\nhello\r\n0\r\n\r\n"), post(te, "+5\r\nhello\r\n0\r\n\r\n"),
	post(te, "05\r\nhello\r\n00\r\n\r\n"), post(te, "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"), post(te, "5\r\nhello\r\n0\r\nAuthorization: x\r\nHost: evil.test\r\n\r\n"), post(te, "0\r\nX\r\n: y\r\n\r\n"), post(te, "0;"+smuggled),
	post(te+"Trailer: Authorization, Cookie, X-Sum\r\n", "0\r\nAuthorization: x\r\nCookie: a=b\r\nX-Sum: 1\r\n\r\n"), post(te+"Trailer: Host, X-Sum\r\n", "0\r\nX-Sum: 1\r\n\r\n"), post(te, "5\r\nhel"),
	// lines and fields
	line("GET {U}/ok/a HTTP/1.1", "X: a\r\n b\r\n"), line("GET {U}/ok/a HTTP/1.1", " X: a\r\n"), line("GET {U}/ok/a HTTP/1.1", "X: a\rb\r\n"), line("GET {U}/ok/a HTTP/1.1", "X: a\x00b\r\n"), line("GET {U}/ok/a HTTP/1.1", "X\x00: a\r\n"),
	line("GET {U}/ok/a HTTP/1.1", "X y: a\r\n"), line("GET {U}/ok/a HTTP/1.1", ": a\r\n"), line("GET {U}/ok/a HTTP/1.1", "X\r\n"), line("GET {U}/ok/a HTTP/1.1", "Host: evil.test\r\n"), line("GET {U}/ok/a HTTP/1.1", "host: {H}\r\n"),
	"GET {U}/ok/a HTTP/1.1\r\n{A}\r\n" + last, "GET {U}/ok/a HTTP/1.1\nHost: {H}\n{A}\n" + last, "\r\n\r\n" + last, "GET {U}/ok/a HTTP/1.1\r\nHost: {H}, evil.test\r\n{A}\r\n" + last, "GET {U}/ok/a HTTP/1.1\r\nHost: \r\n{A}\r\n" + last,
	"POST {U}/ok/a HTTP/1.0\r\nHost: {H}\r\n{A}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, "GET {U}/ok/a HTTP/1.0\r\n{A}\r\n" + smuggled, "GET {U}/ok/a HTTP/1.2\r\nHost: {H}\r\n{A}\r\n" + last,
	line("GET  {U}/ok/a HTTP/1.1", ""), line("GET {U}/ok/a  HTTP/1.1", ""), line("GET {U}/ok/a", ""), line("GET\t{U}/ok/a HTTP/1.1", ""), line("get {U}/ok/a HTTP/1.1", ""), line("G@T {U}/ok/a HTTP/1.1", ""), line("GET {U}/ok/a HTTP/1.1 HTTP/1.1", ""),
	// targets
	line("GET {U}//evil.test/a HTTP/1.1", ""), line("GET {U}/ok/../secret HTTP/1.1", ""), line("GET {U}/ok/./a HTTP/1.1", ""), line("GET {U}/ok/%2e%2e/secret HTTP/1.1", ""), line("GET {U}/ok/%2E%2E%2Fsecret HTTP/1.1", ""), line("GET {U}/ok//a HTTP/1.1", ""),
	line(`GET {U}/ok\..\secret HTTP/1.1`, ""), line("GET {U}/ok;x=/../secret HTTP/1.1", ""), line("GET {U}/ok/a#/../b HTTP/1.1", ""), line("GET {U}/ok/é HTTP/1.1", ""), line("GET {U}/ok/%00 HTTP/1.1", ""), line("GET {U}/ok/%zz HTTP/1.1", ""),
	line("GET {U}/ok/a?q=é HTTP/1.1", ""), line("GET {U}?q HTTP/1.1", ""), line("GET {U}/ok/a?q=a b HTTP/1.1", ""), line("GET http://evil.test/ok/a HTTP/1.1", ""), line("GET http://evil.test@{H}/ok/a HTTP/1.1", ""), line("GET http://{H}@evil.test/ HTTP/1.1", ""),
	"GET {U}/ok/a HTTP/1.1\r\nHost: {V}\r\n{A}\r\n" + last, line("GET http://{V}/ok/a HTTP/1.1", ""),
	line("GET http:/ok/a HTTP/1.1", ""), line("GET //{H}/ok/a HTTP/1.1", ""), line("GET * HTTP/1.1", ""), line("GET ok/a HTTP/1.1", ""), line("GET https://{H}/ok/a HTTP/1.1", ""), line("GET {U}/ok/%c0%ae%c0%ae/secret HTTP/1.1", ""), line("GET {U}/ok/%252e%252e/secret HTTP/1.1", ""),
	// connections that turn into something else
	line("GET {U}/ok/a HTTP/1.1", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), line("GET {U}/ok/a HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n") + smuggled, "CONNECT {H} HTTP/1.1\r\nHost: {H}\r\n{A}\r\n" + last,
	"CONNECT {H} HTTP/1.1\r\nHost: {H}\r\n{A}Content-Length: 5\r\n\r\nhello" + last, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + last, line("TRACE {U}/ok/a HTTP/1.1", ""), post("Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 5\r\n", "hello"),
}
