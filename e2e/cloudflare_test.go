package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// cloudflare is Cloudflare's workers-oauth-provider, which runs in workerd.
type cloudflare struct {
	URL    string `json:"url"`
	ID     string `json:"clientID"`
	Secret string `json:"clientSecret"`
	in     io.Writer
}

// startCloudflare starts provider.mjs, which believes the grants of issuer. It ends with the test.
func startCloudflare(t *testing.T, issuer string) *cloudflare {
	t.Helper()
	if _, err := os.Stat("cloudflare/node_modules/miniflare"); err != nil {
		missing(t, "Cloudflare's provider is not installed: run e2e/setup.sh")
	}
	cmd := exec.Command(node(t), "cloudflare/provider.mjs")
	var log lockedBuffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the provider's log:\n%s", log.String())
		}
	})
	c := &cloudflare{in: in}
	c.write(t, map[string]string{"issuer": issuer})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, c) != nil || c.ID == "" {
		t.Fatalf("the provider did not start: %v %s", err, line)
	}
	return c
}

// believe tells it the issuer's keys.
func (c *cloudflare) believe(t *testing.T, keys jose.JSONWebKeySet) {
	t.Helper()
	c.write(t, keys)
}

func (c *cloudflare) write(t *testing.T, v any) {
	t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}
