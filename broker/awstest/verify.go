// Package awstest plays AWS for tests: a verifier of signatures (Signature Version 4) and an STS that gives out keys. It is written from
// AWS's description of the signature and shares no code with the signer, so that the two check each other.
//
// Limits: it knows the paths of S3 and of services like most others, and no chunk-signed bodies. Nothing that it says proves that AWS would
// take a request, but for the vectors that AWS publishes.
//
// It imports nothing of this module. Only tests may import it.
package awstest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Keys are those of one session; a key that is not temporary has no Token.
type Keys struct{ ID, Secret, Token string }

// Signed is what a signature says of itself.
type Signed struct {
	KeyID, Date, Region, Service string
	Headers                      []string // that it covers
	signature                    string
}

const timeFormat = "20060102T150405Z"

// Verify checks a request as AWS does: target is the request line's, body the whole body. Everything that a wrong signature could leave
// unsigned is looked for.
func Verify(r *http.Request, target string, body []byte, keys Keys, now time.Time) (Signed, error) {
	s, err := parse(r.Header["Authorization"])
	if err != nil {
		return s, err
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse(timeFormat, stamp)
	switch {
	case err != nil:
		return s, err
	case now.Sub(at).Abs() > 5*time.Minute:
		return s, errors.New("RequestTimeTooSkewed")
	case s.KeyID != keys.ID || r.Header.Get("X-Amz-Security-Token") != keys.Token:
		return s, errors.New("InvalidClientTokenId")
	case !slices.Contains(s.Headers, "host"):
		return s, errors.New("the host is not signed")
	case !strings.HasPrefix(stamp, s.Date):
		return s, errors.New("the scope is of another day")
	}
	for name, values := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") && (len(values) != 1 || !slices.Contains(s.Headers, lower)) {
			return s, fmt.Errorf("%s is not signed, or there twice", name)
		}
	}
	payload, err := payloadHash(r, s.Service, body)
	if err != nil {
		return s, err
	}
	canonical := canonicalRequest(r, target, s, payload)
	scope := s.Date + "/" + s.Region + "/" + s.Service + "/aws4_request"
	toSign := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + sha(canonical)
	key := []byte("AWS4" + keys.Secret)
	for _, part := range []string{s.Date, s.Region, s.Service, "aws4_request", toSign} {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if hex.EncodeToString(key) != s.signature {
		return s, fmt.Errorf("SignatureDoesNotMatch; the canonical request is\n%s", canonical)
	}
	return s, nil
}

func parse(values []string) (s Signed, err error) {
	if len(values) != 1 {
		return s, fmt.Errorf("%d Authorization headers", len(values))
	}
	rest, ok := strings.CutPrefix(values[0], "AWS4-HMAC-SHA256 Credential=")
	credential, rest, ok2 := strings.Cut(rest, ", SignedHeaders=")
	headers, signature, ok3 := strings.Cut(rest, ", Signature=")
	scope := strings.Split(credential, "/")
	if !ok || !ok2 || !ok3 || len(scope) != 5 || scope[4] != "aws4_request" {
		return s, fmt.Errorf("IncompleteSignature: %q", values[0])
	}
	return Signed{scope[0], scope[1], scope[2], scope[3], strings.Split(headers, ";"), signature}, nil
}

// payloadHash is what stands for the body, which must be the body's hash unless S3 is told otherwise.
func payloadHash(r *http.Request, service string, body []byte) (string, error) {
	stated := r.Header.Get("X-Amz-Content-Sha256")
	switch {
	case service == "s3" && (stated == "UNSIGNED-PAYLOAD" || stated == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"):
		return stated, nil
	case stated == "" && service == "s3":
		return "", errors.New("MissingSecurityHeader")
	case stated != "" && stated != sha(string(body)):
		return "", errors.New("XAmzContentSHA256Mismatch")
	}
	return sha(string(body)), nil
}

func canonicalRequest(r *http.Request, target string, s Signed, payload string) string {
	path, query, _ := strings.Cut(target, "?")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, canonicalPath(path, s.Service), canonicalQuery(query))
	for _, name := range s.Headers {
		values := r.Header.Values(name)
		if name == "host" {
			values = []string{r.Host}
		}
		var clean []string
		for _, v := range values {
			clean = append(clean, strings.Join(strings.FieldsFunc(v, func(c rune) bool { return c == ' ' }), " "))
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(clean, ","))
	}
	fmt.Fprintf(&b, "\n%s\n%s", strings.Join(s.Headers, ";"), payload)
	return b.String()
}

// canonicalPath: S3 compares what it has decoded; others take out steps and encode what they got once more.
func canonicalPath(path, service string) string {
	if service == "s3" {
		return encode(decode(path), "/")
	}
	var out []string
	steps := strings.Split(path, "/")
	for _, step := range steps {
		switch {
		case step == ".." && len(out) > 0:
			out = out[:len(out)-1]
		case step != "" && step != "." && step != "..":
			out = append(out, step)
		}
	}
	clean := "/" + strings.Join(out, "/")
	if len(out) > 0 && steps[len(steps)-1] == "" {
		clean += "/"
	}
	return encode(clean, "/")
}

func canonicalQuery(query string) string {
	var list [][]string
	for _, pair := range strings.Split(strings.ReplaceAll(query, "+", " "), "&") {
		if name, value, _ := strings.Cut(pair, "="); pair != "" {
			list = append(list, []string{encode(decode(name), ""), encode(decode(value), "")})
		}
	}
	slices.SortFunc(list, slices.Compare)
	var out []string
	for _, pair := range list {
		out = append(out, strings.Join(pair, "="))
	}
	return strings.Join(out, "&")
}

func decode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func encode(s, keep string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~"+keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
