package config

import "github.com/toolgate/toolgate/killswitch"

// revocations checks the entries of a revocations file against each other and each in itself.
func (l *loader) revocations(raw *rawRevocations) []killswitch.Revocation {
	set := make([]killswitch.Revocation, 0, len(raw.Revocations.V))
	ids := map[string]mark{}
	for _, f := range raw.Revocations.V {
		e := &f.V
		if first, twice := ids[e.ID.V]; twice && e.ID.ok {
			l.errorf(e.ID.at, "found id %s a second time, expected unique ids; the first is at %d:%d", quote(e.ID.V), first.line, first.col)
		} else if e.ID.ok {
			ids[e.ID.V] = e.ID.at
		}
		if e.At.ok && e.Expires.ok && !e.Expires.V.After(e.At.V) {
			l.errorf(e.Expires.at, "found expires at or before at, expected it later")
		}
		set = append(set, killswitch.Revocation{
			ID: e.ID.V, Selector: l.selector(&e.Selector), Reason: e.Reason.V, By: e.By.V, At: e.At.V, Expires: e.Expires.V,
		})
	}
	return set
}

// selector refuses what would cover nothing, or everything by accident.
func (l *loader) selector(f *field[rawSelector]) killswitch.Selector {
	raw := &f.V
	s := killswitch.Selector{
		Tool: plain(raw.Tool.V), Version: plain(raw.Version.V), Tenant: plain(raw.Tenant.V), Subject: plain(raw.Subject.V),
		Agent: plain(raw.Agent.V), Task: plain(raw.Task.V), Run: plain(raw.Run.V),
		CapabilityClass: plain(raw.CapabilityClass.V), Risk: plain(raw.Risk.V), Host: plain(raw.Host.V), All: raw.All.V,
	}
	known := len(l.mistakes)
	l.oneOfEach(raw.Risk.V, risk("").values())
	l.oneOfEach(raw.CapabilityClass.V, capabilityClass("").values())
	if !f.ok || len(l.mistakes) > known {
		return s
	}
	if err := s.Validate(); err != nil {
		l.errorf(f.at, "found a selector that cannot be used, expected another: %v", err)
	}
	return s
}

func (l *loader) oneOfEach(list names, values []string) {
	for _, v := range list {
		if v.ok && !contains(values, v.V) {
			l.errorf(v.at, "found string %s, expected %s", quote(v.V), oneOf(values, v.V))
		}
	}
}
