package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
)

// run is the program: arguments in, exit code out.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, newRoot(stdin, stdout, stderr), args, nil)
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "injector",
		Short: "Toolgate's injector: puts the sidecar into pods as they are created, and says why it refuses one",
	}, stdin, stdout, stderr, newServe(), newMutate(), newProbe())
}
