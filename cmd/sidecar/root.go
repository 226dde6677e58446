package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
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
	err := root.Execute()
	var w wrong
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &w):
		if text := w.Error(); text != "" {
			fmt.Fprintf(stderr, "sidecar: %s\n", text)
		}
		return exitWrong
	default:
		fmt.Fprintf(stderr, "sidecar: %v\n", err)
		return exitUsage
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
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return usage(cmd, "name a command") },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err.Error()) })
	root.AddCommand(newRun(), newCheck(), newExplain(), newQuickstart(), newVersion())
	return root
}

// usage is an error of the command line, with where to read more.
func usage(cmd *cobra.Command, text string) error {
	return fmt.Errorf("%s; see %q", text, cmd.CommandPath()+" --help")
}

// configFlag adds --config, which every command but quickstart needs.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "the sidecar's config `file`")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was added one line above
	}
	return path
}
