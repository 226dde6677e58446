//go:build linux

package cases

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tamper changes the pod's rules, in one transaction, as somebody with NET_ADMIN may.
func (p *pod) tamper(t *testing.T, change func(c *nftables.Conn, table *nftables.Table) error) {
	t.Helper()
	err := p.within(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table, err := c.ListTableOfFamily("toolgate", nftables.TableFamilyINet)
		if err == nil {
			err = change(c, table)
		}
		if err != nil {
			return err
		}
		return c.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lifted are ways in which the rules may go while the sidecar runs, with what /readyz says of them.
var lifted = map[string]struct {
	says   string
	change func(c *nftables.Conn, table *nftables.Table) error
}{
	"the table is deleted": {"not refused", func(c *nftables.Conn, table *nftables.Table) error { c.DelTable(table); return nil }},
	"the table is flushed": {"connections are lost", func(c *nftables.Conn, table *nftables.Table) error { c.FlushTable(table); return nil }},
	"the fence's chain is deleted": {"not refused", func(c *nftables.Conn, table *nftables.Table) error {
		chain := &nftables.Chain{Name: "fence", Table: table}
		c.FlushChain(chain)
		c.DelChain(chain)
		return nil
	}},
	"the redirection is deleted": {"nothing is redirected", func(c *nftables.Conn, table *nftables.Table) error {
		chain := &nftables.Chain{Name: "redirect", Table: table}
		c.FlushChain(chain)
		c.DelChain(chain)
		return nil
	}},
	"the rules of IPv4 are deleted": {"IPv4: ", withoutFamily(unix.NFPROTO_IPV4)},
	"the rules of IPv6 are deleted": {"IPv6: ", withoutFamily(unix.NFPROTO_IPV6)},
	"all is let through": {"not refused", func(c *nftables.Conn, table *nftables.Table) error {
		c.InsertRule(&nftables.Rule{
			Table: table, Chain: &nftables.Chain{Name: "fence", Table: table}, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}},
		})
		return nil
	}},
	"IPv6 is let through": {"IPv6: ", func(c *nftables.Conn, table *nftables.Table) error {
		c.InsertRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: "fence", Table: table}, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV6}},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
		return nil
	}},
}

// withoutFamily deletes every rule that asks for a family.
func withoutFamily(family byte) func(*nftables.Conn, *nftables.Table) error {
	return func(c *nftables.Conn, table *nftables.Table) error {
		for _, name := range []string{"redirect", "fence"} {
			rules, err := c.GetRules(table, &nftables.Chain{Name: name, Table: table})
			if err != nil {
				return err
			}
			for _, r := range rules {
				for i, e := range r.Exprs {
					m, ok := e.(*expr.Meta)
					if !ok || m.Key != expr.MetaKeyNFPROTO || i+1 == len(r.Exprs) {
						continue
					}
					if cmp, ok := r.Exprs[i+1].(*expr.Cmp); ok && cmp.Data[0] == family {
						if err := c.DelRule(r); err != nil {
							return err
						}
					}
				}
			}
		}
		return nil
	}
}

// fenceLifted: while the rules are not all there, the sidecar says so and denies what still comes to it. When they are back, it
// goes on.
func fenceLifted(t *testing.T, p *pod) {
	for what, l := range lifted {
		t.Run(what, func(t *testing.T) {
			p.tamper(t, l.change)
			body := ""
			eventually(t, "not ready", func() bool {
				var status int
				status, body = p.adminGet("/readyz")
				return status == http.StatusServiceUnavailable || status == 0 && what == "the table is flushed" // what is established is cut as well
			})
			if !strings.Contains(body, l.says) && body != "" {
				t.Errorf("/readyz says %s, expected %q", body, l.says)
			}
			eventually(t, "the log says so", func() bool { return strings.Contains(p.stderr.String(), "the fence is not in force; calls are denied") })
			if strings.Contains(what, "let through") { // what is captured still comes
				if n := p.metric(t, "toolgate_fence_in_force", ""); n != 0 {
					t.Errorf("toolgate_fence_in_force %d", n)
				}
				if out, code := p.curl(t, uid1, "upstream-ca.pem", append(resolve("a.wild.test", addrE1), "https://a.wild.test/")...); code != curlTLS {
					t.Errorf("a call: exit %d, %s", code, out)
				}
				if out, code := p.run(t, uid1, "getent", "ahostsv4", "a.wild.test"); code == 0 {
					t.Errorf("a name: %s", out)
				}
			}
			p.netinit(t)
			eventually(t, "ready again", p.ready)
			if n := p.metric(t, "toolgate_fence_in_force", ""); n != 1 {
				t.Errorf("afterwards toolgate_fence_in_force %d", n)
			}
			if out, code := p.curl(t, uid1, "upstream-ca.pem", "https://a.wild.test/"); code != 0 {
				records, log := p.records(), strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
				t.Errorf("afterwards: exit %d, %s; the last record is %+v, the log ends %s", code, out, records[len(records)-1], log[max(0, len(log)-3):])
			}
		})
	}
	denied := false
	for _, r := range p.records() {
		denied = denied || r.Code == "not_ready"
	}
	if !denied {
		t.Error("no call was denied as not_ready")
	}
	p.tap.forget() // without rules the tests' own probes went out
}

// fenceByItself: the sidecar finds out without being asked.
func fenceByItself(t *testing.T, p *pod) {
	p.tamper(t, lifted["the table is deleted"].change)
	eventually(t, "the log says so", func() bool { return strings.Contains(p.stderr.String(), "the fence is not in force") })
	p.netinit(t)
	eventually(t, "the log says that it is back", func() bool { return strings.Count(p.stderr.String(), "the fence is in force") == 2 })
	p.tap.forget()
}

// TestFenceExternal: rules that are somebody else's are not tested.
func TestFenceExternal(t *testing.T) {
	l := newLab(t)
	p := l.pod(t)
	p.settings.fence = "{rules: external}"
	p.writeAll(t)
	p.belongsToProxy(t)
	p.kill()
	p.tamper(t, lifted["the table is deleted"].change)
	p.again(t)
	if _, body := p.adminGet("/readyz"); strings.Contains(body, "fence") {
		t.Errorf("/readyz says %s", body)
	}
	if _, body := p.adminGet("/metrics"); strings.Contains(body, "toolgate_fence_in_force") {
		t.Error("there is a metric for it")
	}
}
