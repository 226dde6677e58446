package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// helloOf returns what a client sends first.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	go func() { _ = tls.Client(a, c).Handshake() }()
	_ = b.SetDeadline(time.Now().Add(5 * time.Second))
	var all []byte
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(b, head); err != nil {
			t.Fatal(err)
		}
		record := append(bytes.Clone(head), make([]byte, int(head[3])<<8|int(head[4]))...)
		if _, err := io.ReadFull(b, record[5:]); err != nil {
			t.Fatal(err)
		}
		all = append(all, record...)
		body := message(all)
		if len(body) == 4+int(body[1])<<16+int(body[2])<<8+int(body[3]) {
			return all
		}
	}
}

// message joins the contents of records.
func message(records []byte) (body []byte) {
	for len(records) > 0 {
		n := 5 + int(records[3])<<8 + int(records[4])
		body = append(body, records[5:n]...)
		records = records[n:]
	}
	return body
}

// inRecords cuts the handshake message of some records into records of size bytes.
func inRecords(hello []byte, size int) []byte {
	var out []byte
	for body := message(hello); len(body) > 0; {
		n := min(size, len(body))
		out = append(out, recordHandshake, 3, 1, byte(n>>8), byte(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

func TestHelloInAnySplit(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"post-quantum": {ServerName: "api.ok.test"},
		"tls12":        {ServerName: "api.ok.test", MaxVersion: tls.VersionTLS12},
		"large":        {ServerName: "api.ok.test", NextProtos: manyProtocols(1200)},
	} {
		whole := helloOf(t, c)
		for _, size := range []int{7, 100, 1 << 14} {
			in := inRecords(whole, size)
			h, err := parseHello(in)
			if err != nil || h.serverName != "api.ok.test" {
				t.Errorf("%s in records of %d: %+v %v", name, size, h, err)
			}
			if size < 100 {
				continue
			}
			for n := 0; n < len(in); n += 1 + len(in)/1000 {
				if h, err := parseHello(in[:n]); !errors.Is(err, errHelloShort) {
					t.Fatalf("%s, %d of %d bytes: %+v %v", name, n, len(in), h, err)
				}
			}
		}
		if h, err := parseHello(append(bytes.Clone(whole), 0x17, 3, 3)); err != nil || h.serverName != "api.ok.test" {
			t.Errorf("%s with bytes after it: %+v %v", name, h, err)
		}
	}
}

// manyProtocols makes a hello larger than one record.
func manyProtocols(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Repeat("x", 20)
	}
	return list
}

func TestHelloWithoutName(t *testing.T) {
	if h, err := parseHello(helloOf(t, &tls.Config{InsecureSkipVerify: true})); err != nil || h.serverName != "" {
		t.Errorf("%+v %v", h, err)
	}
}

func TestHelloThatIsNone(t *testing.T) {
	good := helloOf(t, &tls.Config{ServerName: "api.ok.test"})
	at := bytes.Index(good, []byte("api.ok.test"))
	for name, change := range map[string]func(b []byte) []byte{
		"another message":        func(b []byte) []byte { b[5] = 2; return b },
		"another version":        func(b []byte) []byte { b[1] = 4; return b },
		"empty record":           func(b []byte) []byte { return append([]byte{22, 3, 1, 0, 0}, b...) },
		"empty name":             func(b []byte) []byte { b[at-1], b[at-2] = 0, 0; return b },
		"name too long":          func(b []byte) []byte { b[at-2] = 0xff; return b },
		"a name of another kind": func(b []byte) []byte { b[at-3] = 1; return b },
	} {
		h, err := parseHello(change(bytes.Clone(good)))
		if !errors.Is(err, errHelloMalformed) {
			t.Errorf("%s: %+v %v", name, h, err)
		}
	}
	records := func(head []byte, zeros, size int) (out []byte) {
		for body := append(head, make([]byte, zeros)...); len(body) > 0; {
			n := min(size, len(body))
			out = append(append(out, recordHandshake, 3, 1, byte(n>>8), byte(n)), body[:n]...)
			body = body[n:]
		}
		return out
	}
	large := records([]byte{1, 1, 0, 0}, 70<<10, 1<<14)
	if _, err := parseHello(large); !errors.Is(err, errHelloLarge) {
		t.Errorf("a message of 64 KiB: %v", err)
	}
	trickle := records([]byte{1, 0, 0xff, 0}, 60<<10, 1)
	if _, err := parseHello(trickle); !errors.Is(err, errHelloLarge) {
		t.Errorf("records of one byte: %v", err)
	}
}

// TestHelloTwice: of two names a server may take either.
func TestHelloTwice(t *testing.T) {
	good := helloOf(t, &tls.Config{ServerName: "api.ok.test", MaxVersion: tls.VersionTLS12})
	at := bytes.Index(good, []byte("api.ok.test"))
	ext := bytes.Clone(good[at-9 : at+len("api.ok.test")])
	b := append(bytes.Clone(good[:at-9]), append(bytes.Clone(ext), good[at-9:]...)...)
	grow := func(i, width int) { // adds the length of the second extension to a length field
		n := 0
		for j := range width {
			n = n<<8 | int(b[i+j])
		}
		n += len(ext)
		for j := width - 1; j >= 0; j-- {
			b[i+j] = byte(n)
			n >>= 8
		}
	}
	grow(3, 2)
	grow(6, 3)
	sessionEnd := 9 + 34 + 1 + int(b[9+34])
	ciphers := int(b[sessionEnd])<<8 | int(b[sessionEnd+1])
	extensions := sessionEnd + 2 + ciphers + 1 + int(b[sessionEnd+2+ciphers])
	grow(extensions, 2)
	if h, err := parseHello(b); !errors.Is(err, errHelloMalformed) {
		t.Errorf("%+v %v", h, err)
	}
}

// FuzzHello: a ClientHello that both we and crypto/tls, as a server, take names the same server to both, and one that
// crypto/tls takes never leaves us waiting for more of it. crypto/tls takes more than RFC 8446 allows (a warning before
// the ClientHello, a name of another kind, any version in the record): there we may be stricter.
func FuzzHello(f *testing.F) {
	f.Add(helloOf(f, &tls.Config{ServerName: "api.ok.test"}))
	f.Add(helloOf(f, &tls.Config{ServerName: "api.ok.test", MaxVersion: tls.VersionTLS12}))
	f.Add(inRecords(helloOf(f, &tls.Config{ServerName: "a.test"}), 50))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, err := parseHello(b)
		name, took := serverReads(b)
		strict := errors.Is(err, errHelloMalformed) || errors.Is(err, errHelloLarge)
		if took && !strict && (err != nil || ours.serverName != name) {
			t.Errorf("crypto/tls reads %q, we %+v %v", name, ours, err)
		}
	})
}

var errRead = errors.New("read")

// serverReads returns the name that crypto/tls finds.
func serverReads(b []byte) (name string, took bool) {
	s := tls.Server(&oneWay{bytes.NewReader(b)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, took = h.ServerName, true
			return nil, errRead
		},
	})
	_ = s.Handshake()
	return name, took
}

// oneWay is a connection from which bytes can be read and nothing else.
type oneWay struct{ io.Reader }

func (*oneWay) Write(p []byte) (int, error)      { return len(p), nil }
func (*oneWay) Close() error                     { return nil }
func (*oneWay) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*oneWay) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*oneWay) SetDeadline(time.Time) error      { return nil }
func (*oneWay) SetReadDeadline(time.Time) error  { return nil }
func (*oneWay) SetWriteDeadline(time.Time) error { return nil }
