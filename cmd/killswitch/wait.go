package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// waiting is how long a command waits for the fleet.
type waiting struct{ timeout time.Duration }

// waitFlags adds --timeout.
func waitFlags(cmd *cobra.Command) *waiting {
	w := &waiting{}
	cmd.Flags().DurationVar(&w.timeout, "timeout", 30*time.Second, "how long to wait for all sidecars; 0 does not wait")
	return w
}

// result is what a command that adds an entry prints as JSON.
type result struct {
	central.Outcome
	Progress *central.Progress `json:"progress,omitempty"`
}

// run sends the request and prints the fleet's progress until all have acknowledged or the time is over.
func (w *waiting) run(cmd *cobra.Command, c *client, out *cli.Output, q request) error {
	o, err := insist(cmd.Context(), cmd.ErrOrStderr(), true, q)
	if err != nil {
		return err
	}
	res := result{Outcome: o}
	if !o.NeedsApproval() && o.Entry.Op != ledger.Decline && w.timeout > 0 {
		p, err := w.follow(cmd, c, o.Entry.Revision)
		if err != nil {
			return err
		}
		res.Progress = &p
	}
	if err := out.Print(cmd.OutOrStdout(), res, res.text); err != nil {
		return err
	}
	if res.Progress != nil && !res.Progress.Done() {
		return cli.Wrong(cli.ErrPrinted)
	}
	return nil
}

// insist sends a request again while the control plane says that it cannot serve now, and when lost is set also while
// there is no answer: a request that writes has an id, which makes sure that it is done once.
func insist[T any](ctx context.Context, w io.Writer, lost bool, q func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		v, err := q(ctx)
		var no *refused
		again := lost && isUnreached(err) || errors.As(err, &no) && (no.Code == central.UnknownOutcome || no.Code == central.Unavailable)
		if !again || ctx.Err() != nil || time.Now().After(deadline) {
			return v, err
		}
		fmt.Fprintf(w, "%v; trying again\n", err)
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (w *waiting) follow(cmd *cobra.Command, c *client, revision uint64) (central.Progress, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), w.timeout)
	defer cancel()
	path := fmt.Sprintf("/v1/revisions/%d/progress", revision)
	ask := func(ctx context.Context, query string) (central.Progress, error) {
		return insist(ctx, cmd.ErrOrStderr(), true, func(ctx context.Context) (p central.Progress, err error) {
			return p, c.do(ctx, "GET", path+query, nil, &p)
		})
	}
	p, err := ask(cmd.Context(), "")
	if err != nil {
		return p, err
	}
	for said := ""; !p.Done(); {
		if now := counts(&p); now != said {
			fmt.Fprintln(cmd.ErrOrStderr(), now)
			said = now
		}
		next, err := ask(ctx, fmt.Sprintf("?wait=1&acks=%d", p.Acked))
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return p, err
		}
		p = next
	}
	return p, nil
}

func counts(p *central.Progress) string {
	text := fmt.Sprintf("%d of %s", p.Acked, plural(p.Expected, "sidecar", "sidecars"))
	if p.Warming {
		text += "; the control plane has just started and does not know all of them yet"
	}
	return text
}

func (r result) text(w io.Writer) {
	e := r.Entry
	again := ""
	if r.Repeat {
		again = " already"
	}
	switch e.Op {
	case ledger.Propose:
		fmt.Fprintf(w, "proposed%s as revision %d: %s %s\nanother person must carry it out: killswitch approve %d\n", again, e.Revision, e.Proposes, e.ID, e.Revision)
		return
	default:
		fmt.Fprintf(w, "%s %s%s at revision %d\n", done[e.Op], e.ID, again, e.Revision)
	}
	p := r.Progress
	if p == nil {
		return
	}
	fmt.Fprintf(w, "acknowledged by %s", counts(p))
	if p.Slowest > 0 {
		fmt.Fprintf(w, ", the last after %s", p.Slowest.Round(time.Millisecond))
	}
	if p.Cut > 0 {
		fmt.Fprintf(w, "; %s cut", plural(p.Cut, "running call", "running calls"))
	}
	fmt.Fprintln(w)
	for _, s := range p.Silent {
		fmt.Fprintf(w, "  silent: %s, last heard %s, at revision %d %s\n", place(s.Namespace, s.Pod, s.Instance), stamp(s.Seen), s.Revision, s.Refused)
	}
	if more := p.Expected - p.Acked - len(p.Silent); more > 0 {
		fmt.Fprintf(w, "  and %d more; killswitch sidecars has them all\n", more)
	}
}

var done = map[ledger.Op]string{
	ledger.Revoke: "revoked", ledger.Restore: "restored", ledger.Expire: "expired", ledger.Decline: "declined", ledger.Drill: "drilled",
}
