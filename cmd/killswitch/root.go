package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	exitDone  = 0
	exitWrong = 1 // what was asked about is wrong: refused, not reached, not acknowledged by all
	exitUsage = 2 // the command line is wrong
)

// wrong is an error of the thing asked about. Its text may be empty when all has been printed already.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

var errPrinted = errors.New("")

// run is the program: arguments in, exit code out.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var w wrong
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &w):
		if !errors.Is(err, errPrinted) {
			fmt.Fprintf(stderr, "killswitch: %v\n", w.error)
		}
		return exitWrong
	default:
		fmt.Fprintf(stderr, "killswitch: %v; see %q\n", err, cmd.CommandPath()+" --help")
		return exitUsage
	}
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "killswitch",
		Short: "Toolgate's kill switch for a fleet: stop a tool, a caller, a run or a host everywhere, and see that it is stopped",
		Long: "Toolgate's kill switch for a fleet. The control plane keeps a signed log of revocations; every sidecar verifies it,\n" +
			"cuts what it covers and acknowledges. Begin with: killswitch serve --dir DIR",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(*cobra.Command, []string) error { return errors.New("found no command, expected one") },

		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newServe(), newRevoke(), newRestore(), newApprove(), newDecline(), newDrill(), newList(), newProposals(),
		newHistory(), newSidecars(), newStatus(), newWatch(), newExport(), newImport(), newVerify(), newCredentials(), newToken(), newKey(),
		newPermissions(), newVersion())
	return root
}

// knownCommand says which commands there are when the one given is none of them.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	text := fmt.Sprintf("found command %q, expected one of %s", args[0], strings.Join(names, ", "))
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return errors.New(text)
}

// flagsOnly refuses arguments that no command of ours takes.
func flagsOnly(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("found argument %q, expected flags only", args[0])
}

// one returns a check for exactly one argument, called what.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("found %d arguments, expected %s", len(args), what)
		}
		return nil
	}
}

// output is the value of -o.
type output struct{ format string }

// outputFlag adds -o to a command that prints a result.
func outputFlag(cmd *cobra.Command) *output {
	o := &output{}
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "`format` of the result: text or json")
	return o
}

func (o *output) valid() error {
	if !slices.Contains([]string{"text", "json"}, o.format) {
		return fmt.Errorf("found -o %q, expected text or json", o.format)
	}
	return nil
}

// print writes v as JSON, or has text write it for people.
func (o *output) print(w io.Writer, v any, text func(io.Writer)) error {
	if o.format != "json" {
		text(w)
		return nil
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return wrong{err}
	}
	return nil
}
