package redact

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

type safe struct{}

func (safe) Error() string     { return "unsafe " + marker }
func (safe) SafeError() string { return "binding orders: denied" }

type explosive struct{}

func (*explosive) Error() string { panic(marker) }

func TestError(t *testing.T) {
	secretURL := "https://u:" + marker + "@h.example/p?t=" + marker
	badPort := strings.Join([]string{"https://u:", marker, "@h.example:port/"}, "")
	_, parseErr := url.Parse(badPort)
	dns := &net.DNSError{Name: "h.example", Err: marker, IsNotFound: true, Server: "10.0.0.53:53"}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	cases := []struct {
		err  error
		want string
	}{
		{nil, ""},
		{context.Canceled, "context canceled"},
		{fmt.Errorf("read body: %w", io.ErrUnexpectedEOF), "read body: unexpected EOF"},
		{parseErr, "parse: malformed URL"},
		{&url.Error{Op: "Get", URL: secretURL, Err: io.EOF}, "Get h.example: EOF"},
		{&url.Error{Op: "Get", URL: secretURL, Err: errors.New(marker)}, "Get h.example: other error"},
		{&url.Error{Op: marker + " ", URL: "://" + marker, Err: nil}, "transport: failed"},
		{&url.Error{Op: "Post", URL: secretURL, Err: context.DeadlineExceeded}, "Post h.example: context deadline exceeded"},
		{fmt.Errorf("x %s: %w", marker, &url.Error{Op: "Get", URL: secretURL, Err: refused}), "Get h.example: dial: connection refused"},
		{dns, "lookup h.example: no such host"},
		{&net.DNSError{Name: "h", IsTimeout: true}, "lookup h: timeout"},
		{&net.DNSError{Name: "h\n", Err: marker}, `lookup h\n: failed`},
		{&net.OpError{Op: "dial", Err: dns}, "lookup h.example: no such host"},
		{refused, "dial: connection refused"},
		{&net.OpError{Op: "read", Err: net.ErrClosed}, "read: use of closed network connection"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "read: i/o timeout"},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, "transport: tls: bad certificate"},
		{&net.OpError{Op: "read", Err: errors.New(marker)}, "read: other error"},
		{x509.UnknownAuthorityError{}, "tls: certificate signed by unknown authority"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Host: marker, Certificate: &x509.Certificate{}}}, "tls: certificate is not valid for the host"},
		{&tls.CertificateVerificationError{Err: errors.New(marker)}, "tls: certificate does not verify"},
		{x509.CertificateInvalidError{Reason: x509.Expired, Detail: marker}, "tls: certificate has expired or is not yet valid"},
		{x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign, Detail: marker}, "tls: certificate is invalid"},
		{tls.RecordHeaderError{Msg: marker}, "tls: the peer does not speak TLS"},
		{textproto.ProtocolError("malformed MIME header line: " + marker), "malformed header"},
		{&textproto.Error{Code: 500, Msg: marker}, "malformed header"},
		{errors.New(`malformed HTTP response "` + marker + `"`), "http: malformed message"},
		{errors.New(`net/http: invalid header field value "` + marker + `"`), "http: invalid header field"},
		{errors.New(`http2: server sent GOAWAY and closed the connection; debug="` + marker + `"`), "http2: the peer closed the connection"},
		{errors.New(`oauth2: "invalid_grant" "` + marker + `"`), "oauth2: failed"},
		{fmt.Errorf("x: %w", errors.New("oauth2: cannot fetch token: 400\nResponse: malformed HTTP "+marker)), "oauth2: failed"},
		{safe{}, "binding orders: denied"},
		{fmt.Errorf("%s: %w", marker, safe{}), "binding orders: denied"},
		{(*explosive)(nil), "error whose text panicked"},
		{&fs.PathError{Op: "open", Path: "/etc/toolgate/key.pem", Err: fs.ErrNotExist}, "open /etc/toolgate/key.pem: file does not exist"},
		{errors.New("plain\nwith password=" + marker), `plain\nwith password=[REDACTED:credential]`},
		{errors.Join(errors.New("a"), &url.Error{Op: "Get", URL: secretURL, Err: io.EOF}), "Get h.example: EOF"},
	}
	for _, c := range cases {
		if got := Error(c.err); got != c.want {
			t.Errorf("%T: got %q, want %q", c.err, got, c.want)
		}
	}
	if got := Error(errors.New(strings.Repeat("é", 1000))); len(got) > maxError+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("long text: %d bytes, ends %q", len(got), got[len(got)-6:])
	}
	// The cut must not free half of a token from its pattern.
	if got := Error(errors.New(strings.Repeat("x ", 250) + "Bearer " + marker)); leaks(got, marker) != "" {
		t.Errorf("%q", got)
	}
}

// Errors that net/http really makes.
func TestErrorOfRealTransport(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	answers := []string{"HTTP/1.1 " + marker + "\r\n\r\n", "HTTP/1.1 200 OK\r\n" + marker + "\r\n\r\n", marker + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + marker + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + marker + "\r\n\r\n", ""}
	go func() {
		for _, a := range answers {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, a)
			conn.Close()
		}
	}()
	transport := &http.Transport{DisableKeepAlives: true}
	for _, a := range answers {
		req := httptest.NewRequest("POST", "http://"+ln.Addr().String()+"/"+marker+"?t="+marker, strings.NewReader("x"))
		req.RequestURI = ""
		resp, err := transport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			t.Fatalf("%q: no error", a)
		}
		wrapped := &url.Error{Op: "Post", URL: req.URL.String(), Err: err}
		for _, e := range []error{err, wrapped, fmt.Errorf("call: %w", err)} {
			if got := Error(e); leaks(got, marker) != "" || got == "" {
				t.Errorf("%q: %q from %q", a, got, e)
			}
		}
	}
}
