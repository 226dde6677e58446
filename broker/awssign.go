package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	amzContent = "X-Amz-Content-Sha256"
	amzDate    = "X-Amz-Date"
	amzToken   = "X-Amz-Security-Token"

	unsignedPayload = "UNSIGNED-PAYLOAD"
	unsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	emptyPayload    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// signing says what a binding signs.
type signing struct {
	services, regions []string
	unsigned          bool
	maxBody           int64
}

// resigned is a session that signs requests which the tool has signed with keys of no worth.
type resigned struct {
	signing
	keys   sessionKeys
	signer *v4.Signer
	now    func() time.Time
}

// body asks for all of it, since its hash is signed, unless the request is refused anyway or its body is not signed at all.
func (p *resigned) body(out *http.Request) int64 {
	_, payload, reason := p.judge(out)
	switch {
	case reason != "" || payload != "":
		return 0
	case 0 < out.ContentLength && out.ContentLength < p.maxBody: // no more than that counts against the memory for bodies
		return out.ContentLength
	}
	return p.maxBody
}

// place takes off the tool's signature and what belongs to it, and signs anew, at the sidecar's time.
func (p *resigned) place(out *http.Request, body []byte) ([]byte, Reason) {
	scope, payload, reason := p.judge(out)
	if reason != "" {
		return nil, reason
	}
	if payload == "" {
		if payload = emptyPayload; len(body) > 0 {
			sum := sha256.Sum256(body)
			payload = hex.EncodeToString(sum[:])
		}
	}
	stated := len(folded(out.Header, amzContent)) > 0 || isS3(scope.service)
	for _, name := range []string{"Authorization", amzToken, amzDate, "Date", amzContent} {
		removeFolded(out.Header, name)
		removeFolded(out.Trailer, name)
	}
	if stated {
		out.Header[amzContent] = []string{payload}
	}
	signed := p.shadow(out, scope)
	err := p.signer.SignHTTP(context.Background(), p.keys.reveal(), signed, payload, scope.service, scope.region, p.now().UTC(),
		func(o *v4.SignerOptions) { o.DisableURIPathEscaping = isS3(scope.service) })
	if err != nil {
		return nil, Internal
	}
	for _, name := range []string{"Authorization", amzToken, amzDate} {
		out.Header[name] = signed.Header[name]
	}
	return body, ""
}

// judge returns for what the tool signed, and what stands for the hash of a body that is not signed. It refuses what this binding does
// not sign.
func (p *resigned) judge(out *http.Request) (scope awsScope, payload string, r Reason) {
	if holdsCredential(out.URL, amzQuery) {
		return scope, "", Presigned
	}
	scope, ok := parseScope(folded(out.Header, "Authorization"))
	stated := folded(out.Header, amzContent)
	switch {
	case !ok || len(stated) > 1:
		return scope, "", NotSigned
	case !slices.Contains(p.services, scope.service):
		return scope, "", WrongService
	case !slices.Contains(p.regions, scope.region):
		return scope, "", WrongRegion
	case !fitsHost(out.URL.Hostname(), scope.service, scope.region):
		return scope, "", WrongHost
	}
	if len(stated) == 0 {
		return scope, "", ""
	}
	switch payload = stated[0]; {
	case (payload == unsignedPayload || payload == unsignedTrailer) && p.unsigned && isS3(scope.service):
		return scope, payload, ""
	case payload == unsignedTrailer: // in pieces, whose frame no hash may cover
		return scope, "", UnsignedPayload
	case strings.HasPrefix(payload, "STREAMING-"):
		return scope, "", ChunkSigned
	}
	return scope, "", "" // whatever it says, the hash is computed
}

// shadow returns a request with what is to be signed and nothing else: what the tool signed, and what AWS wants signed. What a
// connection or a proxy may change stays out.
func (p *resigned) shadow(out *http.Request, scope awsScope) *http.Request {
	u := *out.URL
	// S3 reads the path and escapes it anew, and its keys may hold what looks like steps. Others escape what they got once more,
	// which the signer does.
	if isS3(scope.service) {
		u.RawPath = escapePath(u.Path)
	} else {
		u.RawPath = normalised(u.EscapedPath())
		u.Path, _ = url.PathUnescape(u.RawPath)
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, ";", "%3B") // net/url would leave out a parameter that has one
	h := make(http.Header)
	for name, values := range out.Header {
		lower := strings.ToLower(name)
		if mustSign(lower) || slices.Contains(scope.signed, lower) && maySign(lower) {
			h[name] = slices.Clone(values)
		}
	}
	return &http.Request{Method: out.Method, URL: &u, Host: out.Host, Header: h}
}

func mustSign(lower string) bool {
	return strings.HasPrefix(lower, "x-amz-") || lower == "content-type" || lower == "content-md5"
}

func maySign(lower string) bool {
	switch lower {
	case "host", "connection", "te", "trailer", "transfer-encoding", "content-length", "expect", "user-agent", "accept-encoding":
		return false
	}
	return true
}

// awsScope is for what a request is signed, and which headers its signature covers.
type awsScope struct {
	service, region string
	signed          []string // lower case
}

// parseScope reads the one Authorization header of a request. Keys, date and signature are of no interest.
func parseScope(values []string) (awsScope, bool) {
	if len(values) != 1 {
		return awsScope{}, false
	}
	rest, ok := strings.CutPrefix(values[0], "AWS4-HMAC-SHA256 ")
	if !ok {
		return awsScope{}, false
	}
	parts := make(map[string]string, 3)
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; twice || value == "" {
			return awsScope{}, false
		}
		parts[name] = value
	}
	if len(parts) != 3 || parts["SignedHeaders"] == "" || parts["Signature"] == "" {
		return awsScope{}, false
	}
	scope := strings.Split(parts["Credential"], "/")
	n := len(scope)
	if n < 5 || scope[n-1] != "aws4_request" || !isLabel(scope[n-2]) || !isLabel(scope[n-3]) {
		return awsScope{}, false
	}
	return awsScope{scope[n-2], scope[n-3], strings.Split(strings.ToLower(parts["SignedHeaders"]), ";")}, true
}

// isS3 reports whether a service takes paths as they are, and bodies that are not signed.
func isS3(service string) bool {
	return service == "s3" || service == "s3-object-lambda" || service == "s3-outposts"
}

// folded returns the values of a header in all its spellings.
func folded(h http.Header, name string) (values []string) {
	for k, v := range h {
		if foldsTo(k, name) {
			values = append(values, v...)
		}
	}
	return values
}

// escapePath escapes all but what is unreserved (RFC 3986, section 2.3) and the slash.
func escapePath(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if isUnreserved(c) || c == '/' {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789ABCDEF"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("-._~", c) >= 0
}

// normalised takes out empty steps, "." and ".." (RFC 3986, section 5.2.4), which services but S3 do before they compare.
func normalised(path string) string {
	var steps []string
	for step := range strings.SplitSeq(path, "/") {
		switch step {
		case "", ".":
		case "..":
			steps = steps[:max(len(steps)-1, 0)]
		default:
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return "/"
	}
	clean := "/" + strings.Join(steps, "/")
	if strings.HasSuffix(path, "/") {
		clean += "/"
	}
	return clean
}
