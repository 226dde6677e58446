package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/redact"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the proxy until SIGTERM; SIGHUP or a changed file reloads the config",
		Args:  cli.FlagsOnly,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := config.Load(*path)
		if err != nil {
			return cli.Wrong(err)
		}
		signal.Ignore(syscall.SIGPIPE) // whoever reads the records or the log may go; what cannot be recorded is denied
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer signal.Stop(signals)
		a, err := start(*path, s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		if err != nil {
			return cli.Wrong(safeError(err))
		}
		// An idle sidecar would keep what its start has used, a quarter of its own memory, and there is one in every pod.
		debug.FreeOSMemory()
		return a.wait(signals)
	}
	return cmd
}

// wait serves until a signal ends the process. A second one ends the draining: what runs is cut, and recorded.
func (a *app) wait(signals <-chan os.Signal) error {
	for {
		select {
		case err := <-a.failed:
			a.log.Error("failed", "error", err)
			return cli.Wrong(safeError(errors.Join(err, a.shutdown(context.Background()))))
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				a.log.Info("SIGHUP: reading the config again")
				a.reload()
				continue
			}
			return a.drain(signals)
		}
	}
}

func (a *app) drain(signals <-chan os.Signal) error {
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	drained := make(chan error, 1)
	go func() { drained <- a.shutdown(ctx) }()
	for {
		select {
		case err := <-drained:
			if err != nil {
				return cli.Wrong(safeError(err))
			}
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				a.log.Warn("second signal: running calls are cut")
				cut()
			}
		}
	}
}

// safeError is err as it may be printed.
func safeError(err error) error { return printable(redact.Text(err.Error())) }

type printable string

func (p printable) Error() string { return string(p) }
