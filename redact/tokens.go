package redact

import (
	"encoding/base64"
	"strings"
)

// minEncoded is the length from which a word that begins like base64 of `{"` is masked though it has no dot.
const minEncoded = 16

// tokens masks bearer and basic credentials and JWTs.
func (p *pass) tokens(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); i++ {
		var start, end int
		switch s[i] {
		case 'e':
			start, end = jwt(s, i)
			if p.body && i > 0 && base64Byte(s[i-1]) {
				end = start // the middle of another token, which is masked as a whole or not at all
			}
		case 'b', 'B':
			start, end = schemed(s, i)
		}
		if end > start {
			b.WriteString(s[done:start])
			b.WriteString(p.put(maskCredential, s[start:end]))
			done, i = end, end-1
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// jwt finds "eyJ….….…" at i, and JWEs, cut and unsigned ones, which all begin with base64url of `{"`.
func jwt(s string, i int) (start, end int) {
	if !strings.HasPrefix(s[i:], "eyJ") {
		return 0, 0
	}
	end, dots := i, 0
	for end < len(s) && (base64Byte(s[end]) || s[end] == '.' || s[end] == '=') {
		if s[end] == '.' {
			dots++
		}
		end++
	}
	if dots == 0 && end-i < minEncoded {
		return 0, 0
	}
	return i, end
}

// schemed finds the value after "Bearer" or "Basic" at i.
func schemed(s string, i int) (start, end int) {
	var scheme string
	switch {
	case hasPrefixFold(s[i:], "bearer"):
		scheme = s[i : i+6]
	case hasPrefixFold(s[i:], "basic"):
		scheme = s[i : i+5]
	default:
		return 0, 0
	}
	if i > 0 && alnum(s[i-1]) {
		return 0, 0
	}
	start = i + len(scheme)
	for start < len(s) && strings.IndexByte(" \t:=+", s[start]) >= 0 {
		start++
	}
	// "%20" is a space in a URL or form.
	for strings.HasPrefix(s[start:], "%20") {
		start += 3
	}
	if start == i+len(scheme) {
		return 0, 0
	}
	end = start
	for end < len(s) && (base64Byte(s[end]) || strings.IndexByte(".~=%", s[end]) >= 0) {
		end++
	}
	value := s[start:end]
	if value == "" || len(value) > 8 && strings.Trim(value, value[:1]) == "" || schemeWords[strings.ToLower(value)] || strings.HasSuffix(value, "=") && end < len(s) && s[end] == '"' {
		return 0, 0
	}
	// "basic" is also an English word.
	if scheme == "basic" && !userAndPassword(value) {
		return 0, 0
	}
	return start, end
}

// schemeWords follow "Bearer" and "Basic" where people write about them.
var schemeWords = map[string]bool{
	"auth": true, "authentication": true, "authorization": true, "credential": true, "credentials": true, "error": true,
	"realm": true, "scheme": true, "scope": true, "token": true, "tokens": true,
}

// userAndPassword reports whether the value is base64 of "user:password" (RFC 7617).
func userAndPassword(value string) bool {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
	return err == nil && strings.ContainsRune(string(b), ':')
}
