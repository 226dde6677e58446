package config

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
)

func mustLoad(t testing.TB, path string) *Snapshot {
	t.Helper()
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func TestDefaults(t *testing.T) {
	s := mustLoad(t, filepath.Join(corpus(t), "good/defaults.yaml"))
	equal(t, "mode", s.Mode, Enforce)
	equal(t, "listeners", s.Listeners, []Listener{{Name: "tool", Kind: "explicit", Address: "127.0.0.1:15001", Tool: "web_search"}})
	equal(t, "admin", s.Admin, "")
	equal(t, "identity required", s.Identity.Required, true)
	equal(t, "in tunnel", s.InTunnel, false)
	equal(t, "kill switch", s.KillSwitch, KillSwitch{MaxStale: time.Minute})
	equal(t, "audit", s.Audit, Audit{Output: "stdout", Chain: true, Records: 1000, Interval: time.Minute, Keep: 10})
	equal(t, "log", s.Log, Log{Level: "info", Format: "json"})
	equal(t, "limits", s.Limits, Limits{
		MaxConnections: 8192, MaxTunnelsPerTool: 3072, MaxTunnelsPerTenant: 2048, MaxRequestsPerTenant: 4096,
		MaxTunnels: 4096, MaxHeaderBytes: 65536, HeaderTimeout: 10 * time.Second, DialTimeout: 10 * time.Second,
		IdleTimeout: 5 * time.Minute, Drain: 25 * time.Second,
	})
	equal(t, "claims", s.Identity.Issuers[0].Claims, identity.DefaultClaims())
	equal(t, "leeway", s.Identity.Issuers[0].Leeway, 30*time.Second)
}

func TestEverythingArrives(t *testing.T) {
	dir := corpus(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	s := mustLoad(t, at("good/everything-else.yaml"))
	equal(t, "admin", s.Admin, "0.0.0.0:15020")
	equal(t, "in tunnel", s.InTunnel, true)
	equal(t, "kill switch", s.KillSwitch, KillSwitch{File: at("good/revocations-one.yaml"), MaxStale: time.Minute, StateDir: at("good/state")})
	equal(t, "audit", s.Audit, Audit{Output: at("good/audit.jsonl"), Records: 1000, Interval: time.Minute, Keep: 10})
	equal(t, "log", s.Log, Log{Level: "debug", Format: "text", Payloads: true})
	equal(t, "limits", s.Limits, Limits{20, 5, 4, 7, 10, 8192, time.Second, 500 * time.Millisecond, time.Minute, 2 * time.Second})

	s = mustLoad(t, at("good/audit-signed.yaml"))
	equal(t, "signed audit", s.Audit, Audit{
		Output: at("good/records.jsonl"), Chain: true, SigningKeyFile: at("keys/audit.pem"), Records: 50, Interval: 10 * time.Second,
		MaxBytes: 1 << 20, Keep: 3,
	})

	s = mustLoad(t, at("good/network.yaml"))
	equal(t, "egress", s.Egress, Egress{
		Resolver:       "10.96.0.10:53",
		Exempt:         []egress.Exemption{{Prefix: netip.MustParsePrefix("10.20.0.5/32"), Ports: []uint16{8443}, Tools: []string{"web_search"}}},
		Cluster:        []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/64")},
		UpstreamCAFile: at("keys/ca.pem"),
		UpstreamProxy:  UpstreamProxy{Host: "proxy.corp.example", Port: 3128, CredentialsFile: at("keys/proxy-user")},
	})
	equal(t, "no upstream proxy", mustLoad(t, at("good/proxy-none.yaml")).Egress.UpstreamProxy, UpstreamProxy{})

	s = mustLoad(t, at("good/several-tools.yaml"))
	equal(t, "tools", s.Listeners[1], Listener{
		Name: "two", Kind: "explicit", Address: "127.0.0.1:0", Tools: []string{"web_search", "draft_refund_request"}, TokenFile: at("keys/token"),
	})
	equal(t, "report", mustLoad(t, at("good/report-mode.yaml")).Mode, Report)
	equal(t, "anonymous", mustLoad(t, at("good/anonymous.yaml")).Identity.Required, false)
}

func TestBindingsArrive(t *testing.T) {
	dir := corpus(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	s := mustLoad(t, at("good/bindings.yaml"))
	equal(t, "exchange", s.Bindings[0], broker.Binding{
		Name: "orders", Tools: []string{"draft_refund_request"}, Targets: []string{"api.orders.example:443"},
		TokenExchange: &broker.TokenExchange{
			TokenURL: "https://idp.example/oauth2/token", Audience: "https://api.orders.example",
			ClientAuth:     broker.ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyFile: at("keys/leaf-key.pem"), KeyID: "k1"},
			ActorTokenFile: at("keys/token"), CAFile: at("keys/ca.pem"), MaxTTL: 5 * time.Minute, Timeout: 2 * time.Second,
		},
	})
	equal(t, "static", s.Bindings[1], broker.Binding{
		Name: "search", Tools: []string{"web_search"}, Targets: []string{"search.example:443", "index.internal.example:8443"},
		Static: &broker.Static{File: at("keys/secret"), Header: "X-Api-Key"},
	})
	equal(t, "default times", [2]time.Duration{s.Bindings[2].TokenExchange.Timeout, s.Bindings[2].TokenExchange.MaxTTL},
		[2]time.Duration{10 * time.Second, 15 * time.Minute})
	equal(t, "intercept", [3]string{s.Intercept.CACertFile, s.Intercept.CAKeyFile, s.Intercept.CAOutFile},
		[3]string{at("keys/ca.pem"), at("keys/ca-key.pem"), at("good/ca-out.pem")})
	equal(t, "intercept targets", len(s.Intercept.Targets) == 1 && s.Intercept.Targets[0].Match("a.cdn.example", 443), true)
}

// TestActorToken: an exchange carries the workload's token unless the binding names another.
func TestActorToken(t *testing.T) {
	dir := corpus(t)
	path := filepath.Join(dir, "actor.yaml")
	text := `apiVersion: toolgate/v1
kind: Sidecar
listeners: [{name: tool, address: "127.0.0.1:0", tool: web_search}]
manifests: ["manifests/*.yaml"]
identity: {workloadTokenFile: keys/token, issuers: [{issuer: "https://idp.example", audiences: [a]}]}
broker: {bindings: [{name: s, tools: [web_search], targets: [search.example], tokenExchange: {tokenURL: "https://idp.example/t", audience: a, clientAuth: {method: none}}}]}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, "actor token", mustLoad(t, path).Bindings[0].TokenExchange.ActorTokenFile, filepath.Join(dir, "keys/token"))
}

func TestIssuersArrive(t *testing.T) {
	s := mustLoad(t, filepath.Join(corpus(t), "good/issuers.yaml"))
	is := s.Identity.Issuers[0]
	client := is.Client
	is.Client = nil
	claims := identity.DefaultClaims()
	claims.Tenant, claims.Agent, claims.Run = []string{"org"}, []string{"azp"}, []string{}
	equal(t, "issuer", is, identity.Issuer{
		URL: "https://idp.example/realms/a", Audiences: []string{"toolgate", "other"}, Algorithms: []string{"RS256", "EdDSA"},
		Types: []string{"at+jwt"}, AuthorizedParties: []string{"app"}, Leeway: 5 * time.Second, MaxLifetime: time.Hour, Claims: claims,
		Require: []string{"jti", "act.sub"}, Replay: identity.ReplayBind,
	})
	if client == nil || client.Timeout != 10*time.Second || client.CheckRedirect == nil {
		t.Errorf("the client of caFile is %+v", client)
	}
	equal(t, "no caFile, no client", s.Identity.Issuers[1].Client == nil, true)
	equal(t, "tokenFile", filepath.Base(s.Identity.Issuers[1].TokenFile), "token")
	equal(t, "jwksURL", s.Identity.Issuers[1].JWKSURL, "http://127.0.0.1:8080/keys?v=1")
}

// TestIntrospectionArrives, and counts for whether an issuer is the same after a reload.
func TestIntrospectionArrives(t *testing.T) {
	dir := corpus(t)
	path := filepath.Join(dir, "good/introspection.yaml")
	s := mustLoad(t, path)
	in := s.Identity.Issuers[0].Introspection
	if in == nil || in.URL != "https://idp.example/introspect" || in.Timeout != 2*time.Second || in.Client == nil || in.Authenticate == nil {
		t.Fatalf("%+v", in)
	}
	equal(t, "the other has none", s.Identity.Issuers[1].Introspection == nil, true)
	form := url.Values{}
	if err := in.Authenticate(form, http.Header{}); err != nil || form.Get("client_id") != "toolgate" || form.Get("client_assertion") == "" {
		t.Errorf("%v %v", form, err)
	}
	equal(t, "digest of the same file", mustLoad(t, path).Identity.Digest, s.Identity.Digest)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"timeout: 2s", "timeout: 3s"}, {"clientID: toolgate", "clientID: other"}, {"example/introspect", "example/other"}, {"caFile: ../keys/ca.pem", "caFile: ../keys/other.pem"}} {
		changed := filepath.Join(dir, "good/changed.yaml")
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if mustLoad(t, changed).Identity.Digest == s.Identity.Digest {
			t.Errorf("%s does not count", change[1])
		}
	}
}

// TestPresetsArrive: what stands in the file counts more than the preset, and an empty list means none.
func TestPresetsArrive(t *testing.T) {
	s := mustLoad(t, filepath.Join(corpus(t), "good/presets.yaml"))
	presets := identity.Presets()
	if len(s.Identity.Issuers) != len(presets) || len(s.Notes) != len(presets) {
		t.Fatalf("%d issuers, %d notes", len(s.Identity.Issuers), len(s.Notes))
	}
	for i, p := range presets {
		want, got := p.Settings(), s.Identity.Issuers[i]
		switch p {
		case identity.PresetAuth0:
			want.Algorithms, want.Claims.Tenant, want.Claims.Task = []string{"PS256"}, []string{}, []string{"x"}
		case identity.PresetKeycloak:
			want.Require = nil
		case identity.PresetOkta:
			want.Types = []string{"jwt"}
		case identity.PresetGitHub:
			equal(t, "match", got.Match, []identity.Match{{Claim: "repository_owner_id", Values: []string{"65"}}})
		}
		equal(t, string(p), [4]any{got.Algorithms, got.Types, got.Require, got.Claims}, [4]any{want.Algorithms, want.Types, want.Require, want.Claims})
	}
	equal(t, "note", s.Notes[6].Message, "preset github sets algorithms [RS256], types [jwt], require [iat, jti, repository_id, run_id, job_workflow_ref], "+
		"claims.subject [sub], claims.tenant [repository_owner_id], claims.agent [job_workflow_ref], claims.task [run_id], claims.run [run_id], claims.scopes [], claims.roles [], claims.tokenID [jti]")
	if m := s.Notes[1].Message; strings.Contains(m, "algorithms") || strings.Contains(m, "claims.tenant") || strings.Contains(m, "claims.task ") {
		t.Errorf("the note says what the preset did not set: %s", m)
	}
}

func TestToolArrives(t *testing.T) {
	dir := corpus(t)
	s := mustLoad(t, filepath.Join(dir, "good/minimal.yaml"))
	tool := *s.Tools["draft_refund_request"]
	policy := tool.Policy
	if tool.Scrubber == nil {
		t.Error("no scrubber")
	}
	tool.Policy, tool.Scrubber = nil, nil
	equal(t, "tool", tool, Tool{
		Name: "draft_refund_request", Owner: "support-platform", Version: "2026-06-17",
		Description: "Creates a refund draft for human approval. It does not issue money.",
		Risk:        "high", CapabilityClasses: []string{"read_private", "write_side_effect"},
		RequiredScopes: []string{"orders:read", "refunds:draft"}, SideEffects: "draft", IdempotencyRequired: false, Timeout: 5 * time.Second,
		InputSchemaRef: "schemas/refund-draft-input.json", OutputSchemaRef: "schemas/refund-draft-output.json",
		InputFields:         []string{"amount", "lines", "note", "order_id", "properties", "sku"},
		RequiredTraceFields: []string{"run_id", "actor_id", "policy_version"}, RedactFields: []string{"customer_email", "payment_token"},
	})
	for _, tt := range []struct {
		target egress.Target
		want   egress.Verdict
	}{
		{egress.Target{Scheme: "https", Host: "api.orders.example", Port: 443, Method: "GET", Path: "/v1/orders/1"}, egress.Allow},
		{egress.Target{Scheme: "https", Host: "api.orders.example", Port: 443, Method: "DELETE", Path: "/v1/orders/1"}, egress.Deny},
		{egress.Target{Scheme: "https", Host: "api.orders.example", Port: 443, Method: "GET", Path: "/v2"}, egress.Deny},
		{egress.Target{Host: "api.orders.example", Port: 80}, egress.Deny},
		{egress.Target{Host: "a.cdn.example", Port: 443}, egress.Allow},
		{egress.Target{Host: "attacker.example", Port: 443}, egress.Deny},
	} {
		equal(t, tt.target.Host+tt.target.Path, policy.Decide(tt.target).Verdict, tt.want)
	}
	equal(t, "side effecting", tool.SideEffecting(), true)
	equal(t, "no side effect", s.Tools["web_search"].SideEffecting(), false)
}

// TestCompactForm: the compact form becomes the same value as the full one.
func TestCompactForm(t *testing.T) {
	dir := corpus(t)
	tool, _, err := LoadManifest(filepath.Join(dir, "good/manifest-compact.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "classes", tool.CapabilityClasses, []string{"read_private"})
	equal(t, "side effects", tool.SideEffects, "draft")
	equal(t, "roles", tool.Roles, []string{"support"})
	equal(t, "approval", tool.ApprovalRequired, true)
	equal(t, "approval for", tool.ApprovalRequiredFor, []string{"refund_over_100"})
	equal(t, "schemas", [2]string{tool.InputSchemaRef, tool.OutputSchemaRef}, [2]string{"https://schemas.example/in.json", "out.json"})
	equal(t, "trace", tool.RequiredTraceFields, []string{"run_id"})
}

func TestRiskyDefaults(t *testing.T) {
	tool, _, err := LoadManifest(filepath.Join(corpus(t), "good/manifest-risky.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "risk", tool.Risk, "high")
	equal(t, "classes", len(tool.CapabilityClasses), 8)
	equal(t, "side effects", tool.SideEffects, "external_write")
	equal(t, "timeout", tool.Timeout, 30*time.Second)
	equal(t, "policy", tool.Policy != nil && tool.Policy.Decide(egress.Target{Host: "a.example", Port: 443}).Verdict == egress.Deny, true)
}

func TestRevocationsArrive(t *testing.T) {
	dir := corpus(t)
	set, err := LoadRevocations(filepath.Join(dir, "good/revocations-one.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "set", set, []killswitch.Revocation{{
		ID: "2026-11-29-refunds", Selector: killswitch.Selector{Tool: []string{"draft_refund_request"}, Tenant: []string{"acme"}},
		Reason: "leaked partner key, ticket SEC-1412", By: "me@example.com",
		At: time.Date(2026, 11, 29, 17, 10, 0, 0, time.UTC), Expires: time.Date(2026, 11, 30, 17, 10, 0, 0, time.UTC),
	}})
	set, err = LoadRevocations(filepath.Join(dir, "good/revocations-none.yaml"))
	equal(t, "empty set", len(set), 0)
	equal(t, "error", err, nil)
	set, err = LoadRevocations(filepath.Join(dir, "good/revocations-all.yaml"))
	if err != nil || !set[0].Selector.All || len(set[1].Selector.CapabilityClass) != 1 {
		t.Errorf("%+v %v", set, err)
	}
}

func TestFilesAndRevision(t *testing.T) {
	dir := corpus(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	s := mustLoad(t, at("good/bindings.yaml"))
	equal(t, "first file", s.Files[0], at("good/bindings.yaml"))
	for _, want := range []string{"manifests/refund.yaml", "manifests/search.yaml", "manifests/schemas/refund-draft-input.json", "manifests/*.yaml",
		"keys/ca.pem", "keys/ca-key.pem", "keys/leaf-key.pem"} {
		if !slices.Contains(s.Files, at(want)) {
			t.Errorf("%s is not among the files %q", want, s.Files)
		}
	}
	for _, f := range s.Files {
		if strings.HasSuffix(f, "secret") || strings.HasSuffix(f, "token") || strings.Contains(f, "revocations") {
			t.Errorf("%s is among the files", f)
		}
	}
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(s.Revision) {
		t.Errorf("revision %q", s.Revision)
	}
	equal(t, "the same again", mustLoad(t, at("good/bindings.yaml")).Revision, s.Revision)

	elsewhere := t.TempDir()
	if err := os.CopyFS(elsewhere, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	equal(t, "the same elsewhere", mustLoad(t, filepath.Join(elsewhere, "good/bindings.yaml")).Revision, s.Revision)

	last := s.Revision
	for _, name := range []string{"good/bindings.yaml", "manifests/search.yaml", "manifests/schemas/refund-draft-input.json", "keys/ca.pem", "keys/leaf-key.pem"} {
		f, err := os.OpenFile(at(name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString("\n")
		_ = f.Close()
		now := mustLoad(t, at("good/bindings.yaml")).Revision
		if now == last {
			t.Errorf("the revision does not depend on %s", name)
		}
		last = now
	}
}

func TestManyMistakesAtOnce(t *testing.T) {
	_, err := Load(filepath.Join(corpus(t), "bad/form-many.yaml"))
	problems, _ := err.(Problems)
	if len(problems) < 10 {
		t.Errorf("only %d problems:\n%v", len(problems), err)
	}
}

// TestConfigMap: a mounted ConfigMap has folders and symlinks beside its files, which are no manifests.
func TestConfigMap(t *testing.T) {
	dir := corpus(t)
	mount := filepath.Join(dir, "mounted [1]*") // and a folder's name is not a pattern
	if err := os.MkdirAll(filepath.Join(mount, "..2026"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "more/again.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sidecar := "apiVersion: toolgate/v1\nkind: Sidecar\nmanifests: [\"tool-*\", \"*.yml\"]\nidentity: {required: false}\nlisteners: [{name: a, address: \"127.0.0.1:0\", tool: web_search}]\n"
	for name, text := range map[string]string{"..2026/tool-a": string(b), "..2026/tool-b.yml": strings.Replace(string(b), "web_search", "b", 1), "..2026/sidecar": sidecar} {
		if err := os.WriteFile(filepath.Join(mount, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"..data": "..2026", "tool-a": "..data/tool-a", "tool-b.yml": "..data/tool-b.yml", "sidecar": "..data/sidecar", "..x.yml": "..2026"} {
		if err := os.Symlink(target, filepath.Join(mount, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := mustLoad(t, filepath.Join(mount, "sidecar"))
	equal(t, "tools", len(s.Tools), 2)
}

func TestStore(t *testing.T) {
	a, b := &Snapshot{Revision: "a"}, &Snapshot{Revision: "b"}
	st := NewStore(a)
	equal(t, "current", st.Current(), a)
	st.Swap(b)
	equal(t, "swapped", st.Current(), b)
}

func TestExtraCAs(t *testing.T) {
	dir := corpus(t)
	s := mustLoad(t, filepath.Join(dir, "good/intercept-files.yaml"))
	equal(t, "bundle", s.Intercept.BundleOutFile, filepath.Join(dir, "good/out/bundle.pem"))
	equal(t, "trust store", s.Intercept.TrustStoreFile, filepath.Join(dir, "good/out/trust.p12"))
	equal(t, "CA state", s.Intercept.CAStateDir, filepath.Join(dir, "good/out/state"))
	var names []string
	for _, der := range s.Intercept.ExtraCAs {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, c.Subject.CommonName)
	}
	equal(t, "extra CAs", names, []string{"ca", "other", "Example corporate root"})
	for _, want := range []string{"keys/ca.pem", "keys/other.pem"} {
		if !slices.Contains(s.Files, filepath.Join(dir, want)) {
			t.Errorf("%s is not watched: %v", want, s.Files)
		}
	}
}
