package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/cmd/cli"
)

func TestProbe(t *testing.T) {
	var asked atomic.Int32
	// It is not ready when it is asked first.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"answers at last", []string{server.URL + "/readyz", "--ca-file", ca}, cli.ExitDone, "answers"},
		{"unknown CA", []string{server.URL, "--timeout", "1ms"}, cli.ExitWrong, "certificate"},
		{"no such file", []string{server.URL, "--ca-file", "nothing"}, cli.ExitWrong, "--ca-file"},
		{"no URL", nil, cli.ExitUsage, "found no URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if code := run(append([]string{"probe"}, c.args...), nil, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("found %d, %s, expected %d, %s", code, &out, c.code, c.want)
			}
		})
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times, expected 2", asked.Load())
	}
}
