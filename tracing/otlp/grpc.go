package otlp

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The statuses of gRPC after which OTLP allows to send again (OTLP specification, section "OTLP/gRPC Response"). RESOURCE_EXHAUSTED is not
// among them: it counts only with a delay in its details, which are not read here.
const (
	statusCancelled   = 1
	statusDeadline    = 4
	statusAborted     = 10
	statusOutOfRange  = 11
	statusUnavailable = 14
	statusDataLoss    = 15
)

// exportGRPC is one unary call (gRPC over HTTP/2): a message with its length before it, the status in the trailer.
func (c *Client) exportGRPC(ctx context.Context, s Signal, headers http.Header, message []byte) (int64, error) {
	framed := make([]byte, 5, 5+len(message)) // not compressed, and its length
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	framed = append(framed, message...)
	headers.Set("Te", "trailers")
	if end, ok := ctx.Deadline(); ok {
		headers.Set("Grpc-Timeout", strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10)+"m")
	}
	res, err := c.post(ctx, s.Method, "application/grpc", headers, strings.NewReader(string(framed)))
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/grpc") {
		again := res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusBadGateway && res.StatusCode <= http.StatusGatewayTimeout
		return 0, &Error{Reason: "status", Status: res.StatusCode, Again: again}
	}
	if err != nil {
		return 0, &Error{Reason: "answer", Again: true, Cause: err} // no status came: UNAVAILABLE
	}
	text := res.Trailer.Get("Grpc-Status")
	if text == "" {
		text = res.Header.Get("Grpc-Status") // of an answer without a message
	}
	status, err := strconv.Atoi(text)
	if err != nil {
		return 0, &Error{Reason: "answer", Cause: err}
	}
	switch status {
	case 0:
	case statusCancelled, statusDeadline, statusAborted, statusOutOfRange, statusUnavailable, statusDataLoss:
		return 0, &Error{Reason: "status", Status: status, Again: true}
	default:
		return 0, &Error{Reason: "status", Status: status}
	}
	if len(answer) < 5 || answer[0] != 0 || uint64(binary.BigEndian.Uint32(answer[1:])) != uint64(len(answer)-5) {
		return 0, &Error{Reason: "answer"}
	}
	return rejectedOf(answer[5:])
}
