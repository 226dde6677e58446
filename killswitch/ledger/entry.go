package ledger

import (
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// Op says what an entry does.
type Op string

// The operations of the log. An op that is not listed here is malformed.
const (
	Revoke  Op = "revoke"  // ID is revoked by Selector until Expires, or until restored
	Restore Op = "restore" // ID is revoked no longer
	Expire  Op = "expire"  // as Restore, by the control plane, after Expires
	Propose Op = "propose" // a second person must approve; changes nothing by itself
	Decline Op = "decline" // the proposal of revision Proposal is dropped
	Drill   Op = "drill"   // changes nothing; sidecars acknowledge it as they do a revocation
)

// Entry is one line of the log. Its wire form is its canonical JSON; Decode accepts no other.
type Entry struct {
	Version  int       `json:"v"`        // 1
	Log      string    `json:"log"`      // which log; chosen once, at random, by whoever began it
	Revision uint64    `json:"revision"` // 1, 2, 3 …
	Prev     Hash      `json:"prev"`     // of the entry before; empty at revision 1
	At       time.Time `json:"at"`       // when it was signed, by the signer's clock, UTC
	Op       Op        `json:"op"`
	ID       string    `json:"id"` // the revocation's, the drill's or the proposal's id
	Selector *Selector `json:"selector,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // UTC
	Reason   string    `json:"reason,omitempty"`
	Ticket   string    `json:"ticket,omitempty"`
	By       string    `json:"by"` // who; an e-mail address, a subject or a token's name

	Proposes   Op     `json:"proposes,omitempty"`    // Propose: Revoke or Restore
	Proposal   uint64 `json:"proposal,omitempty"`    // revision of the Propose that this entry carries out or declines
	ApprovedBy string `json:"approved_by,omitempty"` // the second person, where one was needed

	ApprovalReason string `json:"approval_reason,omitempty"` // the second person's own, if it gave one

	Signature
}

// Selector is killswitch.Selector in the log's JSON.
type Selector struct {
	Tool            []string `json:"tool,omitempty"`
	Version         []string `json:"version,omitempty"`
	Tenant          []string `json:"tenant,omitempty"`
	Subject         []string `json:"subject,omitempty"`
	Agent           []string `json:"agent,omitempty"`
	Task            []string `json:"task,omitempty"`
	Run             []string `json:"run,omitempty"`
	CapabilityClass []string `json:"capabilityClass,omitempty"`
	Risk            []string `json:"risk,omitempty"`
	Host            []string `json:"host,omitempty"`
	All             bool     `json:"all,omitempty"`
}

// SelectorOf returns s in the log's JSON.
func SelectorOf(s killswitch.Selector) *Selector {
	return &Selector{
		Tool: s.Tool, Version: s.Version, Tenant: s.Tenant, Subject: s.Subject, Agent: s.Agent, Task: s.Task, Run: s.Run,
		CapabilityClass: s.CapabilityClass, Risk: s.Risk, Host: s.Host, All: s.All,
	}
}

// KillSwitch returns the selector that the switch matches calls with.
func (s *Selector) KillSwitch() killswitch.Selector {
	return killswitch.Selector{
		Tool: s.Tool, Version: s.Version, Tenant: s.Tenant, Subject: s.Subject, Agent: s.Agent, Task: s.Task, Run: s.Run,
		CapabilityClass: s.CapabilityClass, Risk: s.Risk, Host: s.Host, All: s.All,
	}
}

// Revocation returns what a Revoke puts in force.
func (e *Entry) Revocation() killswitch.Revocation {
	return killswitch.Revocation{
		ID: e.ID, Selector: e.Selector.KillSwitch(), Reason: e.Reason, By: e.By, At: e.At, Expires: e.Expires,
	}
}

// Bounds of the texts in an entry, in bytes. They keep an entry far below any bus's message limit.
const (
	MaxID       = 128
	MaxText     = 1024 // reason, by, ticket, approved_by, approval_reason
	MaxSelector = 64 << 10
)

// check refuses what no control plane would sign.
func (e *Entry) check() error {
	switch {
	case e.Version != 1:
		return malformed("version %d is not 1", e.Version)
	case e.Log == "" || len(e.Log) > MaxID:
		return malformed("log id of %d bytes", len(e.Log))
	case e.Revision == 0 || e.Revision > maxRevision:
		return malformed("revision %d", e.Revision)
	case (e.Revision == 1) != (e.Prev == ""):
		return malformed("revision %d with prev %q", e.Revision, e.Prev)
	case e.At.IsZero() || e.At.Location() != time.UTC:
		return malformed("at is missing or not in UTC")
	case e.ID == "" || len(e.ID) > MaxID:
		return malformed("id of %d bytes", len(e.ID))
	case e.By == "":
		return malformed("by is missing")
	case e.ApprovalReason != "" && e.ApprovedBy == "":
		return malformed("a reason for an approval that nobody gave")
	case max(len(e.Reason), len(e.By), len(e.Ticket), len(e.ApprovedBy), len(e.ApprovalReason)) > MaxText:
		return malformed("a text is longer than %d bytes", MaxText)
	}
	return e.checkOp()
}

func (e *Entry) checkOp() error {
	effect := e.Op
	if e.Op == Propose {
		effect = e.Proposes
	} else if e.Proposes != "" {
		return malformed("proposes with op %q", e.Op)
	}
	switch effect {
	case Revoke:
		if e.Selector == nil {
			return malformed("a revocation without selector")
		}
		return e.Selector.check()
	case Restore, Expire, Decline, Drill:
		if e.Selector != nil || !e.Expires.IsZero() {
			return malformed("op %q with a selector or an expiry", e.Op)
		}
		if e.Op == Propose && effect != Restore {
			return malformed("proposes %q", e.Proposes)
		}
		if e.Op == Decline && e.Proposal == 0 {
			return malformed("decline without proposal")
		}
		return nil
	}
	return malformed("op %q, proposes %q", e.Op, e.Proposes)
}

func (s *Selector) check() error {
	if err := s.KillSwitch().Validate(); err != nil {
		return malformed("%v", err)
	}
	if n := len(canonical(s)); n == 0 || n > MaxSelector {
		return malformed("a selector of %d bytes", n)
	}
	return nil
}

// maxRevision is the largest integer that JSON numbers carry exactly (RFC 8785, section 3.2.2.3).
const maxRevision = 1<<53 - 1
