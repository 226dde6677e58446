package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/proxy"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --config FILE --tool T --url URL",
		Short: "Print the decision on a call, gate by gate, by the code that decides calls",
		Long: "Print the decision on a call, gate by gate, by the code that decides calls. The network is not touched unless\n" +
			"--resolve is given: then the token's signature is verified with its issuer's keys, and the host is resolved and\n" +
			"its addresses judged; or --exchange: then the signature is verified, and the call's credential is asked for as the\n" +
			"sidecar would, once. What came back is shown without the token. No upstream is contacted in any case.\n" +
			"The exit code is 0 if the call would be allowed, 1 if it would be denied.",
		Args: cli.FlagsOnly,
	}
	path := configFlag(cmd)
	output := cli.OutputFlag(cmd)
	var q proxy.Question
	var tokenFile string
	f := cmd.Flags()
	f.StringVar(&q.Tool, "tool", "", "the `name` of the tool that calls")
	f.StringVar(&q.URL, "url", "", "the `URL` that it calls, or host:port for a tunnel")
	f.StringVar(&q.Method, "method", "GET", "the HTTP `method`")
	f.StringVar(&tokenFile, "token-file", "", "a `file` that holds the caller's token")
	f.StringVar(&q.Workload, "workload", "", "of a gateway: the `id` of the workload that comes for the caller, taken as verified")
	f.BoolVar(&q.Absolute, "absolute", false, "the client asks the proxy for the https URL itself, without a tunnel")
	f.BoolVar(&q.Exchange, "exchange", false, "verify the token's signature, ask the issuer for the call's credential, and show what came back")
	f.BoolVar(&q.Network, "resolve", false, "verify the token's signature, resolve the host and judge its addresses")
	for _, name := range []string{"tool", "url"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was added above
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.Valid(); err != nil {
			return err
		}
		q.Method = strings.ToUpper(q.Method)
		e, err := explain(cmd.Context(), *path, tokenFile, q)
		if err != nil {
			return cli.Wrong(err)
		}
		err = output.Print(cmd.OutOrStdout(), e, func(w io.Writer) { printExplanation(w, e) })
		switch {
		case err != nil:
			return err
		case e.Decision != "allow":
			return cli.Wrong(cli.ErrPrinted)
		}
		return nil
	}
	return cmd
}

func explain(ctx context.Context, path, tokenFile string, q proxy.Question) (proxy.Explanation, error) {
	s, err := config.Load(path)
	if err != nil {
		return proxy.Explanation{}, err
	}
	if s.Tools[q.Tool] == nil {
		return proxy.Explanation{}, fmt.Errorf("found --tool %q, expected one of: %s", q.Tool, strings.Join(toolNames(s), ", "))
	}
	if tokenFile != "" {
		file := identity.TokenFile{Path: tokenFile}
		if q.Token, err = file.Token(); err != nil {
			return proxy.Explanation{}, fmt.Errorf("--token-file: %w", err)
		}
	}
	gates, err := proxy.NewGates(s, configuredAddresses(s), nil, nil)
	if err != nil {
		return proxy.Explanation{}, err
	}
	kill, err := presentSwitch(s)
	if err != nil {
		return proxy.Explanation{}, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	return proxy.Explain(ctx, gates, kill, q), nil
}

func toolNames(s *config.Snapshot) []string {
	var names []string
	for name := range s.Tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// configuredAddresses are those that a sidecar with this config listens on and lets no tool reach. A port that the system
// chooses is not known here.
func configuredAddresses(s *config.Snapshot) []netip.AddrPort {
	texts := []string{s.Admin}
	for _, l := range s.Listeners {
		texts = append(texts, l.Address)
	}
	var own []netip.AddrPort
	for _, text := range texts {
		if ap, err := netip.ParseAddrPort(text); err == nil && ap.Port() != 0 {
			own = append(own, ap)
		}
	}
	return own
}

func printExplanation(w io.Writer, e proxy.Explanation) {
	stage := ""
	for _, s := range e.Steps {
		if s.Stage != stage { // a call through an intercepted tunnel is judged twice
			stage = s.Stage
			fmt.Fprintln(w, stage)
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-12s %-22s %s", s.Gate, s.Result, s.Detail), " "))
	}
	if e.Exchange != nil {
		printTrial(w, e.Exchange)
	}
	if e.Decision == "allow" {
		fmt.Fprintf(w, "\nallow: %s", e.Handling)
		if e.Rule != "" {
			fmt.Fprintf(w, " by %q", e.Rule)
		}
		if e.WouldDeny != "" {
			fmt.Fprintf(w, ", though enforcing would deny it: %s", e.WouldDeny)
		}
		fmt.Fprintf(w, ", policy revision %s\n", e.PolicyRevision)
		return
	}
	fmt.Fprintf(w, "\ndeny: %d %s, policy revision %s\n%s\n", e.Status, e.Code, e.PolicyRevision, e.Detail)
	for _, s := range e.NextSteps {
		fmt.Fprintf(w, "  - %s\n", s)
	}
}

// printTrial prints what asking for the credential brought.
func printTrial(w io.Writer, t *broker.Trial) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %-18s %s\n", name, value)
		}
	}
	fmt.Fprintln(w, "exchange")
	line("binding", t.Binding+" ("+t.Kind+")")
	for _, a := range t.Asked {
		line("endpoint", a.Endpoint)
		for _, p := range a.Sent {
			line("  sent", p.Name+" = "+p.Value)
		}
		if a.Status == 0 {
			line("  answered", "nothing")
			continue
		}
		line("  answered", strconv.Itoa(a.Status))
		for _, p := range []broker.Pair{
			{Name: "issued_token_type", Value: a.IssuedTokenType}, {Name: "token_type", Value: a.TokenType},
			{Name: "expires_in", Value: a.ExpiresIn}, {Name: "scope", Value: a.Scope},
		} {
			line("  "+p.Name, p.Value)
		}
		for _, p := range a.Claims {
			line("  claim", p.Name+" = "+p.Value)
		}
	}
	if t.Reason != "" {
		line("refused", string(t.Reason))
		line("why", t.Cause)
		line("what to do", t.Remedy)
		return
	}
	if !t.Expires.IsZero() {
		line("good until", t.Expires.UTC().Format(time.RFC3339))
	}
	line("result", "a credential that would be sent")
}
