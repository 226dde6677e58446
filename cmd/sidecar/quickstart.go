package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
)

func newQuickstart() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "See the whole idea work on loopback, in one process, with nothing installed",
		Long: "Starts, on loopback and in one process: an OIDC issuer with a token endpoint, an HTTPS upstream that demands a\n" +
			"scoped token, and the sidecar with a written-out config and manifest. Then takes a tour and prints what a tool\n" +
			"sees and what the record says. It stays up for you to try, unless --once is given.",
		Args: cli.FlagsOnly,
	}
	dir := cmd.Flags().String("dir", "toolgate-quickstart", "the `folder` for config, manifest, CA and records")
	once := cmd.Flags().Bool("once", false, "end after the tour; exit 0 only if every step did what it says")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := quickstart(cmd.Context(), cmd.OutOrStdout(), *dir, *once); err != nil {
			return cli.Wrong(safeError(err))
		}
		return nil
	}
	return cmd
}

func quickstart(ctx context.Context, out io.Writer, dir string, once bool) error {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := newWorld(dir)
	if err != nil {
		return err
	}
	defer w.close()
	path := filepath.Join(w.dir, "sidecar.yaml")
	s, err := config.Load(path)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(w.dir, "sidecar.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	a, err := start(path, s, out, log)
	if err != nil {
		return err
	}
	defer func() { _ = a.shutdown(context.WithoutCancel(ctx)) }() // every step has looked at what it needs
	fmt.Fprintf(out, "toolgate quickstart · everything on loopback, files in %s\n", w.shown)
	t := &tour{world: w, app: a, out: out}
	failed := t.run(ctx)
	if once {
		if failed > 0 {
			return fmt.Errorf("%s of the tour did not do what it says; see %s", plural(failed, "step"), filepath.Join(w.shown, "sidecar.log"))
		}
		return nil
	}
	t.invite()
	<-ctx.Done()
	return nil
}
