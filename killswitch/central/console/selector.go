package console

import (
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// field is one of a selector's, as a form has it.
type field struct {
	Name, Label, Hint string
	Values            []string
}

// fields are all of s but All, the usual ones first. Names are those of the log's JSON.
func fields(s *ledger.Selector) []field {
	return []field{
		{"tool", "Tool", "", s.Tool},
		{"tenant", "Tenant", "", s.Tenant},
		{"subject", "Subject", "whom it is done for", s.Subject},
		{"agent", "Agent", "", s.Agent},
		{"task", "Task", "", s.Task},
		{"run", "Run", "", s.Run},
		{"host", "Host", "a name, or *.name for all below", s.Host},
		{"version", "Version", "of the tool", s.Version},
		{"risk", "Risk", "low, medium, high or critical", s.Risk},
		{"capabilityClass", "Capability class", "of the tool", s.CapabilityClass},
	}
}

// selectorOf reads a selector from a form. Blanks around a value are dropped: pasted ones would make it cover nothing.
func selectorOf(form url.Values) *ledger.Selector {
	values := func(name string) (list []string) {
		for _, v := range form[name] {
			if v = strings.TrimSpace(v); v != "" {
				list = append(list, v)
			}
		}
		return list
	}
	return &ledger.Selector{
		Tool: values("tool"), Tenant: values("tenant"), Subject: values("subject"), Agent: values("agent"), Task: values("task"),
		Run: values("run"), Host: values("host"), Version: values("version"), Risk: values("risk"),
		CapabilityClass: values("capabilityClass"), All: form.Get("all") == "true",
	}
}

// confirmation is what a person types before s is stopped: the tool's name where s is about one, so that a slip shows.
func confirmation(s *ledger.Selector) string {
	switch {
	case s.All:
		return "everything"
	case len(s.Tool) == 1:
		return s.Tool[0]
	}
	return "stop"
}
