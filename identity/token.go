package identity

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// rawToken is a token that was taken apart and not yet verified. Nothing in it may be trusted.
type rawToken struct {
	signed        string // header and payload as they were signed (RFC 7515, section 5.2)
	signature     []byte
	payload       []byte
	alg, kid, typ string
	iss           string
	claims        object // aliases payload
}

// strict refuses the unused bits that let one signature be spelt in several ways.
var strict = base64.RawURLEncoding.Strict()

// parseToken takes a compact JWS (RFC 7515) apart. It reads neither jku, x5u, jwk nor x5c: a token does not say where
// its key comes from.
func parseToken(token string) (*rawToken, error) {
	protected, rest, ok1 := strings.Cut(token, ".")
	payload, signature, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 {
		return nil, invalid("malformed")
	}
	t := &rawToken{signed: token[:len(protected)+1+len(payload)]}
	if err := t.readHeader(protected); err != nil {
		return nil, err
	}
	var ok bool
	if t.payload, ok = decode(payload); !ok {
		return nil, invalid("malformed")
	}
	// An empty signature is let through to be refused for its algorithm.
	if t.signature, ok = decode(signature); !ok && signature != "" {
		return nil, invalid("malformed")
	}
	claims, err := parseObject(t.payload)
	switch {
	case errors.Is(err, errDuplicate):
		return nil, invalid("claim")
	case err != nil:
		return nil, invalid("malformed")
	}
	t.claims = claims
	if t.iss, ok = asString(claims["iss"]); !ok || t.iss == "" {
		return nil, invalid("issuer")
	}
	return t, nil
}

// decode is strict base64url of at least one byte. encoding/base64 skips CR and LF, so these are looked for first.
func decode(s string) ([]byte, bool) {
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	b, err := strict.DecodeString(s)
	return b, err == nil
}

func (t *rawToken) readHeader(protected string) error {
	raw, ok := decode(protected)
	if !ok {
		return invalid("malformed")
	}
	header, err := parseObject(raw)
	if err != nil {
		return invalid("malformed")
	}
	// Of crit (RFC 7515, section 4.1.11) we understand no extension; b64 (RFC 7797) changes what is signed.
	if header["crit"] != nil || header["b64"] != nil {
		return invalid("malformed")
	}
	for _, field := range []struct {
		name string
		to   *string
	}{{"alg", &t.alg}, {"kid", &t.kid}, {"typ", &t.typ}} {
		value := header[field.name]
		if value == nil {
			continue
		}
		if *field.to, ok = asString(value); !ok {
			return invalid("malformed")
		}
	}
	t.typ = normalType(t.typ)
	return nil
}

// asString reads a JSON string that was parsed, and so is whole and valid.
func asString(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}
