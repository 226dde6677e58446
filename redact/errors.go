package redact

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// maxError is the longest text of an error of unknown type that is shown.
const maxError = 512

// safeError marks an error whose text its author made of safe parts only.
type safeError interface{ SafeError() string }

// Error returns a safe description of err: its class and, for a transport error, the host; never the text that
// net/http, net/url or x/oauth2 made, since they quote URLs, headers and bodies. An error with a method SafeError() string
// speaks for itself. An error of unknown type goes through Text and is cut at 512 bytes. Nil gives "".
func Error(err error) (text string) {
	if err == nil {
		return ""
	}
	// An Error method may panic, for example on a nil pointer in an interface; the panic's value may be a secret.
	defer func() {
		if recover() != nil {
			text = "error whose text panicked"
		}
	}()
	var safe safeError
	if errors.As(err, &safe) {
		return Text(safe.SafeError())
	}
	if phrase := typed(err); phrase != "" {
		return neutralise(phrase)
	}
	if phrase := quoting(err.Error()); phrase != "" {
		return phrase
	}
	text = Text(err.Error())
	if len(text) > maxError {
		// Masked first and cut second, so that no half of a secret escapes its pattern.
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// typed describes an error that has a type of the standard library anywhere in its chain. Outer types
// come first, as they know the host.
func typed(err error) string {
	var (
		inURL  *url.Error
		dns    *net.DNSError
		op     *net.OpError
		proto  textproto.ProtocolError
		quoted *textproto.Error
	)
	switch {
	case errors.As(err, &inURL):
		return urlError(inURL)
	case errors.As(err, &dns):
		return dnsError(dns)
	case errors.As(err, &op):
		return opWord(op.Op) + ": " + cause(op.Err)
	case errors.As(err, &proto), errors.As(err, &quoted):
		return "malformed header"
	}
	return tlsError(err)
}

// cause describes what a transport error wraps. Unlike elsewhere, unknown text is not shown.
func cause(err error) string {
	if err == nil {
		return "failed"
	}
	if phrase := typed(err); phrase != "" {
		return phrase
	}
	if phrase := plain(err); phrase != "" {
		return phrase
	}
	if phrase := quoting(err.Error()); phrase != "" {
		return phrase
	}
	return "other error"
}

func urlError(e *url.Error) string {
	text := opWord(e.Op)
	if u, err := url.Parse(e.URL); err == nil && u.Hostname() != "" {
		text += " " + u.Hostname()
	}
	if e.Op == "parse" {
		return text + ": malformed URL"
	}
	return text + ": " + cause(e.Err)
}

// opWord keeps an operation that is one plain word: "Get", "dial", "read".
func opWord(op string) string {
	for i := 0; i < len(op); i++ {
		if c := op[i] | 0x20; c < 'a' || c > 'z' {
			return "transport"
		}
	}
	if op == "" || len(op) > 16 {
		return "transport"
	}
	return op
}

func dnsError(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "lookup " + e.Name + ": no such host"
	case e.IsTimeout:
		return "lookup " + e.Name + ": timeout"
	}
	return "lookup " + e.Name + ": failed"
}

// tlsError describes why a handshake failed. The names in a certificate are not repeated.
func tlsError(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		roots   x509.SystemRootsError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		verify  *tls.CertificateVerificationError
		ech     *tls.ECHRejectionError
	)
	switch {
	case errors.As(err, &unknown):
		return "tls: certificate signed by unknown authority"
	case errors.As(err, &host):
		return "tls: certificate is not valid for the host"
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return "tls: certificate has expired or is not yet valid"
		}
		return "tls: certificate is invalid"
	case errors.As(err, &roots):
		return "tls: no system roots"
	case errors.As(err, &verify):
		return "tls: certificate does not verify"
	case errors.As(err, &record):
		return "tls: the peer does not speak TLS"
	case errors.As(err, &alert):
		return alert.Error() // a fixed phrase for each alert
	case errors.As(err, &ech):
		return "tls: encrypted client hello rejected"
	}
	return ""
}

// sentinels have fixed texts.
var sentinels = []error{context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF, io.ErrClosedPipe,
	io.ErrShortWrite, net.ErrClosed, os.ErrDeadlineExceeded, http.ErrAbortHandler, http.ErrBodyReadAfterClose}

// plain describes an error that is, or wraps, one with a fixed text.
func plain(err error) string {
	var tooLarge *http.MaxBytesError
	var errno syscall.Errno
	var timeout interface{ Timeout() bool }
	if errors.As(err, &tooLarge) {
		return "http: body too large"
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	if errors.As(err, &errno) {
		return errno.Error()
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return ""
}

// quoting recognises, by their beginnings, texts that quote the peer or a URL and have no type, or
// one of x/oauth2, which is the broker's to know.
func quoting(text string) string {
	for _, q := range []struct{ part, phrase string }{
		{"oauth2: ", "oauth2: failed"}, // before all others: it quotes the endpoint's answer
		{"server gave HTTP response to HTTPS client", "http: plain HTTP on a TLS port"},
		{"malformed HTTP", "http: malformed message"},
		{"malformed MIME header", "http: malformed header"},
		{"malformed chunked", "http: malformed chunked encoding"},
		{"invalid header field", "http: invalid header field"},
		{"invalid byte in chunk", "http: malformed chunked encoding"},
		{"bad Content-Length", "http: bad content length"},
		{"Content-Length", "http: bad content length"},
		{"unsupported transfer encoding", "http: unsupported transfer encoding"},
		{"transport connection broken", "http: connection broken"},
		{"GOAWAY", "http2: the peer closed the connection"},
		{"http2: ", "http2: protocol error"},
		{"stream error: ", "http2: stream error"},
		{"connection error: ", "http2: connection error"},
		{"net/http: ", "http: transport error"},
		{"net/url: ", "malformed URL"},
	} {
		if strings.Contains(text, q.part) {
			return q.phrase
		}
	}
	return ""
}
