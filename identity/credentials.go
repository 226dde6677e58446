package identity

import (
	"encoding/base64"
	"strings"
)

// maxHeader is the longest header value in bytes that is looked at: the longest token, in base64, with a user name.
const maxHeader = 24 << 10

// FromProxyAuthorization reads a Proxy-Authorization value: "Bearer TOKEN" (RFC 6750), or "Basic base64(user:TOKEN)" (RFC 7617), whose
// user is returned. An empty password is no token: a client that need not say who it is may still name its tool. ok is false when
// the value is neither form, and above 24 KiB. The value is never part of an error.
func FromProxyAuthorization(value string) (user, token string, ok bool) {
	scheme, rest, ok := splitScheme(value)
	if !ok {
		return "", "", false
	}
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return "", rest, isToken(rest)
	case strings.EqualFold(scheme, "Basic"):
		return fromBasic(rest)
	}
	return "", "", false
}

func fromBasic(encoded string) (user, token string, ok bool) {
	if strings.ContainsAny(encoded, "\r\n") { // which encoding/base64 skips
		return "", "", false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	user, token, ok = strings.Cut(string(raw), ":")
	if !ok || !isPlain(user) || token != "" && !isToken(token) {
		return "", "", false
	}
	return user, token, true
}

// FromBearer reads the value of Toolgate-Authorization: "Bearer TOKEN", or the bare token. ok is false for anything else,
// for an empty token, and above 24 KiB.
func FromBearer(value string) (token string, ok bool) {
	scheme, rest, split := splitScheme(value)
	switch {
	case split && strings.EqualFold(scheme, "Bearer"):
		token = rest
	case !split && !strings.EqualFold(value, "Bearer"):
		token = value
	}
	if len(value) > maxHeader || !isToken(token) {
		return "", false
	}
	return token, true
}

// splitScheme cuts "scheme 1*SP rest" (RFC 9110, section 11.4).
func splitScheme(value string) (scheme, rest string, ok bool) {
	if len(value) > maxHeader {
		return "", "", false
	}
	scheme, rest, ok = strings.Cut(value, " ")
	return scheme, strings.TrimLeft(rest, " "), ok
}

// isToken checks the b64token of RFC 6750, section 2.1.
func isToken(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" {
		return false
	}
	for i := range len(body) {
		c := body[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/':
		default:
			return false
		}
	}
	return true
}
