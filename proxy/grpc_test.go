package proxy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

var grpcNames = map[grpcCode]string{
	grpcCancelled: "CANCELLED", grpcInvalidArgument: "INVALID_ARGUMENT", grpcDeadlineExceeded: "DEADLINE_EXCEEDED",
	grpcPermissionDenied: "PERMISSION_DENIED", grpcResourceExhausted: "RESOURCE_EXHAUSTED", grpcFailedPrecondition: "FAILED_PRECONDITION",
	grpcInternal: "INTERNAL", grpcUnavailable: "UNAVAILABLE", grpcUnauthenticated: "UNAUTHENTICATED",
}

// TestGRPCCodesInviteRetriesOnlyWhereTheyHelp, for every code that there is.
func TestGRPCCodesInviteRetriesOnlyWhereTheyHelp(t *testing.T) {
	for code, m := range meanings {
		got := deny(code, "", nil).grpc()
		retried := got == grpcUnavailable || got == grpcResourceExhausted && code != HeaderTooLarge
		if grpcNames[got] == "" || retried != (m.retry > 0) || (got == grpcPermissionDenied) != (m.status == 403) {
			t.Errorf("%s, %d, retry %v: %s", code, m.status, m.retry, grpcNames[got])
		}
	}
	for reset, want := range map[http2.ErrCode]grpcCode{
		http2.ErrCodeRefusedStream: grpcUnavailable, http2.ErrCodeCancel: grpcCancelled,
		http2.ErrCodeEnhanceYourCalm: grpcResourceExhausted, http2.ErrCodeInadequateSecurity: grpcPermissionDenied,
		http2.ErrCodeInternal: grpcInternal, http2.ErrCodeProtocol: grpcInternal, http2.ErrCodeNo: grpcInternal,
	} {
		if got := deny(UpstreamProtocol, "", errors.Join(http2.StreamError{Code: reset})).grpc(); got != want {
			t.Errorf("%v: %s", reset, grpcNames[got])
		}
	}
}

// TestRefusalsInGRPCsForm go to clients of gRPC and to no others.
func TestRefusalsInGRPCsForm(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		h2                  bool
		method, contentType string
		grpc                bool
	}{
		{true, "POST", "application/grpc", true},
		{true, "POST", "application/grpc+proto", true},
		{true, "POST", "Application/gRPC; x=y", true},
		{true, "POST", "application/grpc-web", false},
		{true, "POST", "application/grpcfoo", false},
		{true, "POST", "application/json", false},
		{true, "GET", "application/grpc", false},
		{false, "POST", "application/grpc", false},
	} {
		req, _ := http.NewRequest(c.method, l.url("https", "ruled.ok.test", "/elsewhere"), strings.NewReader("\x00\x00\x00\x00\x00"))
		req.Header.Set("Content-Type", c.contentType)
		res, err := l.client(l.token, c.h2).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := res.Body.Read(make([]byte, 1))
		_ = res.Body.Close()
		rec, status, h := l.next(), 403, res.Header
		if c.grpc {
			status = 200
			message := "path_not_allowed: The manifest of t1 does not allow this path on ruled.ok.test. (decision " + rec.str("id") + ")"
			if h.Get("Grpc-Status") != "7" || h.Get("Grpc-Message") != message || n != 0 || h.Get("Content-Type") != "application/grpc" {
				t.Errorf("%+v: %v, %d bytes", c, h, n)
			}
		} else if h.Get("Grpc-Status") != "" || n == 0 {
			t.Errorf("%+v: %v, %d bytes", c, h, n)
		}
		if res.StatusCode != status || rec["status"] != float64(status) || h.Get("Toolgate-Denial") != "path_not_allowed" || rec.str("code") != "path_not_allowed" || rec.str("decision") != "deny" {
			t.Errorf("%+v: %d %v, record %v", c, res.StatusCode, h, rec)
		}
	}
}

func TestGRPCMessageIsPercentEncoded(t *testing.T) {
	if got := grpcMessage("a b%é\r\n~\x7f"); got != "a b%25%C3%A9%0D%0A~%7F" {
		t.Error(got)
	}
}
