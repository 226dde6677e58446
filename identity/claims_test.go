package identity

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAudience(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Audiences = []string{"toolgate", "egress-broker"} })
	for _, tc := range []struct {
		aud    any
		reason string
	}{
		{"egress-broker", ""}, {[]string{"other", "egress-broker"}, ""}, {[]string{"toolgate"}, ""},
		{nil, "audience"}, {[]string{}, "audience"}, {"other", "audience"}, {[]string{"other"}, "audience"}, {map[string]any{"x": 1}, "audience"},
		{map[string]any{"toolgate": "toolgate"}, "audience"}, {"", "audience"}, {[]any{"toolgate", 5}, "audience"}, {[]any{"toolgate", ""}, "audience"},
		{[]any{[]any{"toolgate"}}, "audience"}, {5, "audience"}, {true, "audience"}, {"toolgate egress-broker", "audience"}, {"Toolgate", "audience"}, {"toolgate ", "audience"},
	} {
		t.Run(fmt.Sprintf("%v", tc.aud), func(t *testing.T) {
			token := w.mint(t, map[string]any{"aud": tc.aud})
			wantResult(t, w.verify(token), tc.reason, token)
		})
	}
}

// wantResult is wantReason, or no error for an empty reason.
func wantResult(t *testing.T, err error, reason, token string) {
	t.Helper()
	if reason != "" {
		wantReason(t, err, reason, token)
	} else if err != nil {
		t.Errorf("error %v", err)
	}
}

func TestTimes(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.MaxLifetime = time.Hour })
	now := w.Now().Unix()
	type m = map[string]any
	for _, tc := range []struct {
		name   string
		over   m
		reason string
	}{
		{"a little in the future", m{"iat": now + 5, "nbf": now + 5}, ""},
		{"nbf at the leeway", m{"nbf": now + 30}, ""},
		{"nbf over the leeway", m{"nbf": now + 31}, "not_yet_valid"},
		{"nbf in 4 min", m{"nbf": now + 240}, "not_yet_valid"}, // which go-oidc accepts
		{"nbf in 10 min", m{"nbf": now + 600}, "not_yet_valid"},
		{"iat at the leeway", m{"iat": now + 30}, ""},
		{"iat over the leeway", m{"iat": now + 31}, "not_yet_valid"},
		{"exp 5 s ago", m{"exp": now - 5}, ""}, // which go-oidc refuses
		{"exp inside the leeway", m{"exp": float64(now) - 29.5}, ""},
		{"exp at the leeway", m{"exp": now - 30}, "expired"},
		{"exp 5 min ago", m{"exp": now - 300}, "expired"},
		{"no exp", m{"exp": nil}, "claim"},
		{"exp text", m{"exp": fmt.Sprint(now + 60)}, "claim"},
		{"exp far", m{"exp": 9e15}, "claim"},
		{"exp in 9999", m{"exp": int64(endOfTime)}, "claim"},
		{"exp overflows", m{"exp": 1e300}, "claim"},
		{"exp negative", m{"exp": -1}, "claim"},
		{"exp true", m{"exp": true}, "claim"},
		{"nbf text", m{"nbf": "0"}, "claim"},
		{"iat list", m{"iat": []int64{now}}, "claim"},
		{"lifetime at the limit", m{"exp": now + 3600}, ""},
		{"lifetime over the limit", m{"exp": now + 3601}, "lifetime"},
		{"lifetime unknown", m{"iat": nil}, "lifetime"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			token := w.mint(t, tc.over)
			wantResult(t, w.verify(token), tc.reason, token)
		})
	}
}

func TestLeewayIsConfigured(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Leeway = time.Second })
	for exp, reason := range map[int64]string{-1: "expired", 0: ""} {
		token := w.mint(t, map[string]any{"exp": w.Now().Unix() + exp, "iat": nil})
		wantResult(t, w.verify(token), reason, token)
	}
	// Without a limit to the life, iat may be missing.
	if err := w.verify(w.mint(t, map[string]any{"iat": nil, "exp": w.Now().Unix() + 1e6})); err != nil {
		t.Error(err)
	}
}

func TestTypes(t *testing.T) {
	for _, tc := range []struct {
		types  []string
		typ    any
		reason string
	}{
		{nil, "JWT", ""}, {nil, "at+jwt", ""}, {nil, "application/AT+JWT", ""}, {nil, nil, ""}, {nil, "", ""},
		{nil, "secevent+jwt", "type"}, {nil, "logout+jwt", "type"}, {nil, "dpop+jwt", "type"}, {nil, "oauth-id-jag+jwt", "type"}, {nil, "JWTX", "type"},
		{[]string{"at+jwt"}, "at+jwt", ""}, {[]string{"at+jwt"}, "JWT", "type"}, {[]string{"at+jwt"}, nil, "type"},
		{[]string{"jwt"}, "at+jwt", "type"}, {[]string{""}, nil, ""}, {[]string{"txntoken+jwt"}, "txntoken+jwt", ""},
		{nil, 5, "malformed"},
	} {
		t.Run(fmt.Sprintf("%v %v", tc.types, tc.typ), func(t *testing.T) {
			w := newWorld(t, func(i *Issuer) { i.Types = tc.types })
			needed := map[string]any{"txn": "x", "req_wl": "y", "iat": w.Now().Unix()} // of transaction tokens
			token := w.mintWith(t, map[string]any{"typ": tc.typ}, needed, "ES256")
			wantResult(t, w.verify(token), tc.reason, token)
		})
	}
}

func TestAuthorizedParty(t *testing.T) {
	for _, tc := range []struct {
		parties []string
		azp     any
		reason  string
	}{
		{nil, nil, ""}, {nil, "anyone", ""}, {nil, 5, "claim"},
		{[]string{"a", "b"}, "b", ""}, {[]string{"a", "b"}, "c", "azp"}, {[]string{"a"}, nil, "azp"}, {[]string{"a"}, "", "azp"}, {[]string{"a"}, []string{"a"}, "claim"},
	} {
		t.Run(fmt.Sprintf("%v %v", tc.parties, tc.azp), func(t *testing.T) {
			w := newWorld(t, func(i *Issuer) { i.AuthorizedParties = tc.parties })
			for _, aud := range []any{"toolgate", []string{"toolgate", "other"}} {
				token := w.mint(t, map[string]any{"azp": tc.azp, "aud": aud})
				wantResult(t, w.verify(token), tc.reason, token)
			}
		})
	}
}

func TestClaimValues(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("x", maxClaim)
	for _, name := range []string{"sub", "tenant", "agent_id", "task_id", "run_id", "jti"} {
		for _, value := range []any{
			[]string{"A", "B"}, 5, true, map[string]any{"a": "b"}, "A\x00B", " A", "A ", "A\nB", "A\tB", "A\u2028B", "A\u202eB", "A\u00a0B", "A\u200bB", long + "x",
		} {
			token := w.mint(t, map[string]any{name: value})
			t.Run(fmt.Sprintf("%s=%.20q", name, value), func(t *testing.T) { wantReason(t, w.verify(token), "claim", token) })
		}
		if err := w.verify(w.mint(t, map[string]any{name: long})); err != nil {
			t.Errorf("%s of the longest length: %v", name, err)
		}
		if err := w.verify(w.mint(t, map[string]any{name: "Zoë Ångström <z@x>"})); err != nil {
			t.Errorf("%s with letters of the world: %v", name, err)
		}
	}
	for _, sub := range []any{"", nil} {
		token := w.mint(t, map[string]any{"sub": sub})
		wantReason(t, w.verify(token), "claim", token)
	}
}

// The sub is required even where another claim names the subject.
func TestSubjectFromAnotherClaim(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Claims.Subject = []string{"email"} })
	caller, err := w.v.Verify(ctx, w.mint(t, map[string]any{"email": "alice@example.com"}))
	if err != nil || caller.Subject != "alice@example.com" {
		t.Errorf("caller %+v, error %v", caller, err)
	}
	for _, over := range []map[string]any{{"sub": nil, "email": "a"}, {"sub": 5, "email": "a"}, {"email": ""}, {"email": nil}} {
		token := w.mint(t, over)
		wantReason(t, w.verify(token), "claim", token)
	}
}

func TestScopesAndRoles(t *testing.T) {
	w := newWorld(t, nil)
	for _, tc := range []struct {
		name  string
		value any
		want  []string
		ok    bool
	}{
		{"scope", nil, nil, true}, {"scope", "", []string{}, true}, {"scope", []string{}, []string{}, true}, {"scope", "a  b", []string{"a", "b"}, true},
		{"scope", []string{"a", "b"}, []string{"a", "b"}, true}, {"scope", "https://x/y.z", []string{"https://x/y.z"}, true},
		{"scope", []string{"a b"}, nil, false}, {"scope", []any{"a", 5}, nil, false}, {"scope", 5, nil, false}, {"scope", "a\tb", nil, false},
		{"scope", "a\u00e9", nil, false}, {"scope", `a"b`, nil, false}, {"scope", []string{""}, nil, false}, {"scope", map[string]any{}, nil, false},
		{"roles", nil, nil, true}, {"roles", "Billing Admin", []string{"Billing Admin"}, true}, {"roles", []string{"a"}, []string{"a"}, true},
		{"roles", []any{"a", nil}, nil, false}, {"roles", 5, nil, false}, {"roles", []string{" a"}, nil, false}, {"roles", []string{""}, nil, false},
	} {
		t.Run(fmt.Sprintf("%s=%v", tc.name, tc.value), func(t *testing.T) {
			token := w.mint(t, map[string]any{tc.name: tc.value})
			caller, err := w.v.Verify(ctx, token)
			if !tc.ok {
				wantReason(t, err, "claim", token)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := caller.Scopes
			if tc.name == "roles" {
				got = caller.Roles
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%#v, want %#v", got, tc.want)
			}
		})
	}
}

func TestMapping(t *testing.T) {
	type m = map[string]any
	w := newWorld(t, func(i *Issuer) {
		i.Claims = ClaimMap{Tenant: []string{"https://acme.example/tenant", "tenant"}, Task: []string{"kubernetes.io.pod.uid", "task_id"}}
	})
	for _, tc := range []struct {
		name string
		over m
		want string // agent, tenant, task; empty: refused
	}{
		{"agent_id wins", m{"agent_id": "a", "azp": "b"}, "a acme t-1"},
		{"act.sub", m{"agent_id": nil, "act": m{"sub": "x", "act": m{"sub": "older"}}, "azp": "b"}, "x acme t-1"},
		{"act without sub", m{"agent_id": nil, "act": m{"iss": "x"}, "azp": "b"}, "b acme t-1"},
		{"client_id last", m{"agent_id": nil, "client_id": "c"}, "c acme t-1"},
		{"act.sub of a wrong type", m{"agent_id": nil, "act": m{"sub": 5}, "azp": "b"}, ""},
		{"act of a wrong type", m{"agent_id": nil, "act": "x", "azp": "b"}, ""},
		{"act null", m{"agent_id": nil, "act": []any{}, "azp": "b"}, ""},
		{"act.SUB", m{"agent_id": nil, "act": m{"SUB": "x"}, "azp": "b"}, ""},
		{"act.sub twice", m{"agent_id": nil, "act": m{"sub": "x"}, "act.sub": "y"}, ""},
		{"ACT", m{"agent_id": "a", "ACT": m{"sub": "x"}}, ""},
		{"claim named by a URL", m{"https://acme.example/tenant": "T"}, "helper T t-1"},
		{"dot in a name", m{"kubernetes.io": m{"pod": m{"uid": "u-1"}}}, "helper acme u-1"},
		{"wrong type is not absent", m{"https://acme.example/tenant": 5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			token := w.mint(t, tc.over)
			caller, err := w.v.Verify(ctx, token)
			if tc.want == "" {
				wantReason(t, err, "claim", token)
			} else if err != nil || caller.Agent+" "+caller.Tenant+" "+caller.Task != tc.want {
				t.Errorf("caller %+v, error %v", caller, err)
			}
		})
	}
}

// Texts that encoding/json, and so go-oidc, reads without complaint.
func TestAmbiguousClaims(t *testing.T) {
	w := newWorld(t, nil)
	const base = `"sub":"bob","aud":"toolgate","exp":1800000300,"tenant":"A"`
	iss := `"iss":"` + w.idp.URL() + `"`
	good := w.sign(t, "{"+iss+","+base+"}")
	if err := w.verify(good); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, payload, reason string }{
		{"two tenants", "{" + iss + "," + base + `,"tenant":"B"}`, "claim"},
		{"two tenants, escaped", "{" + iss + "," + base + `,"t\u0065nant":"B"}`, "claim"},
		{"two iss", "{" + iss + "," + base + `,"iss":"https://evil.test"}`, "claim"},
		{"nested duplicate", "{" + iss + "," + base + `,"act":{"sub":"a","sub":"b"}}`, "claim"},
		{"SUB", "{" + iss + "," + base + `,"SUB":"alice"}`, "claim"},
		{"AUD", "{" + iss + "," + base + `,"AUD":"x"}`, "claim"},
		{"Exp", "{" + iss + "," + base + `,"Exp":9000000000}`, "claim"},
		{"ISS", "{" + iss + "," + base + `,"ISS":"https://evil.test"}`, "claim"},
		{"long s folds to s", "{" + iss + "," + base + `,"\u017fub":"alice"}`, "claim"},
		{"Kelvin folds to k", "{" + iss + "," + base + `,"tas\u212a_id":"x"}`, "claim"},
		{"Tenant_Id", "{" + iss + "," + base + `,"Tenant_Id":"B"}`, "claim"},
		{"only the variant", "{" + iss + `,"SUB":"bob","aud":"toolgate","exp":1800000300}`, "claim"},
		{"tenant with NUL", "{" + iss + `,"sub":"bob","aud":"toolgate","exp":1800000300,"tenant":"A\u0000B"}`, "claim"},
		{"tenant null", "{" + iss + `,"sub":"bob","aud":"toolgate","exp":1800000300,"tenant":null}`, "claim"},
		{"half a surrogate", "{" + iss + "," + base + `,"x":"\ud800"}`, "malformed"},
		{"bad UTF-8", "{" + iss + "," + base + ",\"x\":\"\xff\"}", "malformed"},
		{"trailing data", "{" + iss + "," + base + "} {}", "malformed"},
		{"cut off", "{" + iss + "," + base, "malformed"},
		{"list", "[" + `{` + iss + `}` + "]", "malformed"},
		{"null", "null", "malformed"},
		{"not JSON", "sub=bob", "malformed"},
		{"empty object", "{}", "issuer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			token := w.sign(t, tc.payload)
			wantReason(t, w.verify(token), tc.reason, token)
		})
	}
}
