package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// reason is what every action needs beside who.
func (v *visit) reason() (central.Reason, error) {
	why := central.Reason{Reason: strings.TrimSpace(v.Form.Get("reason")), Ticket: strings.TrimSpace(v.Form.Get("ticket"))}
	if why.Reason == "" {
		return why, &central.Error{Code: central.Invalid, Text: "the reason is missing"}
	}
	return why, nil
}

// question is a page that asks for a reason before something is done.
type question struct {
	Revocation   *revocation
	Proposal     *ledger.Entry
	Own          bool // who looks has proposed it
	SecondPerson bool
	Reason       string
	Ticket       string
}

func (c *Console) askRestore(v *visit) error { return c.showRestore(v, http.StatusOK, nil) }

func (c *Console) showRestore(v *visit, status int, problem *api.Problem) error {
	list, err := c.revocations(v.who)
	if err != nil {
		return err
	}
	id := v.Form.Get("id")
	i := slices.IndexFunc(list, func(r revocation) bool { return r.ID == id })
	if i < 0 {
		return &central.Error{Code: central.NotFound, Text: "nothing of this id is stopped now; the history says more"}
	}
	o, err := c.Service.Overview(v.who)
	if err != nil {
		return err
	}
	return c.show(v, status, "restore", page{Title: "Restore", Problem: problem, Body: question{
		Revocation: &list[i], SecondPerson: slices.Contains(o.SecondFor, "restore"), Reason: v.Form.Get("reason"), Ticket: v.Form.Get("ticket"),
	}})
}

func (c *Console) restore(v *visit) error {
	why, err := v.reason()
	if err == nil {
		var out central.Outcome
		if out, err = c.Service.Restore(v.Context(), v.who, v.PostForm.Get("id"), why); err == nil {
			return v.seeOther("/revisions/%d", out.Entry.Revision)
		}
	}
	if problem := api.ProblemOf(err); problem.Code == central.Invalid {
		return c.showRestore(v, problem.Status, &problem)
	}
	return err
}

func revisionOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return 0, &central.Error{Code: central.Invalid, Text: "this is no revision"}
	}
	return n, nil
}

func (c *Console) proposal(v *visit) error { return c.showProposal(v, http.StatusOK, nil) }

func (c *Console) showProposal(v *visit, status int, problem *api.Problem) error {
	n, err := revisionOf(v.Form.Get("revision"))
	if err != nil {
		return err
	}
	open, err := c.Service.Proposals(v.who)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open, func(e ledger.Entry) bool { return e.Revision == n })
	if i < 0 {
		return &central.Error{Code: central.NotFound, Text: "no proposal of this revision waits; the history says what became of it"}
	}
	q := question{Proposal: &open[i], Own: open[i].By == v.who.Name, Reason: v.Form.Get("reason")}
	list, err := c.revocations(v.who)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(r revocation) bool { return r.ID == q.Proposal.ID }); i >= 0 {
		q.Revocation = &list[i]
	}
	return c.show(v, status, "proposal", page{Title: "Proposal", Problem: problem, Body: q})
}

// approve takes a reason of its own, and needs none: the entry has the proposal's.
func (c *Console) approve(v *visit) error {
	n, err := revisionOf(v.PostForm.Get("revision"))
	if err != nil {
		return err
	}
	out, err := c.Service.Approve(v.Context(), v.who, n, v.PostForm.Get("reason"))
	if err != nil {
		return err
	}
	return v.seeOther("/revisions/%d", out.Entry.Revision)
}

func (c *Console) decline(v *visit) error {
	n, err := revisionOf(v.PostForm.Get("revision"))
	if err != nil {
		return err
	}
	why, err := v.reason()
	if err != nil {
		problem := api.ProblemOf(err)
		return c.showProposal(v, problem.Status, &problem)
	}
	out, err := c.Service.Decline(v.Context(), v.who, n, why)
	if err != nil {
		return err
	}
	return v.seeOther("/history?id=%s", url.QueryEscape(out.Entry.ID))
}

func (c *Console) askDrill(v *visit) error { return c.showDrill(v, http.StatusOK, nil) }

func (c *Console) showDrill(v *visit, status int, problem *api.Problem) error {
	return c.show(v, status, "drill", page{Title: "Drill", Problem: problem, Body: question{Reason: v.Form.Get("reason")}})
}

func (c *Console) drill(v *visit) error {
	why, err := v.reason()
	if err != nil {
		problem := api.ProblemOf(err)
		return c.showDrill(v, problem.Status, &problem)
	}
	out, err := c.Service.Drill(v.Context(), v.who, "", why)
	if err != nil {
		return err
	}
	return v.seeOther("/revisions/%d", out.Entry.Revision)
}

// followed is an entry and how far it has got.
type followed struct {
	Entry        *ledger.Entry
	Progress     central.Progress
	Acknowledged []central.Acknowledged // the slowest first, at most maxShown
	More         int                    // further ones
	Active       bool                   // the entry's id is in force now
}

const maxShown = 500

// revision shows an entry's way through the fleet, sidecar by sidecar.
func (c *Console) revision(v *visit) error {
	n, err := revisionOf(v.PathValue("revision"))
	if err != nil {
		return err
	}
	f := followed{}
	if f.Progress, err = c.Service.Progress(v.who, n); err != nil {
		return err
	}
	entries, err := c.Service.History(v.who, n+1, 1, "")
	if err != nil {
		return err
	}
	f.Entry = entries[0] // Progress has found it
	if f.Acknowledged, err = c.Service.Acknowledged(v.who, n); err != nil {
		return err
	}
	if extra := len(f.Acknowledged) - maxShown; extra > 0 {
		f.More, f.Acknowledged = extra, f.Acknowledged[:maxShown]
	}
	list, err := c.revocations(v.who)
	if err != nil {
		return err
	}
	f.Active = slices.ContainsFunc(list, func(r revocation) bool { return r.ID == f.Entry.ID })
	p := page{Title: "Revision " + strconv.FormatUint(n, 10), Body: &f}
	if f.Entry.Op != ledger.Propose && f.Entry.Op != ledger.Decline && !f.Progress.Done() {
		p.Refresh = 2
	}
	return c.show(v, http.StatusOK, "revision", p)
}
