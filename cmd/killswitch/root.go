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
		Use:   "killswitch",
		Short: "Toolgate's kill switch for a fleet: stop a tool, a caller, a run or a host everywhere, and see that it is stopped",
		Long: "Toolgate's kill switch for a fleet. The control plane keeps a signed log of revocations; every sidecar verifies it,\n" +
			"cuts what it covers and acknowledges. Begin with: killswitch serve --dir DIR",
	}, stdin, stdout, stderr, newServe(), newRevoke(), newRestore(), newApprove(), newDecline(), newDrill(), newList(), newProposals(),
		newHistory(), newSidecars(), newStatus(), newWatch(), newExport(), newImport(), newVerify(), newCredentials(), newToken(), newKey(),
		newPermissions())
}
