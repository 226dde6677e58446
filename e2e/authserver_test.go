package e2e

import (
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// trusted is an issuer whose tokens the authorization server believes.
type trusted struct {
	Issuer   string             `json:"issuer"`
	Audience string             `json:"audience"`
	JWKS     jose.JSONWebKeySet `json:"jwks"`
}

// authConfig is the first line that issuer.mjs reads.
type authConfig struct {
	Clients   []map[string]any  `json:"clients"`
	Subject   trusted           `json:"subject"`
	Actor     trusted           `json:"actor"`
	Resources map[string]string `json:"resources"`
	People    map[string]any    `json:"people,omitempty"` // who can log in, by sub, with their claims
	Login     string            `json:"login,omitempty"`  // who does
	Nonce     bool              `json:"nonce,omitempty"`  // proofs of DPoP need one
	Grants    *grants           `json:"grants,omitempty"`
}

// grants are identity assertion grants (ID-JAG): under which name they are given, and the client's id at each server that they are for.
type grants struct {
	Issuer  string            `json:"issuer"`
	Clients map[string]string `json:"clients"`
}

// startAuthServer starts issuer.mjs and returns its URL. It ends with the test.
func startAuthServer(t *testing.T, c authConfig) string {
	t.Helper()
	return strings.TrimSpace(startNodeScript(t, "issuer/issuer.mjs", c).said)
}
