package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/redact"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a config and its manifests, and name every mistake with file:line:col",
		Args:  cli.FlagsOnly,
	}
	path := configFlag(cmd)
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.Valid(); err != nil {
			return err
		}
		s, problems := load(*path)
		err := output.Print(cmd.OutOrStdout(), checkResult(s, problems), func(stdout io.Writer) {
			printCheck(stdout, cmd.ErrOrStderr(), s, problems)
		})
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return cli.Wrong(cli.ErrPrinted)
		}
		return nil
	}
	return cmd
}

// load reads the config and prepares the gates, so that check finds what run would.
func load(path string) (*config.Snapshot, []string) {
	s, err := config.Load(path)
	if err != nil {
		return nil, problemLines(err)
	}
	var lines []string
	if _, err := proxy.NewGates(s, nil, nil, nil); err != nil {
		lines = append(lines, fmt.Sprintf("%s: %v", path, err))
	}
	if revocationsReadable(s) { // else a warning says so: a sidecar starts without the file, and holds risky tools
		if _, err := config.LoadRevocations(s.KillSwitch.File); err != nil {
			lines = append(lines, problemLines(err)...)
		}
	}
	if n := s.KillSwitch.NATS; len(n.Servers) > 0 && n.CredentialsFile != "" {
		if err := bus.CheckCredentials(n.CredentialsFile); err != nil {
			lines = append(lines, fmt.Sprintf("%s: killSwitch.nats.credentialsFile: %s: %v", path, n.CredentialsFile, err))
		}
	}
	return s, lines
}

// revocationsReadable tells a revocations file that is there, right or wrong, from one that nobody can read yet.
func revocationsReadable(s *config.Snapshot) bool {
	if s.KillSwitch.File == "" {
		return false
	}
	st, err := os.Stat(s.KillSwitch.File)
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(s.KillSwitch.File)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// problemLines is one line for each mistake of an error.
func problemLines(err error) []string {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return []string{redact.Text(err.Error())}
	}
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return lines
}

func printProblems(stderr io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(stderr, l)
	}
	fmt.Fprintln(stderr, plural(len(lines), "problem"))
}

type checked struct {
	OK       bool     `json:"ok"`
	Revision string   `json:"policy_revision,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

func checkResult(s *config.Snapshot, problems []string) checked {
	r := checked{OK: len(problems) == 0, Problems: problems}
	if s == nil {
		return r
	}
	r.Revision = s.Revision
	for name := range s.Tools {
		r.Tools = append(r.Tools, name)
	}
	slices.Sort(r.Tools)
	for _, w := range s.Defaults {
		r.Warnings = append(r.Warnings, w.String())
	}
	for _, n := range s.Notes {
		r.Notes = append(r.Notes, n.String())
	}
	return r
}

func printCheck(stdout, stderr io.Writer, s *config.Snapshot, problems []string) {
	r := checkResult(s, problems)
	for _, w := range r.Warnings {
		fmt.Fprintf(stdout, "%s (warning)\n", w)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(stdout, "%s (note)\n", n)
	}
	if !r.OK {
		printProblems(stderr, r.Problems)
		return
	}
	fmt.Fprintf(stdout, "ok: %s, %s, policy revision %s\n", plural(len(r.Tools), "tool"), plural(len(s.Listeners), "listener"), r.Revision)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
