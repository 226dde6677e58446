package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// selectorFlags adds the fields of a selector. Each may be repeated, and then means "one of".
func selectorFlags(cmd *cobra.Command) *ledger.Selector {
	s := &ledger.Selector{}
	f := cmd.Flags()
	f.StringArrayVar(&s.Tool, "tool", nil, "calls of this tool; each of these may be repeated for \"one of\", and all given must match")
	f.StringArrayVar(&s.Version, "version", nil, "of this `version` of the tool")
	f.StringArrayVar(&s.Tenant, "tenant", nil, "for this `tenant`")
	f.StringArrayVar(&s.Subject, "subject", nil, "for this `subject`")
	f.StringArrayVar(&s.Agent, "agent", nil, "by this `agent`")
	f.StringArrayVar(&s.Task, "task", nil, "of this `task`")
	f.StringArrayVar(&s.Run, "run", nil, "of this `run`")
	f.StringArrayVar(&s.CapabilityClass, "capability-class", nil, "by tools of this capability `class`")
	f.StringArrayVar(&s.Risk, "risk", nil, "by tools of this `risk`: low, medium, high or critical")
	f.StringArrayVar(&s.Host, "host", nil, "to this `host`, or *.name for all below")
	f.BoolVar(&s.All, "all", false, "every call of everything")
	return s
}

func describe(s *ledger.Selector) string {
	if s == nil {
		return ""
	}
	if s.All {
		return "everything"
	}
	var parts []string
	add := func(name string, values []string) {
		if len(values) > 0 {
			parts = append(parts, name+"="+strings.Join(values, "|"))
		}
	}
	add("tool", s.Tool)
	add("version", s.Version)
	add("tenant", s.Tenant)
	add("subject", s.Subject)
	add("agent", s.Agent)
	add("task", s.Task)
	add("run", s.Run)
	add("capabilityClass", s.CapabilityClass)
	add("risk", s.Risk)
	add("host", s.Host)
	return strings.Join(parts, " ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
