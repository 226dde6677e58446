package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func newRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke --reason TEXT [--tool T] [--tenant T] …",
		Short: "Stop what a selector covers, everywhere, and wait until every sidecar has it in force",
		Long: "Stop what a selector covers: new calls are refused and running ones cut. It shows first what it would hit and asks;\n" +
			"then it waits until every live sidecar has acknowledged. The exit code is 1 when some have not within --timeout; the\n" +
			"revocation is in force all the same, and rules at each of them from the moment that it is reached.",
		Args: cli.FlagsOnly,
	}
	var q central.Request
	selector := selectorFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&q.Reason, "reason", "", "why; callers read it")
	f.StringVar(&q.Ticket, "ticket", "", "the `id` of a ticket")
	f.StringVar(&q.ID, "id", "", "the revocation's `id`; the same id again is the same revocation. Default: made up")
	expires := f.Duration("expires", 0, "after this `time` it ends by itself; default: not until restored")
	yes := f.BoolP("yes", "y", false, "do not show first, and do not ask")
	w := waitFlags(cmd)
	r := remoteFlags(cmd)
	out := cli.OutputFlag(cmd)
	complete(cmd, r)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		q.Selector = *selector
		if err := q.Selector.KillSwitch().Validate(); err != nil {
			return err
		}
		if q.Reason == "" {
			return errors.New("found no --reason, expected one: callers and auditors read it")
		}
		if *expires < 0 {
			return errors.New("found a negative --expires")
		}
		c, err := r.dial()
		if err != nil {
			return err
		}
		if q.ID == "" {
			// Chosen here, so that a request without an answer can be sent again.
			q.ID = time.Now().UTC().Format("2006-01-02-150405-") + strings.ToLower(rand.Text()[:6])
		}
		if !*yes {
			if err := confirm(cmd, c, q.Selector); err != nil {
				return err
			}
		}
		if *expires > 0 {
			q.Expires = time.Now().UTC().Add(*expires).Truncate(time.Second)
		}
		return w.run(cmd, c, out, func(ctx context.Context) (o central.Outcome, err error) {
			return o, c.do(ctx, "POST", "/v1/revocations", q, &o)
		})
	}
	return cmd
}

// confirm shows what would be hit and asks. Anything but a yes is a no.
func confirm(cmd *cobra.Command, c *client, s ledger.Selector) error {
	w := cmd.ErrOrStderr()
	var p central.Preview
	err := c.do(cmd.Context(), "POST", "/v1/preview", map[string]any{"selector": s}, &p)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "this stops: %s\n", describe(&s))
	fmt.Fprintf(w, "it covers %s of %d, with %s running now", plural(len(p.Covered)+p.More, "sidecar", "sidecars"), p.Live, plural(p.Calls, "call", "calls"))
	if p.Answered < p.Live {
		fmt.Fprintf(w, " (%d of %d sidecars have answered)", p.Answered, p.Live)
	}
	fmt.Fprintln(w)
	for i, t := range p.Covered {
		if i == 10 {
			fmt.Fprintf(w, "  … and %d more\n", len(p.Covered)+p.More-i)
			break
		}
		fmt.Fprintf(w, "  %-40s %s running  %s\n", place(t.Namespace, t.Pod, t.Instance), plural(t.Calls, "call", "calls"), strings.Join(t.Tools, ", "))
	}
	fmt.Fprint(w, "go on? [y/N] ")
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return cli.Wrong(err)
	}
	if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
		fmt.Fprintln(w)
		return cli.Wrong(errors.New("nothing was revoked; --yes does not ask"))
	}
	return nil
}

func place(namespace, pod, instance string) string {
	if pod == "" {
		return instance
	}
	if namespace == "" {
		return pod
	}
	return namespace + "/" + pod
}

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "restore ID",
		Short:             "End a revocation, and wait until every sidecar knows",
		Args:              cli.One("the id of a revocation; see killswitch list"),
		ValidArgsFunction: completeIDs,
	}
	var why central.Reason
	cmd.Flags().StringVar(&why.Reason, "reason", "", "why")
	cmd.Flags().StringVar(&why.Ticket, "ticket", "", "the `id` of a ticket")
	return writes(cmd, func(c *client, id string) (request, error) {
		return post(c, "/v1/revocations/"+url.PathEscape(id)+"/restore", why), nil
	})
}

func newApprove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve REVISION",
		Short: "Carry out somebody else's proposal",
		Args:  cli.One("the revision of a proposal; see killswitch proposals"),
	}
	var why central.Reason
	cmd.Flags().StringVar(&why.Reason, "reason", "", "why, beside the proposal's own reason")
	return writes(cmd, func(c *client, revision string) (request, error) {
		return post(c, "/v1/proposals/"+url.PathEscape(revision)+"/approve", why), nil
	})
}

func newDecline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decline REVISION",
		Short: "Drop a proposal",
		Args:  cli.One("the revision of a proposal; see killswitch proposals"),
	}
	var why central.Reason
	cmd.Flags().StringVar(&why.Reason, "reason", "", "why")
	return writes(cmd, func(c *client, revision string) (request, error) {
		return post(c, "/v1/proposals/"+url.PathEscape(revision)+"/decline", why), nil
	})
}

func newDrill() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Write an entry that changes nothing, and see every sidecar acknowledge it",
		Args:  cli.FlagsOnly,
	}
	var why central.Reason
	cmd.Flags().StringVar(&why.Reason, "reason", "", "why")
	return writes(cmd, func(c *client, _ string) (request, error) {
		return post(c, "/v1/drills", map[string]string{"id": "drill-" + strings.ToLower(rand.Text()[:10]), "reason": why.Reason}), nil
	})
}

// request asks the control plane to add an entry. It may be sent again.
type request func(context.Context) (central.Outcome, error)

func post(c *client, path string, body any) request {
	return func(ctx context.Context) (o central.Outcome, err error) {
		return o, c.do(ctx, "POST", path, body, &o)
	}
}

// writes completes a command that adds an entry and waits for the fleet. prepare is given its argument, if there is one.
func writes(cmd *cobra.Command, prepare func(c *client, arg string) (request, error)) *cobra.Command {
	w := waitFlags(cmd)
	r := remoteFlags(cmd)
	out := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		c, err := r.dial()
		if err != nil {
			return err
		}
		q, err := prepare(c, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return w.run(cmd, c, out, q)
	}
	return cmd
}
