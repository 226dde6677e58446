package e2e

import (
	"encoding/json"
	"os"
	"testing"
)

// cloudflare is Cloudflare's workers-oauth-provider, which runs in workerd. Tell its script the keys of the issuer that it believes.
type cloudflare struct {
	URL    string `json:"url"`
	ID     string `json:"clientID"`
	Secret string `json:"clientSecret"`
	*nodeScript
}

// startCloudflare starts provider.mjs, which believes the grants of issuer. It ends with the test.
func startCloudflare(t *testing.T, issuer string) *cloudflare {
	t.Helper()
	if _, err := os.Stat("cloudflare/node_modules/miniflare"); err != nil {
		missing(t, "Cloudflare's provider is not installed: run e2e/setup.sh")
	}
	c := &cloudflare{nodeScript: startNodeScript(t, "cloudflare/provider.mjs", map[string]string{"issuer": issuer})}
	if err := json.Unmarshal([]byte(c.said), c); err != nil || c.ID == "" {
		t.Fatalf("found %q, expected the provider's address and a client: %v", c.said, err)
	}
	return c
}
