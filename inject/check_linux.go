package inject

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Check reads the rules back. It returns nil if they are those of the plan and nothing else stands in our table, and a *Drift
// if they are not. Other errors: of Plan.Validate, ErrNotPermitted, ErrUnsupported, or of netlink. Other tables are not
// looked at: they can keep more from leaving, and nothing from being rejected.
func Check(p Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	c, err := nftables.New()
	if err != nil {
		return classified(err)
	}
	d := &Drift{}
	t, err := c.ListTableOfFamily(Table, nftables.TableFamilyINet)
	switch {
	case errors.Is(err, unix.ENOENT):
		d.Missing = append(d.Missing, "the table "+Table)
		return d
	case err != nil:
		return classified(err)
	case t.Flags != 0: // of which one is "dormant": rules that are there and do nothing
		d.Changed = append(d.Changed, fmt.Sprintf("the flags of the table (%#x)", t.Flags))
	}
	have, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return classified(err)
	}
	have = slices.DeleteFunc(have, func(c *nftables.Chain) bool { return c.Table.Name != Table })
	want := chains(table())
	for _, chain := range have {
		if want[Chain(chain.Name)] == nil {
			d.Extra = append(d.Extra, "chain "+chain.Name)
		}
	}
	for _, name := range everyChain() {
		i := slices.IndexFunc(have, func(c *nftables.Chain) bool { return c.Name == string(name) })
		if i < 0 {
			d.Missing = append(d.Missing, fmt.Sprintf("chain %s", name))
			continue
		}
		if !sameChain(have[i], want[name]) {
			d.Changed = append(d.Changed, fmt.Sprintf("type, hook or policy of chain %s", name))
		}
		rules, err := c.GetRules(t, want[name])
		if err != nil {
			return classified(err)
		}
		d.compare(name, planned(p, name), inForce(rules))
	}
	return d.err()
}

func sameChain(a, b *nftables.Chain) bool {
	return a.Type == b.Type && a.Hooknum != nil && *a.Hooknum == *b.Hooknum && a.Priority != nil && *a.Priority == *b.Priority &&
		a.Policy != nil && *a.Policy == *b.Policy
}

// kernelRule is a rule in a form that can be compared.
type kernelRule struct{ name, text string }

func planned(p Plan, chain Chain) []kernelRule {
	var all []kernelRule
	for _, r := range Rules(p) {
		if r.Chain == chain {
			all = append(all, kernelRule{r.Name, text(encode(r))})
		}
	}
	return all
}

func inForce(rules []*nftables.Rule) []kernelRule {
	var all []kernelRule
	for _, r := range rules {
		name, ok := userdata.GetString(r.UserData, userdata.TypeComment)
		if !ok {
			name = fmt.Sprintf("rule %d", r.Handle)
		}
		all = append(all, kernelRule{name, text(r.Exprs)})
	}
	return all
}

// text writes expressions down so that equal ones look alike.
func text(list []expr.Any) string {
	s := ""
	for _, e := range list {
		if ct, ok := e.(*expr.Ct); ok && ct.SourceRegister {
			e = &expr.Ct{Key: ct.Key} // all that the library reads back of a statement that sets
		}
		s += fmt.Sprintf("%T%+v\n", e, e)
	}
	return s
}

// compare adds to d how a chain's rules differ. Rules are known by their names; the order of those that both have counts.
func (d *Drift) compare(chain Chain, want, have []kernelRule) {
	label := func(r kernelRule) string { return fmt.Sprintf("%s: %s", chain, r.name) }
	named := func(list []kernelRule, name string) int {
		return slices.IndexFunc(list, func(r kernelRule) bool { return r.name == name })
	}
	last := -1
	for _, w := range want {
		i := named(have, w.name)
		switch {
		case i < 0:
			d.Missing = append(d.Missing, label(w))
			continue
		case have[i].text != w.text:
			d.Changed = append(d.Changed, label(w))
		case i < last:
			d.Changed = append(d.Changed, label(w)+" (its place)")
		}
		last = max(last, i)
	}
	for i, h := range have {
		if named(want, h.name) < 0 || named(have, h.name) != i {
			d.Extra = append(d.Extra, label(h))
		}
	}
}
