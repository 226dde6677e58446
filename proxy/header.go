package proxy

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1, and what older clients send).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// outgoing returns the client's headers as they may go to the upstream: without those of its connection, without those
// that it nominates, without what is between it and the sidecar, in any spelling that servers fold together.
func outgoing(in http.Header) http.Header {
	out := make(http.Header, len(in)+1)
	for name, values := range in {
		if !private(name) && !framingTwin(name) {
			out[name] = values[:len(values):len(values)] // shared: nobody changes values in place
		}
	}
	stripHop(out, in["Connection"])
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		out.Set("Te", "trailers")
	}
	return out
}

// incoming adds the upstream's headers to out as they may go to the client.
func incoming(out, in http.Header) {
	for name, values := range in {
		// What is between the client and the sidecar, only the sidecar may say; Alt-Svc is an invitation to go round it.
		if !foldedPrefix(name, "proxy-") && !foldedPrefix(name, "toolgate-") && name != "Alt-Svc" {
			out[name] = values[:len(values):len(values)] // shared: nobody changes values in place
		}
	}
	stripHop(out, in["Connection"])
}

func stripHop(h http.Header, connection []string) {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// private reports whether a header is between the client and the sidecar, or would have the upstream believe something
// of the connection that the tool made up.
func private(name string) bool {
	return foldedPrefix(name, "proxy-") || foldedPrefix(name, "toolgate-") || foldedPrefix(name, "x-forwarded-") ||
		strings.EqualFold(name, "forwarded") || strings.EqualFold(name, "via") || misleads(name)
}

// framingTwin reports whether a header that means nothing to HTTP becomes one that frames the message in servers that
// hand headers on as variables (RFC 3875, section 4.1.18).
func framingTwin(name string) bool {
	return strings.IndexByte(name, '_') >= 0 &&
		(folds(name, "content-length") || folds(name, "transfer-encoding") || folds(name, "proxy-connection") || folds(name, "keep-alive"))
}

func folds(name, lower string) bool { return len(name) == len(lower) && foldedPrefix(name, lower) }

// foldedPrefix reports whether name begins with prefix, which is lower case, if case and the underscore count for nothing.
func foldedPrefix(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		b := name[i]
		switch {
		case b == '_':
			b = '-'
		case 'A' <= b && b <= 'Z':
			b += 'a' - 'A'
		}
		if b != prefix[i] {
			return false
		}
	}
	return true
}

// forbiddenTrailer reports whether a trailer field would change what was decided if a recipient merged it into the
// headers (RFC 9110, section 6.5.1).
func forbiddenTrailer(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Authorization", "Cookie", "Set-Cookie", "Host", "Content-Length", "Content-Encoding", "Content-Type", "Content-Range",
		"Transfer-Encoding", "Trailer", "Te", "Connection", "Upgrade", "Expect", "Cache-Control", "Max-Forwards", "Www-Authenticate":
		return true
	}
	return private(name) || len(overridden(http.Header{textproto.CanonicalMIMEHeaderKey(name): {""}})) > 0
}

// isWebSocket reports whether an h1 request asks for a WebSocket (RFC 6455, section 4.1). No other upgrade is passed on.
func isWebSocket(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Method == http.MethodGet && r.ContentLength == 0 &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
