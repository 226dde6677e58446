package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestPlainConnect(t *testing.T) {
	for _, c := range []struct {
		name, head string
		plain      bool
	}{
		{"bare", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", true},
		{"curl", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Authorization: Basic eA==\r\nUser-Agent: curl/8.1\r\nProxy-Connection: Keep-Alive\r\n\r\n", true},
		{"Go", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nUser-Agent: Go-http-client/1.1\r\nProxy-Authorization: Bearer a.b.c\r\n\r\n", true},
		{"an address", "CONNECT 192.0.2.1:443 HTTP/1.1\r\nhost: 192.0.2.1:443\r\n\r\n", true},
		{"bytes after it", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01", true},
		{"no host", "CONNECT a.test:443 HTTP/1.1\r\n\r\n", false},
		{"another host", "CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", false},
		{"two hosts", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nHost: a.test:443\r\n\r\n", false},
		{"two tokens", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Authorization: Bearer a\r\nproxy-authorization: Bearer b\r\n\r\n", false},
		{"a body", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nContent-Length: 3\r\n\r\n", false},
		{"chunks", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nTransfer-Encoding: chunked\r\n\r\n", false},
		{"expects", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nExpect: 100-continue\r\n\r\n", false},
		{"a folded line", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nUser-Agent: a\r\n b\r\n\r\n", false},
		{"a bare line feed", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\nUser-Agent: a\r\n\r\n", false},
		{"a line feed in a value", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nUser-Agent: a\nProxy-Authorization: Bearer b\r\n\r\n", false},
		{"a space before the colon", "CONNECT a.test:443 HTTP/1.1\r\nHost : a.test:443\r\n\r\n", false},
		{"spaces around a value", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nUser-Agent:  a\r\n\r\n", false},
		{"an empty value", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Authorization: \r\n\r\n", false},
		{"not ASCII", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nUser-Agent: \xc3\xa4\r\n\r\n", false},
		{"capitals", "CONNECT A.test:443 HTTP/1.1\r\nHost: A.test:443\r\n\r\n", false},
		{"user info", "CONNECT a@b.test:443 HTTP/1.1\r\nHost: a@b.test:443\r\n\r\n", false},
		{"IPv6", "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n", false},
		{"no port", "CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", false},
		{"two ports", "CONNECT a.test:1:2 HTTP/1.1\r\nHost: a.test:1:2\r\n\r\n", false},
		{"HTTP/1.0", "CONNECT a.test:443 HTTP/1.0\r\nHost: a.test:443\r\n\r\n", false},
		{"HTTP/1.1 and more", "CONNECT a.test:443 HTTP/1.1 \r\nHost: a.test:443\r\n\r\n", false},
		{"a small method", "connect a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", false},
		{"a blank line first", "\r\nCONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", false},
		{"no end", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n", false},
		{"nothing", "", false},
	} {
		a, _ := plainConnect([]byte(c.head))
		if (a != nil) != c.plain {
			t.Errorf("%s: plain is %v", c.name, a != nil)
		}
		sameAsNetHTTP(t, []byte(c.head))
	}
}

// sameAsNetHTTP fails if a head that is plain is one that net/http refuses, ends elsewhere, or reads another ask from.
func sameAsNetHTTP(t *testing.T, b []byte) {
	t.Helper()
	a, n := plainConnect(b)
	if a == nil {
		return
	}
	br := bufio.NewReader(bytes.NewReader(b))
	r, err := http.ReadRequest(br)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b, err)
	}
	if rest, _ := io.ReadAll(br); !bytes.Equal(rest, b[n:]) {
		t.Errorf("%q: net/http leaves %q, not %q", b, rest, b[n:])
	}
	if want := connectAsk(r); !reflect.DeepEqual(a, want) {
		t.Errorf("%q: read as %+v, by net/http as %+v", b, a, want)
	}
	if r.Method != http.MethodConnect || r.Proto != "HTTP/1.1" || r.Host != a.authority || r.ContentLength != 0 || r.TransferEncoding != nil || r.Close || r.Trailer != nil {
		t.Errorf("%q: %+v", b, r)
	}
}

// FuzzPlainConnect: what the front reads, net/http reads the same.
func FuzzPlainConnect(f *testing.F) {
	const head = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
	for _, more := range []string{"", "User-Agent: a b\r\n", "Proxy-Authorization: Bearer x\r\nTraceparent: 00-1-2-00\r\n", "toolgate-authorization: Bearer x\r\n", "Proxy-Connection: close\r\n"} {
		f.Add([]byte(head + more + "\r\n"))
		f.Add([]byte(head + more + "\r\nmore"))
		f.Add([]byte(strings.ReplaceAll(head+more+"\r\n", "\r\n", "\n")))
	}
	f.Fuzz(sameAsNetHTTP)
}
