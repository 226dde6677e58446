package redact

import (
	"log/slog"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// shownHeaders are harmless by their meaning; every other value is masked.
var shownHeaders = nameSet("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Age", "Allow",
	"Alt-Svc", "Cache-Control", "Connection", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Range", "Content-Type", "Date", "Expect", "Expires", "Host", "If-Modified-Since", "If-Unmodified-Since",
	"Keep-Alive", "Last-Modified", "Proxy-Authenticate", "Proxy-Connection", "Range", "Ratelimit-Limit",
	"Ratelimit-Remaining", "Ratelimit-Reset", "Retry-After", "Server", "Te", "Toolgate-Denial", "Traceparent", "Trailer",
	"Transfer-Encoding", "Upgrade", "User-Agent", "Vary", "Via", "Www-Authenticate", "X-Request-Id")

// urlHeaders hold one URL each, and are shown like one.
var urlHeaders = nameSet("Content-Location", "Location", "Origin", "Referer")

// maxHeaderValue is the longest value shown of a harmless header.
const maxHeaderValue = 256

func nameSet(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// Headers returns h as sorted "name: value" attributes with the values of all but an allowlist of harmless names
// masked. Authorization keeps its scheme, cookies their names.
func Headers(h http.Header) slog.Value {
	attrs := make([]slog.Attr, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		shown := make([]string, len(h[name]))
		for i, v := range h[name] {
			shown[i] = headerValue(textproto.CanonicalMIMEHeaderKey(name), v)
		}
		attrs = append(attrs, slog.String(headerName(name), strings.Join(shown, ", ")))
	}
	return slog.GroupValue(attrs...)
}

// HeadersOnce is Headers for a line of the log: Handler does not look through it again.
func HeadersOnce(h http.Header) slog.Value { return slog.AnyValue(safeHeaders{Headers(h)}) }

// safeHeaders is what Headers returned.
type safeHeaders struct{ shown slog.Value }

// LogValue returns it, for handlers other than ours.
func (h safeHeaders) LogValue() slog.Value { return h.shown }

// headerName keeps what looks like a field's name (RFC 9110, section 5.1); anything else may be data.
func headerName(name string) string {
	if shownHeaders[name] || len(name) <= 128 && token(name) && !dense(name) && Text(name) == name {
		return name
	}
	return "*"
}

// The bounds of the words and of the digits of a field's name. Registered ones have words of up to 14 letters, and four digits.
const (
	maxNameWord   = 16
	maxNameDigits = 4
)

// dense reports whether a field's name may be a value. On its way it loses its case, by which most forms of values are known.
func dense(name string) bool {
	word, digits := 0, 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '-' || c == '_' || c == '.':
			word = 0
			continue
		case '0' <= c && c <= '9':
			digits++
		}
		if word++; word > maxNameWord || digits > maxNameDigits {
			return true
		}
	}
	return false
}

// token reports whether s is a token of RFC 9110, section 5.6.2.
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		if !alnum(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

// headerValue takes a canonical name.
func headerValue(name, v string) string {
	switch {
	case shownHeaders[name]:
		if len(v) > maxHeaderValue {
			return unparsed([]byte(v))
		}
		return Text(v)
	case urlHeaders[name]:
		return URL(v)
	case name == "Cookie":
		return cookies(v)
	case name == "Set-Cookie":
		return setCookie(v)
	case strings.HasSuffix(name, "Authorization"):
		return authorization(v)
	}
	return maskHeader
}

// authorization keeps a scheme that is known, since an unknown first word may be the secret.
func authorization(v string) string {
	if n := afterScheme(v, 0); n > 0 {
		return v[:n] + placeholder
	}
	return placeholder
}

// cookies keeps the names of a Cookie header.
func cookies(v string) string {
	parts := strings.Split(v, ";")
	for i, part := range parts {
		parts[i] = cookie(part)
	}
	return strings.Join(parts, "; ")
}

func cookie(part string) string {
	name, _, ok := strings.Cut(strings.TrimSpace(part), "=")
	if !ok || !token(name) || len(name) > 64 || strings.HasPrefix(name, "eyJ") || Text(name) != name {
		return placeholder
	}
	return name + "=" + placeholder
}

// setCookie keeps the cookie's name and the attributes of RFC 6265, section 4.1.
func setCookie(v string) string {
	parts := strings.Split(v, ";")
	shown := []string{cookie(parts[0])}
	for _, part := range parts[1:] {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(name) {
		case "path", "domain", "expires", "max-age", "secure", "httponly", "samesite", "partitioned":
			shown = append(shown, Text(strings.TrimSpace(part)))
		}
	}
	return strings.Join(shown, "; ")
}
