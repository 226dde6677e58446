//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestGatewayFromTheChart: with gateway.enabled every call of a pod goes by the gateway, which knows the workload by its token and decides
// again; the two records of a call name each other. That nothing else leaves is a NetworkPolicy's to say, which this node's network does not
// enforce.
func TestGatewayFromTheChart(t *testing.T) {
	p := newPartner(t)
	k := installed(t, p.values(`
killSwitch: {enabled: false}
gateway:
  enabled: true
  replicas: 1
  config: {egress: {allowPrivate: [{prefix: 10.96.0.0/24, ports: [443], tools: [orders]}]}} # stricter than the sidecars', by one port
`))
	tools := p.tools(t, k)
	standing(t, tools, "tool", `[sleep, 1h]`)
	gateway := strings.TrimSpace(k.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component=gateway", "-o", "jsonpath={.items[0].metadata.name}"))
	account := "system:serviceaccount:" + tools.namespace + ":default"

	got, err := tools.exec("tool", "/tool", "get", "https://orders"+partnerZone+"/orders")
	if err != nil || !strings.HasPrefix(got, "200 orders for "+account) {
		t.Errorf("the tool says %q", got)
	}
	own := tools.awaitRecord(t, "tool", "toolgate", func(r record) bool { return r.Status == 200 })
	if own.GatewayDecisionID == "" || own.CredentialBinding != "orders" {
		t.Errorf("found the sidecar's record %+v, expected one with a gateway's decision and the credential", own)
	}
	// The gateway's tunnel is open for the next call; its record is written when it ends.
	if got, _ := tools.exec("tool", "/tool", "get", "https://plain"+partnerZone+"/"); !strings.HasPrefix(got, "200 ") {
		t.Errorf("the tool says %q", got)
	}
	own = tools.awaitRecord(t, "tool", "toolgate", func(r record) bool { return r.Host == "plain"+partnerZone })
	theirs := k.awaitRecord(t, gateway, "gateway", func(r record) bool { return r.Host == "plain"+partnerZone })
	if theirs.ID != own.GatewayDecisionID || theirs.SidecarDecisionID != own.ID || theirs.Decision != "allow" || theirs.Workload != account || theirs.Tenant != tools.namespace {
		t.Errorf("found the gateway's record %+v and the sidecar's %+v, expected that they name each other", theirs, own)
	}

	got, err = tools.exec("tool", "/tool", "get", "https://plain"+partnerZone+":8443/")
	if err == nil || !strings.Contains(got, "Forbidden: private_network") {
		t.Errorf("what the gateway refuses: the tool says %q", got)
	}
	own = tools.awaitRecord(t, "tool", "toolgate", func(r record) bool { return r.Port == 8443 })
	theirs = k.awaitRecord(t, gateway, "gateway", func(r record) bool { return r.Port == 8443 })
	if theirs.Decision != "deny" || own.Code != theirs.Code || own.ErrorClass != "gateway" || own.GatewayDecisionID != theirs.ID || theirs.SidecarDecisionID != own.ID {
		t.Errorf("found the sidecar's record %+v and the gateway's %+v, expected the same code, and that they name each other", own, theirs)
	}
}
