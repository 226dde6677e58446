package inject

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

func drift(t *testing.T, p Plan) *Drift {
	t.Helper()
	var d *Drift
	if err := Check(p); !errors.As(err, &d) {
		t.Fatalf("Check found %v, expected a Drift", err)
	}
	return d
}

// tamper changes the table as somebody with the capability could.
func tamper(t *testing.T, change func(*nftables.Conn)) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsDrift(t *testing.T) {
	newPod(t)
	tab := table()
	fence := chains(tab)[Fence]
	rules := func(t *testing.T, c *nftables.Conn) []*nftables.Rule {
		t.Helper()
		all, err := c.GetRules(tab, fence)
		if err != nil || len(all) == 0 {
			t.Fatalf("no rules: %v", err)
		}
		return all
	}
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	named := func(name string) []byte { return userdata.AppendString(nil, userdata.TypeComment, name) }
	for _, test := range []struct {
		name   string
		change func(*testing.T, *nftables.Conn)
		want   Drift
	}{
		{"the table", func(_ *testing.T, c *nftables.Conn) { c.DelTable(tab) }, Drift{Missing: []string{"the table toolgate"}}},
		{"the last rule", func(t *testing.T, c *nftables.Conn) {
			all := rules(t, c)
			if err := c.DelRule(all[len(all)-1]); err != nil {
				t.Fatal(err)
			}
		}, Drift{Missing: []string{"fence: everything else"}}},
		{"a rule in front", func(_ *testing.T, c *nftables.Conn) {
			c.InsertRule(&nftables.Rule{Table: tab, Chain: fence, Exprs: accept, UserData: named("x")})
		}, Drift{Extra: []string{"fence: x"}}},
		{"a rule of the same name", func(_ *testing.T, c *nftables.Conn) {
			c.AddRule(&nftables.Rule{Table: tab, Chain: fence, Exprs: accept, UserData: named("established")})
		}, Drift{Extra: []string{"fence: established"}}},
		{"what a rule does", func(t *testing.T, c *nftables.Conn) {
			all := rules(t, c)
			last := all[len(all)-1]
			last.Exprs = accept
			last.Table, last.Chain = tab, fence
			c.ReplaceRule(last)
		}, Drift{Changed: []string{"fence: everything else"}}},
		{"the policy", func(_ *testing.T, c *nftables.Conn) {
			open, policy := *fence, nftables.ChainPolicyAccept
			open.Policy = &policy
			c.AddChain(&open)
		}, Drift{Changed: []string{"type, hook or policy of chain fence"}}},
		{"a chain too many", func(_ *testing.T, c *nftables.Conn) {
			c.AddChain(&nftables.Chain{Name: "other", Table: tab})
		}, Drift{Extra: []string{"chain other"}}},
		{"a chain too few", func(_ *testing.T, c *nftables.Conn) {
			c.FlushChain(chains(tab)[Redirect])
			c.DelChain(chains(tab)[Redirect])
		}, Drift{Missing: []string{"chain redirect"}}},
		{"the order", func(t *testing.T, c *nftables.Conn) {
			first := rules(t, c)[0]
			if err := c.DelRule(first); err != nil {
				t.Fatal(err)
			}
			c.AddRule(&nftables.Rule{Table: tab, Chain: fence, Exprs: first.Exprs, UserData: first.UserData})
		}, Drift{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			apply(t, plan())
			tamper(t, func(c *nftables.Conn) { test.change(t, c) })
			got := drift(t, plan())
			if test.name == "the order" {
				if len(got.Changed) == 0 || !strings.HasSuffix(got.Changed[0], "(its place)") {
					t.Errorf("%v", got)
				}
				return
			}
			if !slices.Equal(got.Missing, test.want.Missing) || !slices.Equal(got.Changed, test.want.Changed) || !slices.Equal(got.Extra, test.want.Extra) {
				t.Errorf("found %+v, expected %+v", *got, test.want)
			}
		})
	}
}

// TestCheckOfAnotherPlan: each thing that a plan says is told apart.
func TestCheckOfAnotherPlan(t *testing.T) {
	newPod(t)
	for name, change := range map[string]func(*Plan){
		"another proxy":      func(p *Plan) { p.Proxy++ },
		"another uid":        func(p *Plan) { p.Tools[0].UID = 2009 },
		"another port":       func(p *Plan) { p.Tools[1].Listener = netip.MustParseAddrPort("127.0.0.1:15009") },
		"another loopback":   func(p *Plan) { p.Tools[2].Listener = netip.MustParseAddrPort("127.0.0.2:3128") },
		"explicit":           func(p *Plan) { p.Tools[0].Transparent = false },
		"one tool fewer":     func(p *Plan) { p.Tools = p.Tools[1:] },
		"another admin port": func(p *Plan) { p.Ports = []uint16{15021} },
		"a path":             func(p *Plan) { p.Paths = []Path{{toolA, toolB, 8000}} },
		"a name server":      func(p *Plan) { p.Tools[1].DNS = dnsPort },
		"a probe":            func(p *Plan) { p.Probes = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.254:15091")} },
		"without IPv6":       func(p *Plan) { p.IPv6 = false },
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, plan())
			other := plan()
			change(&other)
			drift(t, other)
		})
	}
}

// TestApplyTwice: the second time changes nothing, and another plan replaces the first whole.
func TestApplyTwice(t *testing.T) {
	newPod(t)
	apply(t, plan())
	apply(t, plan())
	other := plan()
	other.Tools = other.Tools[:1]
	apply(t, other)
	try(t, []attempt{{toolB, "tcp", https4, "refused"}, {toolA, "tcp", https4, "15001 " + https4}})
	if err := Remove(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(); err != nil {
		t.Fatalf("the second time: %v", err)
	}
	if got := drift(t, other).Missing; !slices.Equal(got, []string{"the table toolgate"}) {
		t.Errorf("after Remove: %v", got)
	}
}

// TestLargestPlan: the kernel takes the most tools that a plan may have, in one transaction.
func TestLargestPlan(t *testing.T) {
	newPod(t)
	p := Plan{Proxy: proxyUID, IPv6: true}
	for i := range MaxTools {
		p.Tools = append(p.Tools, Tool{
			UID: 3000 + uint32(i), Transparent: true, Listener: netip.AddrPortFrom(loopback4, 20000+uint16(i)), DNS: dnsPort + uint16(i),
		})
		p.Paths = append(p.Paths, Path{From: 4000 + uint32(i), To: 5000 + uint32(i), Port: 8000})
	}
	apply(t, p)
}

// TestInvalidPlanChangesNothing: neither Apply nor Check takes a plan that Validate refuses.
func TestInvalidPlanChangesNothing(t *testing.T) {
	newPod(t)
	apply(t, plan())
	if err := Apply(Plan{}); err == nil {
		t.Error("Apply took the zero plan")
	}
	if err := Check(Plan{}); err == nil {
		t.Error("Check took the zero plan")
	}
	if err := Check(plan()); err != nil {
		t.Error(err)
	}
}
