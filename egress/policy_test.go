package egress

import (
	"fmt"
	"strings"
	"testing"
)

func patterns(t testing.TB, texts ...string) []Pattern {
	t.Helper()
	var out []Pattern
	for _, s := range texts {
		out = append(out, mustPattern(t, s))
	}
	return out
}

func paths(t testing.TB, texts ...string) []PathPattern {
	t.Helper()
	var out []PathPattern
	for _, s := range texts {
		out = append(out, mustPath(t, s))
	}
	return out
}

func tunnel(host string, port uint16) Target { return Target{Host: host, Port: port} }

func request(method, host, path string) Target {
	return Target{Scheme: "https", Host: host, Port: 443, Method: method, Path: path}
}

func TestPolicyWithoutEntriesDenies(t *testing.T) {
	for _, p := range []*Policy{nil, {}, NewPolicy(nil, nil)} {
		for _, target := range []Target{{}, tunnel("api.ok.test", 443), request("GET", "api.ok.test", "/")} {
			if d := p.Decide(target); d.Verdict != Deny || d.Code != CodeDomain {
				t.Errorf("%+v: %+v", target, d)
			}
		}
		if p.NeedsIntercept("api.ok.test", 443) || len(p.Allowed())+len(p.Rules()) != 0 {
			t.Error("an empty policy has rules")
		}
	}
}

// Of entries and rules for one host that all match, the first one is named.
func TestFirstOfOneHostIsNamed(t *testing.T) {
	p := NewPolicy(patterns(t, "api.ok.test:8443", "api.ok.test:443", "api.ok.test"), []Rule{
		{Host: mustPattern(t, "api.ok.test"), Methods: []string{"POST"}},
		{Host: mustPattern(t, "api.ok.test"), Paths: paths(t, "/v1/*")},
		{Host: mustPattern(t, "api.ok.test"), Paths: paths(t, "/v1/orders")},
	})
	if d := p.Decide(request("GET", "api.ok.test", "/v1/orders")); d.Verdict != Allow || d.Path != "/v1/*" {
		t.Errorf("%+v", d)
	}
	p = NewPolicy(p.Allowed(), nil)
	if d := p.Decide(tunnel("api.ok.test", 443)); d.Rule != "api.ok.test:443" {
		t.Errorf("%+v", d)
	}
}

// A rule alone allows nothing; it only narrows the allowlist.
func TestRuleWithoutEntryDenies(t *testing.T) {
	p := NewPolicy(nil, []Rule{{Host: mustPattern(t, "api.ok.test")}})
	if d := p.Decide(request("GET", "api.ok.test", "/")); d.Verdict != Deny || d.Code != CodeDomain {
		t.Errorf("%+v", d)
	}
}

func TestDecideHosts(t *testing.T) {
	p := NewPolicy(patterns(t, "api.ok.test:443", "*.wild.test", "*.deep.wild.test:8443", "deep.wild.test", "198.51.100.7", "[2001:db8::1]:8443"), nil)
	tests := []struct {
		host string
		port uint16
		rule string // "" for denied
	}{
		{"api.ok.test", 443, "api.ok.test:443"},
		{"api.ok.test", 22, ""},
		{"api.ok.test", 80, ""},
		{"x.api.ok.test", 443, ""},
		{"ok.test", 443, ""},
		{"a.wild.test", 443, "*.wild.test"},
		{"a.b.wild.test", 80, "*.wild.test"},
		{"wild.test", 443, ""},
		{"notwild.test", 443, ""},
		{"evilwild.test", 443, ""},
		{"wild.test.evil.test", 443, ""},
		{"deep.wild.test", 443, "deep.wild.test"},
		{"a.deep.wild.test", 8443, "*.deep.wild.test:8443"},
		{"a.deep.wild.test", 443, "*.wild.test"}, // the narrower wildcard has another port
		{"198.51.100.7", 80, "198.51.100.7"},
		{"198.51.100.8", 80, ""},
		{"2001:db8::1", 8443, "[2001:db8::1]:8443"},
		{"2001:db8::1", 443, ""},
		{"", 443, ""},
	}
	for _, tt := range tests {
		for _, method := range []string{"", "GET"} {
			d := p.Decide(Target{Host: tt.host, Port: tt.port, Method: method, Path: "/"})
			want := Decision{Verdict: Allow, Rule: tt.rule}
			if tt.rule == "" {
				want = Decision{Code: CodeDomain}
			}
			if d != want {
				t.Errorf("%s:%d: %+v, want %+v", tt.host, tt.port, d, want)
			}
		}
	}
}

func TestDecideRules(t *testing.T) {
	p := NewPolicy(patterns(t, "api.orders.example", "*.cdn.example", "api.orders.example:8443", "plain.example", "two.example", "two.example:8443"), []Rule{
		{Host: mustPattern(t, "api.orders.example"), Ports: []uint16{443}, Methods: []string{"GET"}, Paths: paths(t, "/v1/orders/*")},
		{Host: mustPattern(t, "api.orders.example"), Ports: []uint16{443}, Methods: []string{"POST"}, Paths: paths(t, "/v1/refunds/drafts")},
		{Host: mustPattern(t, "*.cdn.example"), Methods: []string{"GET", "HEAD"}},
		{Host: mustPattern(t, "img.cdn.example:443"), Paths: paths(t, "/up/**")},
		{Host: mustPattern(t, "two.example:8443"), Methods: []string{"GET"}},
	})
	const host = "api.orders.example"
	tests := []struct {
		target Target
		want   Decision
	}{
		{request("GET", host, "/v1/orders/42"), Decision{Allow, "", host, "/v1/orders/*"}},
		{request("POST", host, "/v1/refunds/drafts"), Decision{Allow, "", host, "/v1/refunds/drafts"}},
		{request("GET", host, "/v1/refunds/drafts"), Decision{Deny, CodePath, host, ""}},
		{request("POST", host, "/v1/orders/42"), Decision{Deny, CodePath, host, ""}}, // one rule has the method, another the path
		{request("DELETE", host, "/v1/orders/42"), Decision{Deny, CodeMethod, host, ""}},
		{request("DELETE", host, "/nowhere"), Decision{Deny, CodeMethod, host, ""}},
		{request("get", host, "/v1/orders/42"), Decision{Deny, CodeMethod, host, ""}},
		{request("HEAD", host, "/v1/orders/42"), Decision{Deny, CodeMethod, host, ""}},
		{request("GET", host, "/v1/orders/../admin"), Decision{Deny, CodePath, host, ""}},
		{request("GET", host, "/v1/orders/%2e%2e/admin"), Decision{Deny, CodePath, host, ""}},
		{request("GET", host, "/v1/orders/%252e"), Decision{Deny, CodePath, host, ""}},
		{request("GET", host, ""), Decision{Deny, CodePath, host, ""}},
		{tunnel(host, 443), Decision{Allow, "", host, ""}},
		{tunnel(host, 80), Decision{Deny, CodeDomain, host, ""}},                                 // the rules leave 443 only
		{tunnel(host, 8443), Decision{Deny, CodeDomain, host + ":8443", ""}},                     // and an entry with a port is no way round
		{request("GET", "a.cdn.example", "/x;y/../z"), Decision{Allow, "", "*.cdn.example", ""}}, // no path rule here
		{request("PUT", "a.cdn.example", "/x"), Decision{Deny, CodeMethod, "*.cdn.example", ""}},
		{request("PUT", "img.cdn.example", "/up/1"), Decision{Allow, "", "img.cdn.example:443", "/up/**"}},
		{request("PUT", "img.cdn.example", "/down/1"), Decision{Deny, CodePath, "img.cdn.example:443", ""}},
		{request("GET", "img.cdn.example", "/down/1"), Decision{Allow, "", "*.cdn.example", ""}},
		{tunnel("img.cdn.example", 80), Decision{Allow, "", "*.cdn.example", ""}},
		{request("PUT", "two.example", "/"), Decision{Allow, "", "two.example", ""}}, // the rule speaks of 8443 only
		{Target{"https", "two.example", 8443, "PUT", "/"}, Decision{Deny, CodeMethod, "two.example:8443", ""}},
		{request("DELETE", "plain.example", "/x/../y"), Decision{Allow, "", "plain.example", ""}}, // no rule names it
	}
	for _, tt := range tests {
		if got := p.Decide(tt.target); got != tt.want {
			t.Errorf("%+v:\n got %+v\nwant %+v", tt.target, got, tt.want)
		}
	}
}

func TestNeedsIntercept(t *testing.T) {
	p := NewPolicy(patterns(t, "a.example", "b.example", "*.c.example", "d.example:8443"), []Rule{
		{Host: mustPattern(t, "a.example"), Ports: []uint16{443}, Methods: []string{"GET"}},
		{Host: mustPattern(t, "b.example"), Ports: []uint16{443}},
		{Host: mustPattern(t, "*.c.example"), Paths: paths(t, "/v1/*")},
		{Host: mustPattern(t, "d.example:8443"), Methods: []string{"GET"}},
	})
	tests := []struct {
		host string
		port uint16
		want bool
	}{
		{"a.example", 443, true}, {"a.example", 80, false}, {"b.example", 443, false}, {"x.y.c.example", 443, true},
		{"c.example", 443, false}, {"d.example", 8443, true}, {"d.example", 443, false}, {"e.example", 443, false},
	}
	for _, tt := range tests {
		if got := p.NeedsIntercept(tt.host, tt.port); got != tt.want {
			t.Errorf("%s:%d = %v", tt.host, tt.port, got)
		}
	}
}

func TestRuleValidate(t *testing.T) {
	host := mustPattern(t, "a.example")
	for want, r := range map[string]Rule{
		"":                {Host: host, Ports: []uint16{8443}, Methods: []string{"GET", "M-SEARCH"}},
		"names no host":   {},
		"a port already":  {Host: mustPattern(t, "a.example:443"), Ports: []uint16{443}},
		"0 is not a port": {Host: host, Ports: []uint16{0}},
		`"get"`:           {Host: host, Methods: []string{"GET", "get"}},
		`""`:              {Host: host, Methods: []string{""}},
	} {
		err := r.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A caller that keeps its slices must not be able to widen a policy that is in use.
func TestPolicyIsACopy(t *testing.T) {
	allowed := patterns(t, "a.example")
	rules := []Rule{{Host: mustPattern(t, "a.example"), Methods: []string{"GET"}}}
	p := NewPolicy(allowed, rules)
	allowed[0], rules[0] = mustPattern(t, "b.example"), Rule{}
	p.Allowed()[0], p.Rules()[0] = Pattern{}, Rule{}
	if d := p.Decide(request("PUT", "a.example", "/")); d.Code != CodeMethod {
		t.Errorf("%+v", d)
	}
}

// The index must say what a scan of the whole list says.
func TestIndexAgreesWithScan(t *testing.T) {
	texts := []string{"a.example", "*.a.example", "*.b.a.example:8443", "b.a.example:80", "198.51.100.7", "2001:db8::1"}
	p := NewPolicy(patterns(t, texts...), nil)
	for _, host := range []string{"a.example", "b.a.example", "c.b.a.example", "xa.example", "example", "198.51.100.7", "51.100.7", "2001:db8::1", "", "."} {
		for _, port := range []uint16{80, 443, 8443} {
			want := false
			for _, pattern := range p.Allowed() {
				want = want || pattern.Match(host, port)
			}
			if got := p.Decide(tunnel(host, port)).Verdict == Allow; got != want {
				t.Errorf("%q:%d: %v, scan %v", host, port, got, want)
			}
		}
	}
}

func bigPolicy(t testing.TB) *Policy {
	var allowed []Pattern
	for i := range 10_000 {
		text := fmt.Sprintf("api-%d.svc.example", i)
		if i%2 == 1 {
			text = fmt.Sprintf("*.cdn-%d.example", i)
		}
		allowed = append(allowed, mustPattern(t, text))
	}
	return NewPolicy(allowed, []Rule{
		{Host: mustPattern(t, "api-4242.svc.example"), Methods: []string{"GET", "POST"}, Paths: paths(t, "/v1/refunds/drafts", "/v1/orders/*")},
	})
}

func TestDecideDoesNotAllocate(t *testing.T) {
	p := bigPolicy(t)
	for _, target := range decideTargets {
		if n := testing.AllocsPerRun(100, func() { p.Decide(target.Target) }); n > 0 {
			t.Errorf("%s: %v allocations", target.name, n)
		}
	}
}
