package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// TestActorFromSPIRE exchanges with a JWT-SVID as the actor's token. spire.sh names the files.
func TestActorFromSPIRE(t *testing.T) {
	svidFile, bundleFile := os.Getenv("SPIRE_SVID"), os.Getenv("SPIRE_BUNDLE")
	if svidFile == "" || bundleFile == "" {
		t.Skip("NOT TESTED: SPIRE takes most of an hour to build; run e2e/spire.sh")
	}
	svid, err := os.ReadFile(svidFile)
	if err != nil {
		t.Fatal(err)
	}
	actor := claimsOf(t, strings.TrimSpace(string(svid)))
	sub, issuer := actor["sub"].(string), actor["iss"].(string)
	w := newWorld(t, "", independent("client_secret_basic", func(c *authConfig) {
		c.Actor = trusted{Issuer: issuer, Audience: workloadAud, JWKS: svidKeys(t, bundleFile)}
	}))
	write(t, w.dir, "workload.jwt", string(svid))
	s := w.start(t)
	task := w.mint(t, map[string]any{
		"sub": "user:alice", "aud": "toolgate", "tenant": "acme", "agent_id": "helpdesk", "task_id": "task-1", "run_id": "run-1",
		"scope": ordersScope, "may_act": map[string]any{"sub": sub, "iss": issuer},
	})
	tool := toolClient(t, proxyURL(s.tool, task), s.caFile)
	if a := get(t, tool, w.up.url(ordersHost, "/v1/orders/42")); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if c := w.up.arrivals(ordersHost)[0].Claims; c.Sub != "user:alice" || c.Act.Sub != sub {
		t.Errorf("the upstream saw %+v", c)
	}
	if a := get(t, toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), s.caFile), w.up.url(ordersHost, "/v1/orders/42")); a.status != http.StatusForbidden {
		t.Errorf("a task that names another workload: %d", a.status)
	}
}

// svidKeys are the keys of a SPIFFE bundle that sign JWT-SVIDs, as a JWKS of which no reader minds their use.
func svidKeys(t *testing.T, file string) jose.JSONWebKeySet {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bundle struct{ Keys []map[string]any }
	if err := json.Unmarshal(b, &bundle); err != nil {
		t.Fatal(err)
	}
	var keys jose.JSONWebKeySet
	for _, k := range bundle.Keys {
		if k["use"] != "jwt-svid" {
			continue
		}
		k["use"] = "sig"
		var key jose.JSONWebKey
		text, err := json.Marshal(k)
		if err != nil || json.Unmarshal(text, &key) != nil {
			t.Fatalf("key %v: %v", k["kid"], err)
		}
		keys.Keys = append(keys.Keys, key)
	}
	return keys
}
