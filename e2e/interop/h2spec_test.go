package interop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// TestH2Spec runs every case against net/http directly and against the sidecar in front of it. What net/http passes, the
// sidecar must pass; what net/http fails is listed in the log.
func TestH2Spec(t *testing.T) {
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(rw, "an answer of some length")
	}), true)
	s := w.start(t)
	splice(t, s, address(namedHost, port), "127.0.0.2:"+port)
	resolveTo(t, [4]byte{127, 0, 0, 2})
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	conf := func(host string) *config.Config {
		return &config.Config{Host: host, Port: number, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true, TLS: true, Insecure: true}
	}
	plain, through := conf("127.0.0.1"), conf(namedHost)
	cases := h2Cases(generic.Spec(), http2.Spec(), hpack.Spec())
	if len(cases) < 140 {
		t.Errorf("the suite has %d cases, want at least 140", len(cases))
	}
	t.Cleanup(func() { checkH2Records(t, s) }) // once the parallel cases are done
	for _, c := range cases {
		t.Run(c.Parent.ID()+" "+c.Desc, func(t *testing.T) {
			t.Parallel()
			want, got := h2Run(c, plain), h2Run(c, through)
			if got != nil && want == nil {
				got = h2Run(c, through) // its waits are short
			}
			switch {
			case errors.Is(want, spec.ErrSkipped):
				t.Skip("net/http: skipped")
			case want != nil && got != nil:
				t.Skipf("net/http fails as well: %v", want)
			case got != nil:
				t.Errorf("net/http passes, the sidecar fails: %v", got)
			}
		})
	}
}

// checkH2Records: the cases that make good requests have reached the upstream.
func checkH2Records(t *testing.T, s *sidecar) {
	t.Helper()
	good := 0
	for _, r := range s.records(t, namedHost) {
		if r.Kind == "request" && r.Status == http.StatusOK && r.Intercepted {
			good++
		}
	}
	if good < 50 {
		t.Errorf("%d requests went through, want at least 50", good)
	}
}

// h2Cases returns all cases of groups and what is below them.
func h2Cases(groups ...*spec.TestGroup) []*spec.TestCase {
	var all []*spec.TestCase
	for _, g := range groups {
		all = append(append(append(all, g.Tests...), g.StrictTests...), h2Cases(g.Groups...)...)
	}
	return all
}

func h2Run(c *spec.TestCase, conf *config.Config) error {
	conn, err := spec.Dial(conf)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return c.Run(conf, conn)
}

// splice listens where the suite dials, since the suite knows of no proxy, and joins each connection with a tunnel to target.
func splice(t *testing.T, s *sidecar, target, at string) {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = in.Close() }()
				out, err := s.connect(target)
				if err != nil {
					return
				}
				defer func() { _ = out.Close() }()
				go func() {
					_, _ = io.Copy(out, in)
					_ = out.(bufferedConn).Conn.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
}

// resolveTo has the names below "test" mean one address in this process, so that the suite dials a name and sends it.
func resolveTo(t *testing.T, to [4]byte) {
	t.Helper()
	server, before := serveNames(t, to), net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server)
	}}
}
