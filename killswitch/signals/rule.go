package signals

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// Rule says what to revoke for some events of a transmitter. Of the rules for an event, the first that fits its subject counts.
type Rule struct {
	Events []Event // of Actionable
	// Selector's fields. All that are used must be filled from the event, and one at least must have a placeholder: events never revoke
	// what the configuration alone names.
	Subject, Agent, Tenant, Task, Run, Tool Template
	// Broader names members of a complex subject that the rule may leave out, so that it revokes more than the event says.
	Broader []string
	Expires time.Duration // after the event was issued; 0: until restored
}

// MaxExpires is the longest Rule.Expires.
const MaxExpires = 366 * 24 * time.Hour

func (r *Rule) templates() [6]Template {
	return [...]Template{r.Subject, r.Agent, r.Tenant, r.Task, r.Run, r.Tool}
}

// Check returns an error that says why the rule cannot be used.
func (r *Rule) Check() error {
	if len(r.Events) == 0 {
		return errors.New("it has no events")
	}
	for _, e := range r.Events {
		if !slices.Contains(Actionable, e) {
			return fmt.Errorf("event %q is not known", e)
		}
	}
	for _, m := range r.Broader {
		if !slices.Contains(memberNames, m) {
			return fmt.Errorf("broader: %q is not a member of a subject", m)
		}
	}
	if r.Expires < 0 || r.Expires > MaxExpires {
		return fmt.Errorf("expires %s is not within 0 and %s", r.Expires, MaxExpires)
	}
	simple, complexed := false, false
	for _, t := range r.templates() {
		simple = simple || t.name != "" && t.member == ""
		complexed = complexed || t.member != ""
	}
	switch {
	case !simple && !complexed:
		return errors.New("no field of its selector has a placeholder, so that any event would revoke the same")
	case simple && complexed:
		return errors.New("its selector has placeholders of a simple and of a complex subject, which no event has both")
	}
	return nil
}

// selector maps a subject. ok is false when the rule does not fit it.
func (r *Rule) selector(s subject) (out killswitch.Selector, ok bool) {
	for member := range s {
		if !r.uses(member) && !slices.Contains(r.Broader, member) {
			return killswitch.Selector{}, false // it would revoke more than the event says
		}
	}
	templates := r.templates()
	several := 0
	for i, to := range []*[]string{&out.Subject, &out.Agent, &out.Tenant, &out.Task, &out.Run, &out.Tool} {
		if !templates[i].used() {
			continue
		}
		if *to = templates[i].fill(s); len(*to) == 0 {
			return killswitch.Selector{}, false
		}
		if len(*to) > 1 {
			several++
		}
	}
	// Two lists would also cover pairs that nobody named.
	if several > 1 || out.Validate() != nil {
		return killswitch.Selector{}, false
	}
	return out, true
}

func (r *Rule) uses(member string) bool {
	return slices.ContainsFunc(r.Templates(), func(t Template) bool { return t.name != "" && t.member == member })
}

// Templates returns the fields of the selector that are used.
func (r *Rule) Templates() []Template {
	all := r.templates()
	return slices.DeleteFunc(all[:], func(t Template) bool { return !t.used() })
}
