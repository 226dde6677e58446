package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
)

// grpcCode is a status code of gRPC (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md).
type grpcCode int

const (
	grpcCancelled          grpcCode = 1
	grpcInvalidArgument    grpcCode = 3
	grpcDeadlineExceeded   grpcCode = 4
	grpcPermissionDenied   grpcCode = 7
	grpcResourceExhausted  grpcCode = 8
	grpcFailedPrecondition grpcCode = 9
	grpcInternal           grpcCode = 13
	grpcUnavailable        grpcCode = 14
	grpcUnauthenticated    grpcCode = 16
)

// isGRPC reports whether a client expects gRPC's form of an answer: HTTP/2, POST and the content type (gRPC over HTTP2, "Requests").
// gRPC-Web is another protocol, and is answered in HTTP's form.
func isGRPC(r *http.Request) bool {
	if r.ProtoMajor != 2 || r.Method != http.MethodPost {
		return false
	}
	rest, ok := strings.CutPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// grpc is what the refusal is to a client of gRPC. UNAVAILABLE and RESOURCE_EXHAUSTED are what clients retry, so they stand for
// nothing that a retry cannot cure but a header that is too large, which gRPC itself tells so.
func (d *Denial) grpc() grpcCode {
	m := d.meaning()
	var stream http2.StreamError
	switch {
	case errors.As(d.Cause, &stream):
		return grpcOfReset(stream.Code)
	case d.Code == Overloaded || m.status == http.StatusTooManyRequests || d.Code == HeaderTooLarge:
		return grpcResourceExhausted
	case m.retry > 0:
		return grpcUnavailable
	case m.status == http.StatusProxyAuthRequired:
		return grpcUnauthenticated
	case m.status == http.StatusForbidden:
		return grpcPermissionDenied
	case m.status == http.StatusGatewayTimeout:
		return grpcDeadlineExceeded
	case m.status >= http.StatusInternalServerError:
		return grpcFailedPrecondition
	default:
		return grpcInvalidArgument
	}
}

// grpcOfReset is what a stream's reset is to a client of gRPC (gRPC over HTTP2, "Errors").
func grpcOfReset(code http2.ErrCode) grpcCode {
	switch code {
	case http2.ErrCodeRefusedStream:
		return grpcUnavailable
	case http2.ErrCodeCancel:
		return grpcCancelled
	case http2.ErrCodeEnhanceYourCalm:
		return grpcResourceExhausted
	case http2.ErrCodeInadequateSecurity:
		return grpcPermissionDenied
	default:
		return grpcInternal
	}
}

// grpcAnswer returns the refusal of c in gRPC's form: HTTP's 200, and all that is said in the header, which is the trailer as well
// ("Trailers-Only"). The text carries the code and the decision, since there is no problem document.
func (d *Denial) grpcAnswer(c *call) (int, http.Header) {
	_, h, _ := d.answer(c)
	for _, name := range []string{"Content-Length", "Proxy-Authenticate", "Cache-Control"} {
		delete(h, name)
	}
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{strconv.Itoa(int(d.grpc()))}
	h["Grpc-Message"] = []string{grpcMessage(fmt.Sprintf("%s: %s (decision %s)", d.Code, d.Detail, c.rec.ID))}
	return http.StatusOK, h
}

// grpcMessage is text in the percent-encoding of grpc-message.
func grpcMessage(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if ch := text[i]; ch < ' ' || ch > '~' || ch == '%' {
			fmt.Fprintf(&b, "%%%02X", ch)
		} else {
			b.WriteByte(ch)
		}
	}
	return b.String()
}
