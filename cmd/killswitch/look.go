package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// looks completes a command that reads one thing and prints it.
func looks[T any](cmd *cobra.Command, path func() string, text func(io.Writer, T)) *cobra.Command {
	r := remoteFlags(cmd)
	out := cli.OutputFlag(cmd)
	cmd.Args = cli.FlagsOnly
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		c, err := r.dial()
		if err != nil {
			return err
		}
		v, err := insist(cmd.Context(), cmd.ErrOrStderr(), false, func(ctx context.Context) (v T, err error) {
			return v, c.do(ctx, "GET", path(), nil, &v)
		})
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), v, func(w io.Writer) {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			text(t, v)
			_ = t.Flush()
		})
	}
	return cmd
}

func at(path string) func() string { return func() string { return path } }

func newList() *cobra.Command {
	return looks(&cobra.Command{Use: "list", Short: "Print what is revoked"}, at("/v1/revocations"), func(w io.Writer, list []ledger.Revocation) {
		if len(list) == 0 {
			fmt.Fprintln(w, "nothing is revoked")
			return
		}
		fmt.Fprintln(w, "ID\tCOVERS\tREASON\tBY\tAT\tEXPIRES")
		for _, r := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, describe(&r.Selector), r.Reason, r.By, stamp(r.At), stamp(r.Expires))
		}
	})
}

func newProposals() *cobra.Command {
	return looks(&cobra.Command{Use: "proposals", Short: "Print what waits for a second person"}, at("/v1/proposals"), printEntries)
}

func newHistory() *cobra.Command {
	cmd := &cobra.Command{Use: "history", Short: "Print the log, newest first"}
	limit := cmd.Flags().Int("limit", 50, "the `number` of entries, at most 1000")
	before := cmd.Flags().Int("before", 0, "only entries before this `revision`")
	id := cmd.Flags().String("id", "", "only entries of this `id`")
	return looks(cmd, func() string {
		return fmt.Sprintf("/v1/history?limit=%d&before=%d&id=%s", *limit, *before, url.QueryEscape(*id))
	}, printEntries)
}

func printEntries(w io.Writer, entries []ledger.Entry) {
	if len(entries) == 0 {
		fmt.Fprintln(w, "there are none")
		return
	}
	fmt.Fprintln(w, "REVISION\tAT\tWHAT\tID\tCOVERS\tREASON\tBY")
	for i := range entries {
		printEntry(w, &entries[i])
	}
}

func printEntry(w io.Writer, e *ledger.Entry) {
	what, by := string(e.Op), e.By
	if e.Proposes != "" {
		what += " " + string(e.Proposes)
	}
	if e.ApprovedBy != "" {
		by += ", approved by " + e.ApprovedBy
	}
	if e.ApprovalReason != "" {
		by += ": " + e.ApprovalReason
	}
	fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Revision, stamp(e.At), what, e.ID, describe(e.Selector), e.Reason, by)
}

func newSidecars() *cobra.Command {
	return looks(&cobra.Command{Use: "sidecars", Short: "Print the sidecars, silent ones first"}, at("/v1/sidecars"), func(w io.Writer, list []central.SidecarInfo) {
		fmt.Fprintln(w, "STATE\tSIDECAR\tREVISION\tSEEN\tTOOLS\tREFUSES")
		for _, s := range list {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", s.State, place(s.Namespace, s.Pod, s.Instance), s.Revision, stamp(s.Seen), strings.Join(s.Tools, ","), s.Refused)
		}
	})
}

func newStatus() *cobra.Command {
	return looks(&cobra.Command{Use: "status", Short: "Print how the control plane and the fleet stand"}, at("/v1/overview"), func(w io.Writer, o central.Overview) {
		fmt.Fprintf(w, "log\t%s at revision %d\n", o.Log, o.Revision)
		fmt.Fprintf(w, "revoked\t%d, and %s\n", o.Revoked, plural(o.Proposals, "proposal", "proposals"))
		fmt.Fprintf(w, "sidecars\t%d live, %d silent, %d leaving; %d behind, %d refuse\n", o.Sidecars.Live, o.Sidecars.Silent, o.Sidecars.Leaving, o.Sidecars.Behind, o.Sidecars.Refuse)
		fmt.Fprintf(w, "public key\t%s\n", o.PublicKey)
		fmt.Fprintf(w, "NATS\t%s\n", o.Connection)
		if o.Unready != "" {
			fmt.Fprintf(w, "NOT READY\t%s\n", o.Unready)
		}
		if len(o.SecondFor) > 0 {
			fmt.Fprintf(w, "second person\tfor %s\n", strings.Join(o.SecondFor, " and "))
		}
		printSenders(w, o.Senders)
		for _, a := range o.Alarms {
			fmt.Fprintf(w, "ALARM\t%s: %s\n", a.Kind, a.Text)
		}
	})
}
