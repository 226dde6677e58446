package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/config"
)

// The exit codes of every command.
const (
	exitDone  = 0
	exitWrong = 1 // what was asked about is wrong: a config, a decision that denies, a run that failed
	exitUsage = 2 // the command line is wrong
)

// wrong is an error of the thing asked about. Its text may be empty when all has been printed already.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

var errPrinted = errors.New("")

// run is the program: arguments in, exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") { // the flags are those of a command that is none
			return knownCommand(root, args)
		}
		return err
	})
	cmd, err := root.ExecuteC()
	var w wrong
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &w):
		printWrong(stderr, w.error)
		return exitWrong
	default:
		fmt.Fprintf(stderr, "sidecar: %v; see %q\n", err, cmd.CommandPath()+" --help")
		return exitUsage
	}
}

// printWrong prints an error of the thing asked about. Mistakes in files look the same from every command.
func printWrong(stderr io.Writer, err error) {
	var problems config.Problems
	switch {
	case errors.Is(err, errPrinted):
	case errors.As(err, &problems):
		printProblems(stderr, problemLines(problems))
	default:
		fmt.Fprintf(stderr, "sidecar: %v\n", err)
	}
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "sidecar",
		Short: "Toolgate's proxy beside a tool: it decides, brokers credentials, redacts, and can be stopped",
		Long: "Toolgate's proxy beside a tool. The tool reaches the network only through it, holds no credential,\n" +
			"and is cut off by the kill switch. Begin with: sidecar quickstart",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(*cobra.Command, []string) error { return errors.New("found no command, expected one") },

		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newRun(), newCheck(), newExplain(), newNetinit(), newQuickstart(), newVersion())
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

// configFlag adds --config, which every command but quickstart needs.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "the sidecar's config `file`, or env:NAME for the environment variable that holds it")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was added one line above
	}
	return path
}
