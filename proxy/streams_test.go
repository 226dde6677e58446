package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// streamLab is a lab whose upstream is a strictServer, for streams of bytes that clients send. Its hosts are raw.ok.test, for
// absolute-form requests and for plain HTTP inside a tunnel; bound.ok.test, with a credential in TLS; and ruled.ok.test, of which
// only /ok and what is below may be reached with GET and POST.
type streamLab struct {
	*lab
	up      *strictServer
	waiting []record // of calls that were let pass and have not been seen upstream
}

func newStreamLab(t testing.TB) *streamLab {
	t.Helper()
	s := &streamLab{up: startStrict(t)}
	p := s.up.port
	s.lab = newLab(t, func(f *labFiles) {
		f.config = replaceOnce(f.config, "tools: [t1]}]", "tools: [t1]}, {prefix: \"127.0.0.1/32\", ports: ["+p+"], tools: [t1]}]")
		f.config = replaceOnce(f.config, "targets: [\"bound", "targets: [\"bound.ok.test:"+p+"\", \"bound")
		f.config = replaceOnce(f.config, "denials: {", "intercept: {targets: [\"raw.ok.test:"+p+"\"], caOutFile: ca.crt}\ndenials: {")
		f.config = replaceOnce(f.config, "log: {level: debug, payloads: true}", "log: {level: error}")
		f.manifest = replaceOnce(f.manifest, "allowedDomains: [", fmt.Sprintf("allowedDomains: [\"raw.ok.test:%[1]s\", \"bound.ok.test:%[1]s\", \"ruled.ok.test:%[1]s\", ", p))
		f.manifest = replaceOnce(f.manifest, "  rules:\n", "  rules:\n    - {host: \"ruled.ok.test:"+p+"\", methods: [GET, POST], paths: [\"/ok/*\", \"/ok\"]}\n")
	})
	s.up.cert = s.tls.TLS.Certificates[0]
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() { // records are looked at, not waited for one by one
		for {
			select {
			case <-s.records.more:
			case <-done:
				return
			}
		}
	}()
	return s
}

// streamModes are the ways in which a stream of requests comes in. In a stream {U} stands for what is before a path, {H} for the host
// and port, {V} for the same in another spelling, {A} for the header line that names the caller.
var streamModes = []struct {
	name, host string
	tunnel     bool
	tls        bool
}{
	{"absolute", "raw.ok.test", false, false},
	{"in a tunnel", "raw.ok.test", true, false},
	{"in TLS", "bound.ok.test", true, true},
	{"ruled", "ruled.ok.test", true, false},
}

// send plays a stream in one mode, until the proxy ends the connection, or says nothing for a while and is told that no more comes.
func (s *streamLab) send(t *testing.T, mode int, stream string) {
	m := streamModes[mode]
	place := m.host + ":" + s.up.port
	base, auth := "", ""
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(8 * time.Second))
	conn := raw
	if !m.tunnel {
		base, auth = "http://"+place, "Proxy-Authorization: "+s.basic(s.token)+"\r\n"
	} else if conn = s.tunnel(t, raw, place, m.tls); conn == nil {
		return
	}
	stream = strings.NewReplacer("{U}", base, "{H}", place, "{V}", strings.ToUpper(m.host)+".:"+s.up.port, "{A}", auth).Replace(stream)
	if _, err := io.WriteString(conn, stream); err != nil {
		return // it has had enough
	}
	_ = raw.SetReadDeadline(time.Now().Add(60 * time.Millisecond))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		_ = raw.(*net.TCPConn).CloseWrite()
		_ = raw.SetReadDeadline(time.Now().Add(8 * time.Second))
		if _, err := io.Copy(io.Discard, raw); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection does not end")
		}
	}
}

func (s *streamLab) tunnel(t *testing.T, raw net.Conn, place string, encrypted bool) net.Conn {
	_, _ = fmt.Fprintf(raw, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", place, place, s.basic(s.token))
	head := make([]byte, len(established))
	if _, err := io.ReadFull(raw, head); err != nil || string(head) != established {
		t.Fatalf("CONNECT %s: %q %v", place, head, err)
	}
	if !encrypted {
		return raw
	}
	host, _, _ := net.SplitHostPort(place)
	roots := s.roots.Clone()
	roots.AddCert(s.ca.cert)
	c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: host})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// check compares what arrived upstream with what was let pass: one record for each request, of the same method, host, path and length.
func (s *streamLab) check(t *testing.T) (arrived int) {
	requests, violations := s.up.take()
	for _, v := range violations {
		t.Error(v)
	}
	for _, q := range requests {
		s.checkHeader(t, q)
		eventually(t, fmt.Sprintf("a record of a call that was let pass, for %s %s of %s with %d bytes, which arrived", q.method, q.target, q.header["Host"], q.body),
			func() bool { return s.decided(q) })
	}
	return len(requests)
}

// decided takes the record of q from those that came.
func (s *streamLab) decided(q strictRequest) bool {
	s.records.mu.Lock()
	for _, r := range s.records.all {
		if r.str("decision") == "allow" && r.str("kind") == "request" {
			s.waiting = append(s.waiting, r)
		}
	}
	s.records.all = nil
	s.records.raw.Reset()
	s.records.mu.Unlock()
	if len(s.waiting) > 256 {
		s.waiting = s.waiting[128:]
	}
	for i, r := range s.waiting {
		if s.same(q, r) {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return true
		}
	}
	return false
}

func (s *streamLab) same(q strictRequest, r record) bool {
	path, _, _ := strings.Cut(q.target, "?")
	pathMatches := r.str("path") == redact.Hash(path)
	if r.str("host") == "ruled.ok.test" {
		pathMatches = r.str("path") == "/ok" && path == "/ok" || r.str("path") == "/ok/*" && underOK(path)
	}
	sent, _ := r["bytes_out"].(float64)
	return r.str("method") == q.method && r.str("host")+":"+s.up.port == q.header.Get("Host") && pathMatches && (!q.complete || int(sent) == q.body)
}

// underOK reports whether a path is below /ok in every reading: nothing in it is a dot segment, an empty one or a separator, escaped or not.
func underOK(path string) bool {
	lower := strings.ToLower(path)
	for _, odd := range []string{"//", "/.", "%2e", "%2f", "%5c", `\`, ";", "%3b", "%00", "%25", "%c0"} {
		if strings.Contains(lower, odd) {
			return false
		}
	}
	return strings.HasPrefix(path, "/ok/") && path != "/ok/"
}

// checkHeader looks for what must never arrive, and for the credential.
func (s *streamLab) checkHeader(t *testing.T, q strictRequest) {
	for _, h := range []map[string][]string{q.header, q.trailer} {
		for name := range h {
			if private(name) || framingTwin(name) {
				t.Errorf("%s arrived: %v", name, h)
			}
		}
	}
	for _, name := range []string{"Authorization", "Cookie", "Host", "Content-Length", "Transfer-Encoding"} {
		if _, merged := q.trailer[name]; merged {
			t.Errorf("the trailers are %v", q.trailer)
		}
	}
	if a := q.header["Authorization"]; strings.HasPrefix(q.header.Get("Host"), "bound.") && (len(a) != 1 || !strings.HasPrefix(a[0], "Bearer ey")) {
		t.Errorf("the credential arrived as %d fields", len(a))
	}
}

// FuzzRequestStreams: what the upstream reads is what was decided on. Streams of bytes, mutated at places and with pieces that matter
// to parsers, come in by each route; an upstream that shares no code with net/http reads what goes out.
func FuzzRequestStreams(f *testing.F) {
	s := newStreamLab(f)
	for i, stream := range requestStreams(f) {
		f.Add(byte(i), stream, []byte{})
		f.Add(byte(i+1), stream, []byte{byte(i), byte(i * 37), byte(i * 11), byte(i + 1), byte(i * 53), byte(i*11 + 5)})
	}
	f.Fuzz(func(t *testing.T, mode byte, stream string, script []byte) {
		if len(stream) > 4096 {
			return
		}
		s.send(t, int(mode)%len(streamModes), mutateStream(stream, script))
		s.check(t)
	})
}

// TestRequestStreams plays the table as it stands in every mode, and makes sure that something arrives, or the comparison would be of
// nothing with nothing.
func TestRequestStreams(t *testing.T) {
	s := newStreamLab(t)
	for mode, m := range streamModes {
		t.Run(m.name, func(t *testing.T) {
			arrived := 0
			for _, stream := range requestStreams(t) {
				s.send(t, mode, stream)
				arrived += s.check(t)
				if t.Failed() {
					t.Fatalf("of the stream %q", stream)
				}
			}
			if arrived < 10 {
				t.Errorf("only %d requests arrived", arrived)
			}
		})
	}
}

// streamSplices are what mutations insert.
var streamSplices = []string{
	"\r\n", "\n", "\r", "\r\n\r\n", "\n\n", " ", "\t", "\x00", "\v", "\x7f", "\x80", ":", " :", ",", ";", "#", "?", "//", "/./", "/../", "%2e%2e/", "%2f", "%5c", `\`, "*", "@", "é",
	"Content-Length: 5\r\n", "Content-Length: 0\r\n", "content-length: 6, 6\r\n", "Content-Length: +5\r\n", "Content_Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n",
	"Transfer-Encoding: chunked, identity\r\n", "transfer-encoding:\tchunked\r\n", "Transfer-Encoding: \r\n chunked\r\n", "Transfer_Encoding: chunked\r\n", "Host: evil.test\r\n", "Host: {H}\r\n", "Connection: close\r\n",
	"Connection: Host\r\n", "Connection: content-length, transfer-encoding\r\n", "Expect: 100-continue\r\n", "Upgrade: websocket\r\nConnection: upgrade\r\n", "Trailer: Content-Length\r\n", "Authorization: Bearer of-the-tool\r\n",
	"0\r\n\r\n", "5\r\nhello\r\n", "5;a=b\r\nhello\r\n", "5;\"\r\nhello\r\n", "0\r\nX: y\r\n\r\n", "fffffffffffffffff\r\n", "0x5\r\n", "-1\r\n", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/0.9",
	"GET {U}/smuggled HTTP/1.1\r\nHost: {H}\r\n{A}\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n{A}\r\n", "POST", "CONNECT ", "TRACE ", "HEAD ", "OPTIONS * HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

// mutateStream changes a stream by the script: each three bytes insert, replace, delete or double at some place.
func mutateStream(stream string, script []byte) string {
	for ; len(script) >= 3 && len(stream) < 8192; script = script[3:] {
		at := int(script[1]) * (len(stream) + 1) / 256
		if script[0]&0x40 != 0 { // at the end of a line
			if i := strings.Index(stream[at:], "\r\n"); i >= 0 {
				at += i + 2*int(script[0]>>7)
			}
		}
		end := min(at+1+int(script[0]>>4)%3, len(stream))
		switch splice := streamSplices[int(script[2])%len(streamSplices)]; script[0] % 8 {
		case 0, 1, 2, 3:
			stream = stream[:at] + splice + stream[at:]
		case 4:
			stream = stream[:at] + splice + stream[end:]
		case 5:
			stream = stream[:at] + stream[end:]
		case 6:
			line, _, _ := strings.Cut(stream[at:], "\r\n")
			stream = stream[:at] + line + "\r\n" + stream[at:]
		case 7:
			stream += splice
		}
	}
	return stream
}
