package killswitch

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Scope is what a call is, for selectors to match. Empty strings match only selectors that do not name the field.
type Scope struct {
	Tool, Version          string
	Tenant, Subject, Agent string
	Task, Run              string
	CapabilityClasses      []string
	Risk                   string // low, medium, high, critical
	Host                   string // canonical

	// Inside is set for what carries calls that are guarded themselves: how many there were. Above 0 those are counted, and
	// it is not, though it is cut like any other.
	Inside *atomic.Int32
}

// counts reports whether it is a call of its own.
func (s *Scope) counts() bool { return s.Inside == nil || s.Inside.Load() == 0 }

// Revocation is one entry of the kill switch. At tells people when it was decided and has no effect: a revocation
// rules from the moment it is applied, also where At is in the future, since clocks differ and stopping late is worse.
type Revocation struct {
	ID       string
	Selector Selector
	Reason   string
	By       string
	At       time.Time
	Expires  time.Time // zero: until restored
}

// expired reports whether r no longer denies at this time.
func (r *Revocation) expired(now time.Time) bool {
	return !r.Expires.IsZero() && !now.Before(r.Expires)
}

// Tripped is the error of a denied call and the cause of a cut one.
type Tripped struct{ Revocation Revocation }

// Error names the revocation and its reason, quoted, since both are other people's text.
func (e *Tripped) Error() string {
	if e.Revocation.Reason == "" {
		return fmt.Sprintf("revoked by %q", e.Revocation.ID)
	}
	return fmt.Sprintf("revoked by %q: %q", e.Revocation.ID, e.Revocation.Reason)
}

// Stale is the error of a call of a high or critical tool, or of another risk that DenyStale named, while a source has not
// been heard for the switch's maxStale.
type Stale struct {
	Source string
	Age    time.Duration // negative: never heard
}

// Error names the source and how long ago it was heard.
func (e *Stale) Error() string {
	if e.Age < 0 {
		return fmt.Sprintf("kill switch source %q was never heard", e.Source)
	}
	return fmt.Sprintf("kill switch source %q was last heard %s ago", e.Source, e.Age.Round(time.Millisecond))
}

// Status is a view for metrics and readiness.
type Status struct {
	Revision uint64
	Active   int           // revocations in force now
	Age      time.Duration // since the least recently heard source was heard; negative: one never was; 0 without sources
	Stale    bool
	// StaleRisks are the risks of tools that are denied while it is stale.
	StaleRisks []string
	Sources    map[string]time.Duration // age by source
	Running    int                      // guarded calls
}
