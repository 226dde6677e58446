package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	exitDone  = 0
	exitWrong = 1 // what was asked about is wrong: a pod refused, settings with mistakes
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
			fmt.Fprintf(stderr, "injector: %v\n", w.error)
		}
		return exitWrong
	default:
		fmt.Fprintf(stderr, "injector: %v; see %q\n", err, cmd.CommandPath()+" --help")
		return exitUsage
	}
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "injector",
		Short:         "Toolgate's injector: puts the sidecar into pods as they are created, and says why it refuses one",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(*cobra.Command, []string) error { return errors.New("found no command, expected one") },

		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newServe(), newMutate(), newProbe(), newVersion())
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
