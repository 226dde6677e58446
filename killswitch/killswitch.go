package killswitch

import (
	"context"
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
}

// Selector says which calls a revocation covers: within a field one of the values, across fields all that are given.
// A selector with no field covers nothing unless All is set, and All excludes every other field.
type Selector struct {
	Tool, Version, Tenant, Subject, Agent, Task, Run, CapabilityClass, Risk, Host []string
	All                                                                           bool
}

// Covers reports whether the selector matches s. Host values may be "*.x" (labels below x).
func (s Selector) Covers(sc Scope) bool { panic("contract") }

// Validate returns an error that says what is wrong: empty without All, All with others, an empty value, an unknown risk.
func (s Selector) Validate() error { panic("contract") }

// Revocation is one entry of the kill switch.
type Revocation struct {
	ID       string
	Selector Selector
	Reason   string
	By       string
	At       time.Time
	Expires  time.Time // zero: until restored
}

// Tripped is the error of a denied call and the cause of a cut one.
type Tripped struct{ Revocation Revocation }

func (e *Tripped) Error() string { panic("contract") }

// Stale is the error of a call of a high or critical tool while no source has been heard for MaxStale.
type Stale struct {
	Source string
	Age    time.Duration // negative: never heard
}

func (e *Stale) Error() string { panic("contract") }

// Status is a view for metrics and readiness.
type Status struct {
	Revision uint64
	Active   int           // revocations in force now
	Age      time.Duration // since the least recently heard source was heard; negative: one never was; 0 without sources
	Stale    bool
	Sources  map[string]time.Duration // age by source
	Running  int                      // guarded calls
}

// Switch holds the revocations of every source and the running calls. Create it with New.
type Switch struct{ _ struct{} }

// New returns a switch with the named sources, none of which has been heard yet. maxStale 0 disables staleness.
// With no source it never denies.
func New(maxStale time.Duration, sources ...string) *Switch { panic("contract") }

// Apply replaces the set of one source, cancels the running calls that it covers before it returns, raises the revision if
// the set differs, and counts as hearing the source. An unknown source is an error.
func (k *Switch) Apply(source string, set []Revocation) error { panic("contract") }

// Heard notes that the source was reached and had nothing new.
func (k *Switch) Heard(source string) { panic("contract") }

// Guard admits a call or refuses it with *Tripped or *Stale. The context that it returns is cancelled with cause
// *Tripped when a revocation that covers s arrives (or begins). The caller must call the function returned when the
// call ends.
func (k *Switch) Guard(ctx context.Context, s Scope) (context.Context, context.CancelFunc, error) {
	panic("contract")
}

// Check refuses like Guard but guards nothing.
func (k *Switch) Check(s Scope) error { panic("contract") }

// OnRevoke registers f to be called, after running calls were cancelled, with each revocation that is new. Not for use
// after the first Apply.
func (k *Switch) OnRevoke(f func(Revocation)) { panic("contract") }

// Status returns the present state.
func (k *Switch) Status() Status { panic("contract") }

// File is the source that reads a revocations file, such as a mounted ConfigMap.
type File struct {
	Path   string
	Name   string // the source's name in the Switch
	Switch *Switch
	Decode func(path string) ([]Revocation, error)
}

// Load reads the file and applies it. On an error the last good set goes on ruling and the source counts as not heard.
func (f *File) Load() error { panic("contract") }
