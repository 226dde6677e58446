package central

import (
	"context"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Approve carries out the proposal of this revision. Whoever proposed it may not approve it. reason is the second person's own and may
// be empty; the proposal's stands in the entry anyway.
func (s *Service) Approve(ctx context.Context, p Principal, revision uint64, reason string) (Outcome, error) {
	if err := p.require(Responder); err != nil {
		return Outcome{}, err
	}
	return s.append(ctx, ledger.Revoke, func(v *View) (*ledger.Entry, error) {
		proposal, err := openProposal(v, &p, revision)
		if err != nil {
			return nil, err
		}
		if proposal.By == p.Name {
			return nil, refuse(Forbidden, "%q proposed it, so somebody else must approve it", p.Name)
		}
		if proposal.Proposes == ledger.Restore {
			if _, active := v.Get(proposal.ID); !active {
				return nil, refuse(Conflict, "%q is not in force any more; decline the proposal", proposal.ID)
			}
		}
		if !proposal.Expires.IsZero() && !proposal.Expires.After(v.Now) {
			return nil, refuse(Conflict, "what was proposed would have expired already")
		}
		e := v.Next(v.Now)
		e.Op, e.ID, e.Selector, e.Expires = proposal.Proposes, proposal.ID, proposal.Selector, proposal.Expires
		e.Reason, e.Ticket, e.By = proposal.Reason, proposal.Ticket, proposal.By
		e.Proposal, e.ApprovedBy, e.ApprovalReason = revision, p.Name, reason
		return e, nil
	})
}

// Decline drops the proposal of this revision. Whoever proposed it may take it back so.
func (s *Service) Decline(ctx context.Context, p Principal, revision uint64, why Reason) (Outcome, error) {
	if err := p.require(Responder); err != nil {
		return Outcome{}, err
	}
	return s.append(ctx, ledger.Decline, func(v *View) (*ledger.Entry, error) {
		proposal, err := openProposal(v, &p, revision)
		if err != nil {
			return nil, err
		}
		e := v.Next(v.Now)
		e.Op, e.ID, e.Reason, e.Ticket, e.By, e.Proposal = ledger.Decline, proposal.ID, why.Reason, why.Ticket, p.Name, revision
		return e, nil
	})
}

// Proposals returns those that wait for a second person, oldest first.
func (s *Service) Proposals(p Principal) ([]ledger.Entry, error) {
	if err := p.require(Viewer); err != nil {
		return nil, err
	}
	if err := s.log.readable(); err != nil {
		return nil, err
	}
	open := []ledger.Entry{}
	s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		for _, e := range v.Proposals() {
			if p.covers(selectorOf(v, &e)) {
				open = append(open, e)
			}
		}
	})
	return open, nil
}

func openProposal(v *View, p *Principal, revision uint64) (*ledger.Entry, error) {
	for _, e := range v.Proposals() {
		if e.Revision == revision && p.covers(selectorOf(v, &e)) {
			return &e, nil
		}
	}
	if len(p.Tenants) > 0 {
		return nil, errNotYours(p)
	}
	return nil, refuse(NotFound, "no proposal of revision %d is open: it was carried out or declined, or never was", revision)
}

func proposalFor(v *View, op ledger.Op, id string) *ledger.Entry {
	for _, e := range v.Proposals() {
		if e.Proposes == op && e.ID == id {
			return &e
		}
	}
	return nil
}

// selectorOf returns the selector that an entry is about: its own, or that of the revocation that it ends. Nil for drills.
func selectorOf(v *View, e *ledger.Entry) *ledger.Selector {
	if e.Selector != nil {
		return e.Selector
	}
	if known := v.ids[e.ID]; known != nil {
		return known.begun.Selector
	}
	return nil
}
