package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/cli"
)

// TestMemoryLimit: the process keeps below nine tenths of its container's limit.
func TestMemoryLimit(t *testing.T) {
	t.Setenv(cli.MemoryVariable, "134217728")
	p := &plane{T: t, dir: t.TempDir()}
	p.start()
	defer p.kill()
	res, err := http.Get(p.client.base + "/metrics")
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	page, err := io.ReadAll(res.Body)
	check(t, err)
	if !strings.Contains(string(page), "\ngo_gc_gomemlimit_bytes 1.20795948e+08\n") {
		t.Error("the limit in force is not nine tenths of the container's")
	}
}
