package console

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// stopForm is the page with the red button: first the selector, then what it would hit.
type stopForm struct {
	Selector      *ledger.Selector
	First, More   []field // of the selector; More is folded away unless it has values
	Open          bool
	Tools         []string // that the fleet has, to choose from
	Tenants       []string
	Preview       *preview
	ID            string // chosen here, so that the form sent twice is one revocation
	Reason        string
	Ticket        string
	Expires       string
	Lives         []life
	SecondPerson  bool // pressing the button makes a proposal
	ConfirmFailed bool
}

// preview is what a selector would hit.
type preview struct {
	central.Preview
	Total int // sidecars covered
}

// life is a choice of how long a revocation lasts.
type life struct {
	Value, Label string
	time.Duration
}

var lives = []life{
	{"", "until somebody restores it", 0}, {"1h", "1 hour", time.Hour}, {"4h", "4 hours", 4 * time.Hour},
	{"24h", "24 hours", 24 * time.Hour}, {"168h", "7 days", 7 * 24 * time.Hour},
}

func (c *Console) newStopForm(v *visit) (*stopForm, error) {
	f := &stopForm{
		Selector: selectorOf(v.Form), ID: v.Form.Get("id"), Reason: v.Form.Get("reason"), Ticket: v.Form.Get("ticket"),
		Expires: v.Form.Get("expires"), Lives: lives,
	}
	if f.ID == "" {
		f.ID = time.Now().UTC().Format("2006-01-02-150405-") + strings.ToLower(rand.Text()[:6])
	}
	all := fields(f.Selector)
	f.First, f.More = all[:2], all[2:]
	f.Open = slices.ContainsFunc(f.More, func(m field) bool { return len(m.Values) > 0 })
	tools, tenants, err := c.Service.Usage(v.who)
	for _, u := range tools {
		f.Tools = append(f.Tools, u.Name)
	}
	for _, u := range tenants {
		f.Tenants = append(f.Tenants, u.Name)
	}
	for _, t := range v.who.Tenants {
		if !slices.Contains(f.Tenants, t) {
			f.Tenants = append(f.Tenants, t)
		}
	}
	return f, err
}

// askStop shows the form, and what it would hit once there is a selector. Nothing changes by it.
func (c *Console) askStop(v *visit) error {
	f, err := c.newStopForm(v)
	if err != nil {
		return err
	}
	if v.Form.Get("preview") == "" {
		return c.showStop(v, http.StatusOK, f, nil)
	}
	if err := c.preview(v, f); err != nil {
		problem := api.ProblemOf(err)
		return c.showStop(v, problem.Status, f, &problem)
	}
	return c.showStop(v, http.StatusOK, f, nil)
}

func (c *Console) preview(v *visit, f *stopForm) error {
	p, err := c.Service.Preview(v.Context(), v.who, *f.Selector)
	if err != nil {
		return err
	}
	o, err := c.Service.Overview(v.who)
	f.Preview, f.SecondPerson = &preview{p, len(p.Covered) + p.More}, f.Selector.All && slices.Contains(o.SecondFor, "all")
	return err
}

func (c *Console) showStop(v *visit, status int, f *stopForm, problem *api.Problem) error {
	title := "Stop"
	if f.Preview != nil {
		title = "Stop this?"
	}
	return c.show(v, status, "stop", page{Title: title, At: "stop", Problem: problem, Body: f})
}

// stop revokes. What is missing or refused leads back to the form, with everything that was typed.
func (c *Console) stop(v *visit) error {
	f, err := c.newStopForm(v)
	if err != nil {
		return err
	}
	n, err := c.revoke(v, f)
	if err == nil {
		return v.seeOther("/revisions/%d", n)
	}
	problem := api.ProblemOf(err)
	if err := c.preview(v, f); err != nil && problem.Code == central.Invalid {
		problem = api.ProblemOf(err)
	}
	return c.showStop(v, problem.Status, f, &problem)
}

func (c *Console) revoke(v *visit, f *stopForm) (revision uint64, err error) {
	i := slices.IndexFunc(lives, func(l life) bool { return l.Value == f.Expires })
	if i < 0 {
		return 0, &central.Error{Code: central.Invalid, Text: "this is not one of the times to choose from"}
	}
	if strings.TrimSpace(f.Reason) == "" {
		return 0, &central.Error{Code: central.Invalid, Text: "the reason is missing: callers and auditors read it"}
	}
	word := confirmation(f.Selector)
	if f.ConfirmFailed = strings.TrimSpace(v.PostForm.Get("confirm")) != word; f.ConfirmFailed {
		return 0, &central.Error{Code: central.Invalid, Text: "nothing was stopped: to confirm, type “" + word + "”"}
	}
	q := central.Request{ID: f.ID, Selector: *f.Selector, Reason: f.Reason, Ticket: f.Ticket}
	if lives[i].Duration > 0 {
		q.Expires = time.Now().UTC().Add(lives[i].Duration).Truncate(time.Second)
	}
	out, err := c.Service.Revoke(v.Context(), v.who, q)
	var refusal *central.Error
	if errors.As(err, &refusal) && refusal.Code == central.Conflict && refusal.Entry != nil && refusal.Entry.By == v.who.Name &&
		same(refusal.Entry.Selector, f.Selector) {
		// The same form, sent a second time, a little later: its expiry differs.
		return refusal.Entry.Revision, nil
	}
	if err != nil {
		return 0, err
	}
	return out.Entry.Revision, nil
}

func same(a, b *ledger.Selector) bool {
	if a == nil || a.All != b.All {
		return false
	}
	other := fields(b)
	for i, f := range fields(a) {
		if !slices.Equal(f.Values, other[i].Values) {
			return false
		}
	}
	return true
}
