package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// complete lets a shell propose the fleet's tools and the closed sets. What cannot be asked is not proposed.
func complete(cmd *cobra.Command, r *remote) {
	tools := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var list []central.SidecarInfo
		if c, err := r.dial(); err == nil {
			_ = c.do(cmd.Context(), "GET", "/v1/sidecars", nil, &list)
		}
		var names []string
		for _, s := range list {
			names = append(names, s.Tools...)
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
	fixed := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	for flag, f := range map[string]cobra.CompletionFunc{
		"tool": tools,
		"risk": fixed("low", "medium", "high", "critical"),
		"capability-class": fixed("read_public", "read_private", "read_untrusted", "write_side_effect", "external_communication",
			"browser_or_code", "memory_write", "credential_use"),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err) // the flags were added before
		}
	}
}

// completeIDs proposes what is revoked.
func completeIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	value := func(name string) string { v, _ := cmd.Flags().GetString(name); return v }
	var list []ledger.Revocation
	if c, err := (&remote{value("server"), value("token-file"), value("ca-file")}).dial(); err == nil {
		_ = c.do(cmd.Context(), "GET", "/v1/revocations", nil, &list)
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID+"\t"+r.Reason)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
