package broker

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// maxReplaced is the largest body in which placeholders are replaced.
const maxReplaced = 1 << 20

// replacing puts secrets in the places of placeholders.
type replacing struct{ list []replacement }

type replacement struct {
	text     string
	value    redact.Secret
	surfaces []Surface
}

func (r *replacement) on(kind surfaceKind, name string) bool {
	for _, s := range r.surfaces {
		if s.kind == kind && s.name == name {
			return true
		}
	}
	return false
}

// body asks for the body only where something in it may have to be replaced; others are streamed.
func (p *replacing) body(*http.Request) int64 {
	for i := range p.list {
		for _, s := range p.list[i].surfaces {
			if s.kind == inJSONSurface {
				return maxReplaced
			}
		}
	}
	return 0
}

// place replaces, and refuses what it then still finds.
func (p *replacing) place(out *http.Request, body []byte) ([]byte, Reason) {
	if out.URL == nil {
		return nil, Internal
	}
	reason := p.replacePath(out.URL)
	if reason == "" {
		reason = p.replaceQuery(out.URL)
	}
	if reason == "" {
		reason = p.replaceHeader(out.Header)
	}
	if reason == "" && p.inHeader(out.Trailer) {
		reason = PlaceholderLeft
	}
	if reason == "" && p.body(out) > 0 && len(body) > 0 {
		body, reason = p.replaceBody(out.Header, body)
	}
	if reason != "" {
		return nil, reason
	}
	return body, ""
}

// in reports whether s holds a placeholder.
func (p *replacing) in(s string) bool {
	for i := range p.list {
		if strings.Contains(s, p.list[i].text) {
			return true
		}
	}
	return false
}

// inEncoded reports the same of what servers may decode once or twice.
func (p *replacing) inEncoded(s string) bool {
	for range 3 {
		if p.in(s) {
			return true
		}
		decoded := decodePercent(s, false)
		if decoded == s {
			return false
		}
		s = decoded
	}
	return p.in(s)
}

func (p *replacing) replacePath(u *url.URL) Reason {
	path := u.EscapedPath()
	if !p.inEncoded(path) {
		return ""
	}
	for i := range p.list {
		if r := &p.list[i]; r.on(inPathSurface, "") {
			path = strings.ReplaceAll(path, r.text, url.PathEscape(r.value.Reveal()))
		}
	}
	if p.inEncoded(path) {
		return PlaceholderLeft
	}
	// A value must not choose another path than the one that was decided on.
	for part := range strings.FieldsFuncSeq(decodePercent(path, false), func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return PlaceholderPath
		}
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return PlaceholderPath
	}
	u.Path, u.RawPath = decoded, path
	return ""
}

// replaceQuery replaces in the values of parameters that are named as they are declared, in no other spelling.
func (p *replacing) replaceQuery(u *url.URL) Reason {
	query := u.RawQuery
	if !p.inEncoded(query) {
		return ""
	}
	var b strings.Builder
	for i, pair := range strings.Split(query, "&") {
		if i > 0 {
			b.WriteByte('&')
		}
		name, value, valued := strings.Cut(pair, "=")
		for i := range p.list {
			if r := &p.list[i]; valued && r.on(inQuerySurface, name) {
				value = strings.ReplaceAll(value, r.text, escapeQuery(r.value.Reveal()))
			}
		}
		b.WriteString(name)
		if valued {
			b.WriteByte('=')
			b.WriteString(value)
		}
	}
	if p.inEncoded(b.String()) {
		return PlaceholderLeft
	}
	u.RawQuery = b.String()
	return ""
}

func (p *replacing) replaceHeader(h http.Header) Reason {
	for name, values := range h {
		for at, value := range values {
			if name == "Authorization" {
				value = p.replaceBasic(value)
			}
			for i := range p.list {
				if r := &p.list[i]; r.on(inHeaderSurface, name) {
					value = strings.ReplaceAll(value, r.text, r.value.Reveal())
				}
			}
			if value != values[at] { // the list may be the client's
				values = append([]string(nil), values...)
				values[at] = value
				h[name] = values
			}
		}
	}
	if p.inHeader(h) {
		return PlaceholderLeft
	}
	return ""
}

// replaceBasic replaces in the user and the password of Basic authentication (RFC 7617), which clients send in base64.
func (p *replacing) replaceBasic(value string) string {
	pair, ok := basicPair(value)
	if !ok {
		return value
	}
	user, password, colon := strings.Cut(pair, ":")
	for i := range p.list {
		if r := &p.list[i]; r.on(inBasicSurface, "") {
			secret := r.value.Reveal()
			if strings.Contains(user, r.text) && strings.Contains(secret, ":") {
				return value // the border would move; what is left is refused
			}
			user, password = strings.ReplaceAll(user, r.text, secret), strings.ReplaceAll(password, r.text, secret)
		}
	}
	if colon {
		user += ":" + password
	}
	if user == pair {
		return value
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user))
}

func basicPair(value string) (string, bool) {
	scheme, encoded, ok := strings.Cut(strings.TrimSpace(value), " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return "", false
	}
	encoded = strings.TrimRight(strings.TrimSpace(encoded), "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := enc.DecodeString(encoded); err == nil {
			return string(b), true
		}
	}
	return "", false
}

func (p *replacing) inHeader(h http.Header) bool {
	for name, values := range h {
		if p.inName(name) {
			return true
		}
		for _, v := range values {
			if p.inEncoded(v) {
				return true
			}
			if pair, ok := basicPair(v); ok && p.in(pair) {
				return true
			}
		}
	}
	return false
}

// inName is in for header names, whose case is nobody's.
func (p *replacing) inName(name string) bool {
	for i := range p.list {
		if len(name) >= len(p.list[i].text) && strings.Contains(strings.ToLower(name), strings.ToLower(p.list[i].text)) {
			return true
		}
	}
	return false
}

// replaceBody takes bodies that can be read one way only.
func (p *replacing) replaceBody(h http.Header, body []byte) ([]byte, Reason) {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return nil, PlaceholderBody
		}
	}
	types := h["Content-Type"]
	if len(types) > 1 {
		return nil, PlaceholderBody
	}
	kind := ""
	if len(types) == 1 {
		var err error
		if kind, _, err = mime.ParseMediaType(types[0]); err != nil {
			return nil, PlaceholderBody
		}
	}
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		return nil, PlaceholderBody
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return p.replaceJSON(body)
	case p.inBody(body):
		return nil, PlaceholderLeft
	}
	return body, ""
}

// inBody looks at a body of another type, as it stands and as forms and JSON encode.
func (p *replacing) inBody(body []byte) bool {
	if p.inEncoded(string(body)) {
		return true
	}
	if bytes.IndexByte(body, '\\') < 0 {
		return false
	}
	return p.in(decodeUnicode(string(body)))
}

// decodeUnicode decodes the \u00XX of JSON and leaves the rest.
func decodeUnicode(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+5 < len(s) && s[i+1] == 'u' && s[i+2] == '0' && s[i+3] == '0' && isHex(s[i+4]) && isHex(s[i+5]) {
			b = append(b, fromHex(s[i+4])<<4|fromHex(s[i+5]))
			i += 5
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}
