package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/redact"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the proxy until SIGTERM; SIGHUP or a changed file reloads the config",
		Args:  cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := config.Load(*path)
		if err != nil {
			return wrong{err}
		}
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer signal.Stop(signals)
		a, err := start(*path, s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		if err != nil {
			return wrong{safeError(err)}
		}
		return a.wait(signals)
	}
	return cmd
}

// wait serves until a signal ends the process. A second one ends the draining.
func (a *app) wait(signals <-chan os.Signal) error {
	for {
		select {
		case err := <-a.failed:
			a.log.Error("failed", "error", err)
			a.shutdown()
			return wrong{safeError(err)}
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				a.reload()
				continue
			}
			drained := make(chan struct{})
			go func() { a.shutdown(); close(drained) }()
			for {
				select {
				case <-drained:
					return nil
				case sig := <-signals:
					if sig != syscall.SIGHUP {
						a.log.Warn("second signal: not waiting for running calls")
						return wrong{errPrinted}
					}
				}
			}
		}
	}
}

// safeError is err as it may be printed.
func safeError(err error) error { return printable(redact.Text(err.Error())) }

type printable string

func (p printable) Error() string { return string(p) }
