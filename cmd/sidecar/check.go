package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a config and its manifests, and name every mistake with file:line:col",
		Args:  cobra.NoArgs,
	}
	path := configFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.valid(cmd); err != nil {
			return err
		}
		s, problems := load(*path)
		if *output == "json" {
			if err := writeJSON(cmd.OutOrStdout(), checkResult(s, problems)); err != nil {
				return err
			}
		} else {
			printCheck(cmd.OutOrStdout(), cmd.ErrOrStderr(), s, problems)
		}
		if len(problems) > 0 {
			return wrong{errPrinted}
		}
		return nil
	}
	return cmd
}

// load reads the config and prepares the gates, so that check finds what run would.
func load(path string) (*config.Snapshot, []string) {
	s, err := config.Load(path)
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.String())
		}
		return nil, lines
	case err != nil:
		return nil, []string{err.Error()}
	}
	var lines []string
	if _, err := proxy.NewGates(s, nil, nil); err != nil {
		lines = append(lines, fmt.Sprintf("%s: %v", path, err))
	}
	if s.KillSwitch.File != "" {
		if _, err := config.LoadRevocations(s.KillSwitch.File); err != nil {
			lines = append(lines, err.Error())
		}
	}
	return s, lines
}

type checked struct {
	OK       bool     `json:"ok"`
	Revision string   `json:"policy_revision,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
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
	return r
}

func printCheck(stdout, stderr io.Writer, s *config.Snapshot, problems []string) {
	r := checkResult(s, problems)
	for _, w := range r.Warnings {
		fmt.Fprintf(stdout, "%s (warning)\n", w)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(stderr, p)
	}
	if !r.OK {
		fmt.Fprintf(stderr, "%s\n", plural(len(r.Problems), "problem"))
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

// format is the value of -o.
type format string

func outputFlag(cmd *cobra.Command) *format {
	f := format("text")
	cmd.Flags().StringVarP((*string)(&f), "output", "o", "text", "`format` of the result: text or json")
	return &f
}

func (f format) valid(cmd *cobra.Command) error {
	if f != "text" && f != "json" {
		return usage(cmd, fmt.Sprintf("found -o %q, expected text or json", string(f)))
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
