package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// revocation is one in force, for a page.
type revocation struct {
	ID, Reason, By string
	Selector       *ledger.Selector
	At, Expires    time.Time
}

func (c *Console) revocations(p central.Principal) ([]revocation, error) {
	list, err := c.Service.List(p)
	all := make([]revocation, 0, len(list))
	for _, r := range list {
		all = append(all, revocation{r.ID, r.Reason, r.By, &r.Selector, r.At, r.Expires})
	}
	slices.SortFunc(all, func(a, b revocation) int { return b.At.Compare(a.At) })
	return all, err
}

// state is what the first page shows.
type state struct {
	Overview       central.Overview
	Revoked        []revocation
	Proposals      []ledger.Entry
	Tools, Tenants []central.Usage
	Silent         []central.SidecarInfo
}

// home shows what it can, also while the log cannot be read.
func (c *Console) home(v *visit) error {
	var s state
	var err error
	if s.Overview, err = c.Service.Overview(v.who); err != nil {
		return err
	}
	if s.Tools, s.Tenants, err = c.Service.Usage(v.who); err != nil {
		return err
	}
	if len(v.who.Tenants) == 0 {
		if s.Silent, err = c.Service.Roster(v.who); err != nil {
			return err
		}
		s.Silent = slices.DeleteFunc(s.Silent, func(i central.SidecarInfo) bool { return i.State != central.Silent && i.Refused == "" })
	}
	p := page{Title: "What is stopped", At: "home", Body: &s}
	status := http.StatusOK
	if s.Revoked, err = c.revocations(v.who); err == nil {
		s.Proposals, err = c.Service.Proposals(v.who)
	}
	if err != nil {
		problem := api.ProblemOf(err)
		p.Problem, status = &problem, problem.Status
	}
	return c.show(v, status, "home", p)
}

func (c *Console) sidecars(v *visit) error {
	list, err := c.Service.Roster(v.who)
	if err != nil {
		return err
	}
	return c.show(v, http.StatusOK, "sidecars", page{Title: "Sidecars", At: "sidecars", Body: list})
}

// perPage is how many entries of the history a page has.
const perPage = 100

func (c *Console) history(v *visit) error {
	var before uint64
	if text := v.Form.Get("before"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 53); err != nil {
			return &central.Error{Code: central.Invalid, Text: "before is no revision"}
		}
	}
	id := v.Form.Get("id")
	entries, err := c.Service.History(v.who, before, perPage, id)
	if err != nil {
		return err
	}
	body := struct {
		Entries []*ledger.Entry
		ID      string
		Before  uint64 // where the next page begins; 0: there is none
	}{entries, id, 0}
	if n := len(entries); n == perPage && entries[n-1].Revision > 1 {
		body.Before = entries[n-1].Revision
	}
	return c.show(v, http.StatusOK, "history", page{Title: "History", At: "history", Body: body})
}

// maxFound bounds each list of a search.
const maxFound = 50

// found is what a search shows.
type found struct {
	As             []field // ways to stop the very text
	Tools, Tenants []central.Usage
	Revoked        []revocation
	Sidecars       []central.SidecarInfo
	Entries        []*ledger.Entry
}

// search looks for a text in everything that who asks may see.
func (c *Console) search(v *visit) error {
	text := strings.TrimSpace(v.Form.Get("q"))
	if text == "" {
		return v.seeOther("/")
	}
	var f found
	tools, tenants, err := c.Service.Usage(v.who)
	if err != nil {
		return err
	}
	named := func(u central.Usage) bool { return has(text, u.Name) }
	f.Tools, f.Tenants = filter(tools, named), filter(tenants, named)
	revoked, err := c.revocations(v.who)
	if err != nil {
		return err
	}
	f.Revoked = filter(revoked, func(r revocation) bool { return has(text, append(valuesOf(r.Selector), r.ID, r.Reason, r.By)...) })
	if len(v.who.Tenants) == 0 {
		list, err := c.Service.Roster(v.who)
		if err != nil {
			return err
		}
		f.Sidecars = filter(list, func(s central.SidecarInfo) bool {
			return has(text, append(slices.Clone(s.Tools), s.Pod, s.Namespace, s.Node, s.Instance, s.User)...)
		})
	}
	entries, err := c.Service.History(v.who, 0, central.MaxPage, "")
	if err != nil {
		return err
	}
	f.Entries = filter(entries, func(e *ledger.Entry) bool {
		return has(text, append(valuesOf(e.Selector), e.ID, e.Reason, e.Ticket, e.By, e.ApprovedBy)...)
	})
	f.As = fields(&ledger.Selector{})[:7]
	return c.show(v, http.StatusOK, "search", page{Title: "Search: " + text, Query: text, Body: f})
}

func valuesOf(s *ledger.Selector) (all []string) {
	if s == nil {
		return nil
	}
	for _, f := range fields(s) {
		all = append(all, f.Values...)
	}
	return all
}

func has(text string, in ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

func filter[T any](list []T, keep func(T) bool) (some []T) {
	for _, v := range list {
		if len(some) < maxFound && keep(v) {
			some = append(some, v)
		}
	}
	return some
}
