package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/fixture/har"
	"github.com/toolgate/toolgate/fixture/replay"
	"github.com/toolgate/toolgate/proxy"
)

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Serve a HAR file as an upstream, for tests",
		Long: "Serve a HAR file, such as audit.capture writes, as an upstream. A client can take the printed address for its proxy\n" +
			"(HTTP_PROXY, HTTPS_PROXY) or for the upstream itself (a base URL). A request is answered by the entry of the same\n" +
			"method, host, path and query, and of the same body where entries differ in that alone; several are given in their order,\n" +
			"and the last of them again and again. Any other request is answered 404, with the entry that came nearest.\n" +
			"TLS needs --ca-out: the certificate in that file is for the client to trust.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("found %d arguments, expected one HAR file", len(args))
			}
			return nil
		},
	}
	listen := cmd.Flags().String("listen", "127.0.0.1:0", "the `address` to listen on; port 0 lets the system choose")
	caOut := cmd.Flags().String("ca-out", "", "make a CA, speak TLS with it, and write its certificate to this `file`")
	check := cmd.Flags().Bool("check", false, "only read the file, and say what is wrong with it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		archive, err := har.ReadFile(args[0])
		if err != nil {
			return cli.Wrong(err)
		}
		r, err := replay.New(archive)
		if err != nil {
			return cli.Wrong(fmt.Errorf("%s: %w", args[0], err))
		}
		if *check {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: HAR %s, %d of %s can be served\n", args[0], har.Version, r.Len(), entries(len(archive.Log.Entries)))
			return nil
		}
		if err := serveReplay(cmd, r, *listen, *caOut); err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func serveReplay(cmd *cobra.Command, r *replay.Replay, address, caOut string) error {
	s := &replay.Server{Replay: r}
	if caOut != "" {
		ca, err := proxy.NewCA()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Clean(caOut), ca.PEM(), 0o644); err != nil {
			return fmt.Errorf("--ca-out: %w", err)
		}
		s.Leaf = ca.Leaf
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	at := ln.Addr().String()
	if tcp, ok := ln.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: whoever reaches "+at+" is answered")
	}
	fmt.Fprintln(cmd.OutOrStdout(), "http://"+at)
	if err := s.Serve(ctx, ln); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
