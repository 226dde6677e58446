package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2frames is HTTP/2 spoken frame by frame, inside an intercepted tunnel to bound.ok.test. The upstream speaks HTTP/1.1 only.
type h2frames struct {
	*http2.Framer
	raw   net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

func (s *streamLab) frames(t testing.TB) *h2frames {
	t.Helper()
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	place := "bound.ok.test:" + s.up.port
	_, _ = io.WriteString(raw, "CONNECT "+place+" HTTP/1.1\r\nHost: "+place+"\r\nProxy-Authorization: "+s.basic(s.token)+"\r\n\r\n")
	head := make([]byte, len(established))
	if _, err := io.ReadFull(raw, head); err != nil || string(head) != established {
		t.Fatalf("CONNECT: %q %v", head, err)
	}
	roots := s.roots.Clone()
	roots.AddCert(s.ca.cert)
	c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "bound.ok.test", NextProtos: []string{"h2"}})
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := &h2frames{Framer: http2.NewFramer(c, c), raw: raw}
	f.enc = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// fields encodes names and values in turn.
func (f *h2frames) fields(pairs ...string) []byte {
	f.block.Reset()
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // to a buffer
	}
	return bytes.Clone(f.block.Bytes())
}

// headers begins or ends a stream. Errors of writing show in what is read.
func (f *h2frames) headers(stream uint32, end bool, pairs ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.fields(pairs...), EndStream: end, EndHeaders: true})
}

// outcome reads until a stream has ended, and returns its status, "reset", or "closed" where the connection has ended.
func (f *h2frames) outcome(t testing.TB, stream uint32) string {
	t.Helper()
	status := ""
	for {
		frame, err := f.ReadFrame()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("neither an answer nor an end")
		}
		if err != nil {
			return "closed"
		}
		if g, ok := frame.(*http2.GoAwayFrame); ok && g.ErrCode != http2.ErrCodeNo {
			return "closed" // as it will be in a moment
		}
		if frame.Header().StreamID != stream {
			continue
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			if status == "" {
				status = "reset"
			}
			return status
		case *http2.MetaHeadersFrame:
			if v := frame.PseudoValue("status"); v != "100" && v != "" {
				status = v
			}
			if frame.StreamEnded() {
				return status
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				return status
			}
		}
	}
}

// h2request is a request in HTTP/2. Of the usual fields, those that it names itself are left out.
type h2request struct {
	name    string
	fields  []string // names and values in turn; before the usual ones
	without string   // a usual one that is left out
	data    string
	trailer []string
	status  string // expected; "": no arrival, whatever is answered
	empty   bool   // it may also arrive without a body, as its length says, before its data is refused
}

func (s *streamLab) usual(q *h2request) []string {
	var out []string
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "bound.ok.test:" + s.up.port}, {":path", "/ok/a"}} {
		given := false
		for i := 0; i < len(q.fields); i += 2 {
			given = given || q.fields[i] == f[0]
		}
		if !given && f[0] != q.without {
			out = append(out, f[0], f[1])
		}
	}
	return append(out, q.fields...)
}

func (f *h2frames) send(q *h2request, usual []string) {
	f.headers(1, q.data == "" && q.trailer == nil, usual...)
	if q.data != "" {
		_ = f.WriteData(1, q.trailer == nil, []byte(q.data))
	}
	if q.trailer != nil {
		f.headers(1, true, q.trailer...)
	}
}

const crlfRequest = "\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n"

// downgrades are what HTTP/2 can say and HTTP/1 would take for something else.
func downgrades(port string) []h2request {
	place := "bound.ok.test:" + port
	return []h2request{
		{name: "the usual one", data: "hello", status: "200"},
		{name: "trailers", data: "hello", trailer: []string{"x-sum", "1"}, status: "200"},
		{name: "length and data agree", fields: []string{"content-length", "5"}, data: "hello", status: "200"},
		{name: "te: trailers", fields: []string{"te", "trailers"}, status: "200"},
		{name: "expect", fields: []string{"expect", "100-continue"}, data: "hello", status: "200"},
		{name: "two cookies", fields: []string{"cookie", "a=b", "cookie", "c=d"}, status: "200"},
		{name: "slashes in the path", fields: []string{":path", "//evil.test/a"}, status: "200"},
		{name: "host and authority agree", fields: []string{"host", place}, status: "200"},

		{name: "value with CRLF", fields: []string{"x", "a" + crlfRequest}}, {name: "value with LF", fields: []string{"x", "a\nb: c"}},
		{name: "value with CR", fields: []string{"x", "a\rb"}}, {name: "value with NUL", fields: []string{"x", "a\x00b"}},
		{name: "name with CRLF", fields: []string{"x\r\ny", "a"}}, {name: "name with colon", fields: []string{"x: a\r\ntransfer-encoding", "chunked"}},
		{name: "name with space", fields: []string{"transfer-encoding ", "chunked"}}, {name: "name in upper case", fields: []string{"Transfer-Encoding", "chunked"}},
		{name: "no name", fields: []string{"", "a"}}, {name: "cookie with CRLF", fields: []string{"cookie", "a=b" + crlfRequest}},
		{name: "transfer-encoding", fields: []string{"transfer-encoding", "chunked"}, data: "0\r\n\r\n" + crlfRequest[2:]}, {name: "connection", fields: []string{"connection", "close"}},
		{name: "connection with a name", fields: []string{"connection", "authorization"}}, {name: "keep-alive", fields: []string{"keep-alive", "timeout=5"}},
		{name: "proxy-connection", fields: []string{"proxy-connection", "keep-alive"}}, {name: "upgrade", fields: []string{"upgrade", "h2c"}}, {name: "te: gzip", fields: []string{"te", "gzip"}},

		{name: "more data than length", fields: []string{"content-length", "3"}, data: "hello"}, {name: "less data than length", fields: []string{"content-length", "50"}, data: "hello"},
		{name: "length without data", fields: []string{"content-length", "5"}, status: "200"}, // as one without a body
		{name: "length 0 and data", fields: []string{"content-length", "0"}, data: crlfRequest[2:], empty: true},
		{name: "two lengths", fields: []string{"content-length", "5", "content-length", "6"}, data: "hello", status: "200"}, // by the first, which the data has

		{name: "two paths", fields: []string{":path", "/ok/a", ":path", "/ok/b"}}, {name: "path with space", fields: []string{":path", "/ok/a HTTP/1.1"}, status: "200"}, // escaped
		{name: "path with CRLF", fields: []string{":path", "/ok/a HTTP/1.1" + crlfRequest}}, {name: "path with NUL", fields: []string{":path", "/ok/\x00"}}, {name: "no path", without: ":path"},
		{name: "empty path", fields: []string{":path", ""}}, {name: "path without slash", fields: []string{":path", "ok/a"}}, {name: "path that is a URL", fields: []string{":path", "http://evil.test/"}},
		{name: "two methods", fields: []string{":method", "GET", ":method", "POST"}}, {name: "method with space", fields: []string{":method", "GET /smuggled HTTP/1.1\r\nX: y\r\n\r\nGET"}},
		{name: "method with CRLF", fields: []string{":method", "GET\r\n"}}, {name: "empty method", fields: []string{":method", ""}}, {name: "CONNECT", fields: []string{":method", "CONNECT"}},
		{name: "CONNECT alone", fields: []string{":method", "CONNECT", ":authority", place}, without: ":path"}, {name: "extended CONNECT", fields: []string{":method", "CONNECT", ":protocol", "websocket"}},
		{name: "TRACE", fields: []string{":method", "TRACE"}},
		{name: "another authority", fields: []string{":authority", "evil.test"}}, {name: "another host", fields: []string{":authority", "evil.test", "host", place}},
		{name: "authority with CRLF", fields: []string{":authority", place + crlfRequest}}, {name: "authority with user", fields: []string{":authority", "u@" + place}}, {name: "authority with path", fields: []string{":authority", place + "/x"}},
		{name: "two authorities", fields: []string{":authority", place, ":authority", "evil.test"}}, {name: "no authority", without: ":authority"},
		{name: "scheme with a URL", fields: []string{":scheme", "https://evil.test/x?"}}, {name: "no scheme", without: ":scheme"}, {name: "two schemes", fields: []string{":scheme", "https", ":scheme", "http"}},
		{name: "unknown pseudo field", fields: []string{":x", "a"}}, {name: "status", fields: []string{":status", "200"}}, {name: "pseudo field behind another", fields: []string{"x", "a", ":x", "b"}},
		{name: "path in trailers", data: "hello", trailer: []string{":path", "/smuggled"}}, {name: "trailers with CRLF", data: "hello", trailer: []string{"x", "a" + crlfRequest}},
		{name: "trailers with a connection field", data: "hello", trailer: []string{"transfer-encoding", "chunked"}, status: "200"}, // without them
	}
}

// TestDowngrade: what arrives in HTTP/1 is what was decided on in HTTP/2, and what has no form in HTTP/1 does not arrive. After each,
// the proxy serves others.
func TestDowngrade(t *testing.T) {
	s := newStreamLab(t)
	for _, q := range downgrades(s.up.port) {
		t.Run(q.name, func(t *testing.T) {
			f := s.frames(t)
			f.send(&q, s.usual(&q))
			got := f.outcome(t, 1)
			if q.status != "" && got != q.status {
				t.Errorf("%s, want %s", got, q.status)
			}
			if q.empty {
				_ = f.raw.Close()
				s.checkEmpty(t)
				return
			}
			if q.status == "" && (got == "" || got[0] == '2') {
				t.Errorf("%s for what must not arrive", got)
			}
			_ = f.raw.Close()
			s.checkWhole(t, q.status != "")
		})
	}
}

// checkWhole checks what arrived, and that it was one whole request or none.
func (s *streamLab) checkWhole(t *testing.T, want bool) {
	t.Helper()
	s.up.mu.Lock()
	whole := slices.ContainsFunc(s.up.requests, func(q *strictRequest) bool { return q.complete })
	s.up.mu.Unlock()
	if whole != want {
		t.Errorf("a whole request has arrived: %v, want %v", whole, want)
	}
	s.check(t)
}

// checkEmpty checks that nothing has arrived but a request without a body.
func (s *streamLab) checkEmpty(t *testing.T) {
	t.Helper()
	s.up.mu.Lock()
	more := slices.ContainsFunc(s.up.requests, func(q *strictRequest) bool { return q.body > 0 })
	s.up.mu.Unlock()
	if more {
		t.Error("a request with a body has arrived")
	}
	if n := s.check(t); n > 1 {
		t.Errorf("%d requests have arrived", n)
	}
}

// TestForbiddenTrailersOverH2: fields that would change the request if a server merged them into the header do not go out as trailers.
func TestForbiddenTrailersOverH2(t *testing.T) {
	s := newStreamLab(t)
	for _, name := range []string{"authorization", "cookie", "host", "content-length", "toolgate-authorization", "x-forwarded-for"} {
		for _, announced := range []string{"x-sum", name} {
			f := s.frames(t)
			q := h2request{fields: []string{"trailer", announced}, data: "hello", trailer: []string{name, "1"}}
			f.send(&q, s.usual(&q))
			f.outcome(t, 1)
			_ = f.raw.Close()
			s.check(t)
		}
	}
}

// FuzzDowngrade: whatever fields a request of HTTP/2 has, what arrives in HTTP/1 is what was decided on.
func FuzzDowngrade(f *testing.F) {
	s := newStreamLab(f)
	table := downgrades(s.up.port)
	for i := range table {
		f.Add(byte(i), "x", "a", []byte{byte(i), 3, byte(i)}, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, which byte, name, value string, script, data []byte) {
		q := table[int(which)%len(table)]
		q.fields = append(slices.Clone(q.fields), name, mutateStream(value, script))
		if len(data) > 0 {
			q.data = string(data)
		}
		fr := s.frames(t)
		fr.send(&q, s.usual(&q))
		fr.outcome(t, 1)
		_ = fr.raw.Close()
		s.check(t)
	})
}

// TestFloods: frames that cost their sender nothing end the connection or are answered at the sender's pace; memory stays, and others
// are served meanwhile.
func TestFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: floods take a while")
	}
	s := newStreamLab(t)
	s.serves(t) // what the first call makes stays
	usual := s.usual(&h2request{})
	big := strings.Repeat("v", 4000)
	for _, flood := range []struct {
		name string
		once func(f *h2frames, i int) error
	}{
		{"settings", func(f *h2frames, _ int) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		}},
		{"pings", func(f *h2frames, _ int) error { return f.WritePing(false, [8]byte{1}) }},
		{"empty data", func(f *h2frames, i int) error {
			if i == 0 {
				f.headers(1, false, usual...)
			}
			return f.WriteData(1, false, nil)
		}},
		{"resets", func(f *h2frames, i int) error {
			f.headers(uint32(2*i+1), true, usual...)
			return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		}},
		{"continuations", func(f *h2frames, i int) error {
			if i == 0 {
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.fields(usual...)})
			}
			return f.WriteContinuation(1, false, f.fields("x", big))
		}},
		{"bombs", func(f *h2frames, i int) error { // each field is one byte on the wire once its value is in the table
			fields := f.fields(append(slices.Clone(usual), slices.Repeat([]string{"x", big}, 3000)...)...)
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: fields, EndStream: true, EndHeaders: true})
		}},
		{"window updates", func(f *h2frames, _ int) error { return f.WriteWindowUpdate(0, 1) }},
		{"priorities", func(f *h2frames, i int) error {
			return f.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: 0, Weight: 1})
		}},
	} {
		t.Run(flood.name, func(t *testing.T) { s.flood(t, flood.once) })
	}
}

func (s *streamLab) flood(t *testing.T, once func(f *h2frames, i int) error) {
	before := s.settled()
	heap := liveHeap()
	f := s.frames(t)
	_ = f.raw.SetDeadline(time.Now().Add(time.Second)) // nothing is read: answers pile up, or the sender is held back
	sent := 0
	for ; sent < 50000; sent++ {
		if once(f, sent) != nil {
			break
		}
	}
	s.up.take()
	s.records.mu.Lock() // of each stream one, which the tests keep
	s.records.all = nil
	s.records.raw.Reset()
	s.records.mu.Unlock()
	if grown := liveHeap() - heap; grown > 24<<20 {
		t.Errorf("after %d frames %d bytes are held", sent, grown)
	}
	s.serves(t)
	_ = f.raw.Close()
	s.up.take()
	s.noLeak(before)
	t.Logf("%d frames", sent)
}

// serves makes a call that must succeed.
func (s *streamLab) serves(t *testing.T) {
	t.Helper()
	f, q := s.frames(t), h2request{data: "hello"}
	f.send(&q, s.usual(&q))
	if got := f.outcome(t, 1); got != "200" {
		t.Errorf("another caller got %s", got)
	}
	_ = f.raw.Close()
}

// liveHeap returns the bytes of objects that are held.
func liveHeap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
