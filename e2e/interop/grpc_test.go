package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// grpcCase is one case of https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md.
type grpcCase struct {
	name        string
	least, most int // how many calls it makes; a call that ends at once may never leave the client
	run         func(ctx context.Context, tc testgrpc.TestServiceClient, args ...grpc.CallOption)
}

var grpcCases = []grpcCase{
	{"empty_unary", 1, 1, interop.DoEmptyUnaryCall},
	{"large_unary", 1, 1, interop.DoLargeUnaryCall},
	{"client_streaming", 1, 1, interop.DoClientStreaming},
	{"server_streaming", 1, 1, interop.DoServerStreaming},
	{"ping_pong", 1, 1, interop.DoPingPong},
	{"empty_stream", 1, 1, interop.DoEmptyStream},
	{"timeout_on_sleeping_server", 0, 6, interop.DoTimeoutOnSleepingServer},
	{"cancel_after_begin", 0, 1, interop.DoCancelAfterBegin},
	{"cancel_after_first_response", 1, 1, interop.DoCancelAfterFirstResponse},
	{"custom_metadata", 2, 2, interop.DoCustomMetadata},
	{"status_code_and_message", 2, 2, interop.DoStatusCodeAndMessage},
	{"special_status_message", 1, 1, interop.DoSpecialStatusMessage},
}

// fatal turns the suite's way of failing, which ends the process, into a panic that the case recovers.
type fatal struct{ grpclog.LoggerV2 }

func (fatal) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (fatal) Fatalln(args ...any)               { panic(fmt.Sprintln(args...)) }
func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// allGRPC returns the cases together with those that need the connection itself.
func allGRPC(cc *grpc.ClientConn) []grpcCase {
	return append(grpcCases[:len(grpcCases):len(grpcCases)],
		grpcCase{"unimplemented_method", 1, 1, func(ctx context.Context, _ testgrpc.TestServiceClient, _ ...grpc.CallOption) {
			interop.DoUnimplementedMethod(ctx, cc)
		}},
		grpcCase{"unimplemented_service", 1, 1, func(ctx context.Context, _ testgrpc.TestServiceClient, _ ...grpc.CallOption) {
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
		}})
}

func (c grpcCase) do(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	said := c.try(t.Context(), cc)
	for range 5 {
		// This case is a race. Client and server have one deadline of 1 ms; when the server's comes first it resets the call, and
		// the client is told what the reset says.
		if c.name != "timeout_on_sleeping_server" || said == nil || !strings.Contains(fmt.Sprint(said), "upstream_protocol") {
			break
		}
		said = c.try(t.Context(), cc)
	}
	if said != nil {
		t.Errorf("the suite says: %v", said)
	}
}

// try returns what the suite says if it fails.
func (c grpcCase) try(ctx context.Context, cc *grpc.ClientConn) (said any) {
	defer func() { said = recover() }()
	c.run(ctx, testgrpc.NewTestServiceClient(cc))
	return nil
}

func newGRPCClient(t *testing.T, to, caFile string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots(t, caFile), "")))
	cc := must[*grpc.ClientConn](t)(grpc.NewClient(to, opts...))
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// serveGRPC starts the suite's own server and returns its port.
func (w *world) serveGRPC(t *testing.T) string {
	t.Helper()
	srv := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&w.pki.leaf)))
	testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
	ln := w.listen(t)
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return w.ports[len(w.ports)-1]
}

func TestGRPC(t *testing.T) {
	w := newWorld(t)
	port := w.serveGRPC(t)
	s := w.start(t)
	for _, host := range allHosts {
		t.Run(host, func(t *testing.T) {
			cc := newGRPCClient(t, "passthrough:///"+address(host, port), w.trusted(host),
				grpc.WithContextDialer(func(_ context.Context, to string) (net.Conn, error) { return s.connect(to) }))
			for _, c := range allGRPC(cc) {
				t.Run(c.name, func(t *testing.T) { c.do(t, cc) })
			}
			_ = cc.Close() // ends the tunnel, which is recorded only then
			checkGRPCRecords(t, s, host, allGRPC(cc))
		})
	}
}

// checkGRPCRecords: one record for each call where the sidecar sees calls, else one for the tunnel.
func checkGRPCRecords(t *testing.T, s *sidecar, host string, cases []grpcCase) {
	t.Helper()
	if host == plainHost {
		got := s.awaitRecords(t, host, 1)
		if len(got) != 1 || got[0].Kind != "tunnel" || got[0].Intercepted || got[0].BytesIn < 300_000 {
			t.Errorf("records of a tunnel: %+v", got)
		}
		return
	}
	least, most := 0, 0
	for _, c := range cases {
		least, most = least+c.least, most+c.most
	}
	got := s.awaitRecords(t, host, least)
	if len(got) > most {
		t.Errorf("%d records, want at most %d", len(got), most)
	}
	ended := 0
	for _, r := range got {
		if !r.fine(host) {
			ended++
			// A client that cancels is not denied. Past the deadline the server resets the call, if it is first.
			if r.Decision != "allow" || r.ErrorClass != "client_gone" && r.ErrorClass != "upstream_protocol" {
				t.Errorf("record %+v", r)
			}
		}
	}
	if ended > 8 {
		t.Errorf("%d records of calls that ended early, but 3 cases do that, one of them up to 6 times", ended)
	}
}

// fine reports whether the record is that of a call that went well. gRPC tells failures in trailers, so each is a 200.
func (r record) fine(host string) bool {
	return r.Kind == "request" && r.Decision == "allow" && r.Code == "" && r.ErrorClass == "" && r.Status == 200 && r.Intercepted &&
		(host == ruledHost) == strings.HasPrefix(r.Path, "/grpc.testing.") && (host == boundHost) == (r.CredentialBinding == "static")
}

const grpcTarget, grpcCA = "INTEROP_GRPC_TARGET", "INTEROP_GRPC_CA"

// TestGRPCByEnvironment is a client that knows of no proxy but what HTTPS_PROXY says. grpc-go reads that once in a process, so
// it is a process of its own: this test once more, with a target in its environment.
func TestGRPCByEnvironment(t *testing.T) {
	if to := os.Getenv(grpcTarget); to != "" {
		cc := newGRPCClient(t, "dns:///"+to, os.Getenv(grpcCA))
		for _, c := range allGRPC(cc) {
			t.Run(c.name, func(t *testing.T) { c.do(t, cc) })
		}
		return
	}
	w := newWorld(t)
	port := w.serveGRPC(t)
	s := w.start(t)
	for _, host := range []string{boundHost, plainHost} {
		child := exec.Command(os.Args[0], "-test.run=^TestGRPCByEnvironment$", "-test.v")
		child.Env = append(os.Environ(), "HTTPS_PROXY="+s.proxyURL().String(), "NO_PROXY=",
			grpcTarget+"="+address(host, port), grpcCA+"="+w.trusted(host))
		out, err := child.CombinedOutput()
		if err != nil || strings.Count(string(out), "--- PASS") != len(allGRPC(nil))+1 {
			t.Errorf("%s: %v\n%s", host, err, out)
		}
		checkGRPCRecords(t, s, host, allGRPC(nil))
	}
}
