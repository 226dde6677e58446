package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/redact"
)

// run is the program: arguments in, exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run(context.Background(), newRoot(stdout, stderr), args, printWrong)
}

// printWrong prints an error of the thing asked about. Mistakes in files look the same from every command.
func printWrong(stderr io.Writer, err error) {
	var problems config.Problems
	if errors.As(err, &problems) {
		printProblems(stderr, problemLines(problems))
		return
	}
	for line := range strings.Lines(err.Error() + "\n") { // of several errors each has a line
		fmt.Fprintf(stderr, "sidecar: %s\n", redact.Text(strings.TrimSuffix(line, "\n")))
	}
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "sidecar",
		Short: "Toolgate's proxy beside a tool: it decides, brokers credentials, redacts, and can be stopped",
		Long: "Toolgate's proxy beside a tool. The tool reaches the network only through it, holds no credential,\n" +
			"and is cut off by the kill switch. Begin with: sidecar quickstart",
	}, os.Stdin, stdout, stderr, newRun(), newCheck(), newExplain(), newNetinit(), newAudit(), newReplay(), newQuickstart())
}

// configFlag adds --config, which every command but quickstart needs.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "the sidecar's config `file`, or env:NAME for the environment variable that holds it")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was added one line above
	}
	return path
}
