package interop

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// dialGRPC returns a client whose calls go through the sidecar.
func (w *world) dialGRPC(t *testing.T, s *sidecar, host, port string) *grpc.ClientConn {
	t.Helper()
	return newGRPCClient(t, "passthrough:///"+address(host, port), w.trusted(host),
		grpc.WithContextDialer(func(_ context.Context, to string) (net.Conn, error) { return s.connect(to) }))
}

// wantGRPC makes a call and compares what grpc-go makes of its refusal.
func wantGRPC(t *testing.T, cc *grpc.ClientConn, ctx context.Context, method string, code codes.Code, denial string) {
	t.Helper()
	var trailer metadata.MD
	err := cc.Invoke(ctx, method, &testgrpc.Empty{}, &testgrpc.Empty{}, grpc.Trailer(&trailer))
	st := status.Convert(err)
	if st.Code() != code || !strings.HasPrefix(st.Message(), denial+": ") || strings.Join(trailer["toolgate-denial"], "") != denial {
		t.Errorf("%v: %v %q, trailer %v", method, st.Code(), st.Message(), trailer)
	}
}

const emptyCall = "/grpc.testing.TestService/EmptyCall"

// TestGRPCDenials: a stock client is told the status that belongs to each refusal, with its code.
func TestGRPCDenials(t *testing.T) {
	w := newWorld(t)
	port := w.serveGRPC(t)
	gone := w.listen(t)
	_ = gone.Close()
	s := w.start(t)
	ctx := t.Context()
	wantGRPC(t, w.dialGRPC(t, s, ruledHost, port), ctx, "/other.Service/Call", codes.PermissionDenied, "path_not_allowed")
	named := w.dialGRPC(t, s, namedHost, port)
	bad := metadata.AppendToOutgoingContext(ctx, "toolgate-authorization", "Bearer junk")
	wantGRPC(t, named, bad, emptyCall, codes.Unauthenticated, "unauthenticated")
	wantGRPC(t, w.dialGRPC(t, s, namedHost, w.ports[1]), ctx, emptyCall, codes.Unavailable, "upstream_unreachable")
	// A stream is refused like a call.
	stream, err := testgrpc.NewTestServiceClient(named).FullDuplexCall(bad)
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stream: %v", err)
	}
	if _, err := testgrpc.NewTestServiceClient(named).EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// resetting is an HTTP/2 upstream that resets every stream with one code.
func (w *world) resetting(t *testing.T, code http2.ErrCode) string {
	t.Helper()
	ln := tls.NewListener(w.listen(t), &tls.Config{Certificates: []tls.Certificate{w.pki.leaf}, NextProtos: []string{"h2"}})
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
				f := http2.NewFramer(conn, conn)
				_ = f.WriteSettings()
				for {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					if h, ok := frame.(*http2.HeadersFrame); ok {
						_ = f.WriteRSTStream(h.StreamID, code)
					}
				}
			}()
		}
	}()
	return w.ports[len(w.ports)-1]
}

// TestResetsOfTheUpstreamReachGRPC: net/http's server resets with one code only, but an answer that has not begun can say it.
func TestResetsOfTheUpstreamReachGRPC(t *testing.T) {
	w := newWorld(t)
	resets := []struct {
		reset http2.ErrCode
		want  codes.Code
		port  string
	}{
		{http2.ErrCodeEnhanceYourCalm, codes.ResourceExhausted, ""},
		{http2.ErrCodeCancel, codes.Canceled, ""},
		{http2.ErrCodeInadequateSecurity, codes.PermissionDenied, ""},
		{http2.ErrCodeInternal, codes.Internal, ""},
	}
	for i := range resets {
		resets[i].port = w.resetting(t, resets[i].reset)
	}
	s := w.start(t)
	for _, c := range resets {
		wantGRPC(t, w.dialGRPC(t, s, namedHost, c.port), t.Context(), emptyCall, c.want, "upstream_protocol")
	}
}
