package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// run runs a program with a clean environment and returns all that it printed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// curlUpstream greets early where there is no body, and answers with what it got.
func curlUpstream(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/refused" { // without reading the body, so that net/http does not ask for it
		http.Error(rw, "no such upload", http.StatusForbidden)
		return
	}
	if r.ContentLength == 0 { // curl 7.88 takes any informational answer for leave to send its body
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Link")
	}
	body, err := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(rw, "%s, %d bytes, error %v", r.Method, len(body), err)
}

// TestCurl has curl do what is in the corners of HTTP.
func TestCurl(t *testing.T) {
	curl := program(t, "curl")
	w := newWorld(t)
	port := w.serve(t, http.HandlerFunc(curlUpstream), true)
	clear := w.serve(t, http.HandlerFunc(curlUpstream), false)
	s := w.start(t)
	w.write(t, "body", strings.Repeat("x", 100_000))
	upload := []string{"-T", w.path("body"), "-H", "Expect: 100-continue"}
	for name, c := range map[string]struct {
		args         []string
		path         string
		want, absent []string
	}{
		"HTTP/1.0": {
			[]string{"-0"}, "/",
			[]string{"> GET / HTTP/1.0", "< HTTP/1.0 200 OK", "GET, 0 bytes, error <nil>"}, []string{"103"},
		},
		"HTTP/1.0, upload": {
			[]string{"-0", "-T", w.path("body")}, "/",
			[]string{"< HTTP/1.0 200 OK", "PUT, 100000 bytes, error <nil>"}, []string{"103"},
		},
		"early hints": {
			[]string{"--http1.1"}, "/",
			[]string{"< HTTP/1.1 103 Early Hints", "< Link: </style.css>; rel=preload", "< HTTP/1.1 200 OK", "GET, 0 bytes, error <nil>"}, nil,
		},
		"early hints over h2": {
			[]string{"--http2"}, "/",
			[]string{"< HTTP/2 103", "< link: </style.css>; rel=preload", "< HTTP/2 200", "GET, 0 bytes, error <nil>"}, nil,
		},
		"asks before it sends": {
			append([]string{"--http1.1", "--expect100-timeout", "30"}, upload...), "/",
			[]string{"< HTTP/1.1 100 Continue", "< HTTP/1.1 200 OK", "PUT, 100000 bytes, error <nil>"}, []string{"Done waiting for 100-continue"},
		},
		"asks before it sends over h2": {
			append([]string{"--http2", "--expect100-timeout", "30"}, upload...), "/",
			[]string{"< HTTP/2 100", "< HTTP/2 200", "PUT, 100000 bytes, error <nil>"}, []string{"Done waiting for 100-continue"},
		},
		"asks and is refused": {
			append([]string{"--http1.1", "--expect100-timeout", "30"}, upload...), "/refused",
			[]string{"< HTTP/1.1 403 Forbidden", "no such upload"}, []string{"< HTTP/1.1 100 Continue", "Done waiting for 100-continue"},
		},
	} {
		for _, host := range []string{boundHost, plainHost} {
			scheme, at := "https", port
			if host == plainHost {
				scheme, at = "http", clear
			}
			if scheme == "http" && strings.HasSuffix(name, "h2") {
				continue // curl speaks h1 to a proxy whatever it is told
			}
			t.Run(name+", "+scheme, func(t *testing.T) {
				args := append([]string{"-sSv", "--max-time", "50", "--cacert", w.trusted(host), urlOf(scheme, host, at, c.path)}, c.args...)
				out := run(t, []string{"HTTPS_PROXY=" + s.proxyURL().String(), "http_proxy=" + s.proxyURL().String()}, curl, args...)
				for _, want := range c.want {
					if scheme == "http" {
						want = strings.Replace(want, "> GET / ", "> GET "+urlOf(scheme, host, at, "/")+" ", 1)
					}
					if !strings.Contains(out, want) {
						t.Errorf("no %q in\n%s", want, out)
					}
				}
				for _, absent := range c.absent {
					if strings.Contains(out, absent) {
						t.Errorf("%q in\n%s", absent, out)
					}
				}
			})
		}
	}
}
