package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the whole signed log, one entry a line, for verify and import",
		Args:  cli.FlagsOnly,
	}
	r := remoteFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := r.dial()
		if err != nil {
			return err
		}
		res, err := c.send(cmd.Context(), "GET", "/v1/export", "", nil)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(cmd.OutOrStdout(), res.Body); err != nil {
			return cli.Wrong(fmt.Errorf("the export breaks off: %w", err))
		}
		return nil
	}
	return cmd
}

func newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Give the control plane back the entries that its store has lost, from an export",
		Args:  cli.One("the file of an export"),
	}
	r := remoteFlags(cmd)
	out := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		c, err := r.dial()
		if err != nil {
			return err
		}
		f, err := os.Open(filepath.Clean(args[0]))
		if err != nil {
			return cli.Wrong(err)
		}
		defer func() { _ = f.Close() }()
		var added struct {
			Added int `json:"added"`
		}
		if err := c.do(cmd.Context(), "POST", "/v1/import", io.Reader(f), &added); err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), added, func(w io.Writer) {
			fmt.Fprintf(w, "%s added\n", plural(added.Added, "entry", "entries"))
		})
	}
	return cmd
}

// verified is what verify prints as JSON.
type verified struct {
	Log      string              `json:"log"`
	Entries  int                 `json:"entries"`
	Head     ledger.Hash         `json:"head"`
	InForce  []ledger.Revocation `json:"in_force"`
	Verified bool                `json:"verified"`
}

func newVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE --public-key KEY",
		Short: "Verify every signature and the chain of an export, without a network",
		Args:  cli.One("the file of an export"),
	}
	texts := cmd.Flags().StringArray("public-key", nil, "a public `key` that may have signed; repeat it for keys of earlier times")
	out := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		if len(*texts) == 0 {
			return errors.New("found no --public-key, expected one: serve prints it")
		}
		keys, err := ledger.ParseKeys(*texts...)
		if err != nil {
			return fmt.Errorf("--public-key: %w", err)
		}
		f, err := os.Open(filepath.Clean(args[0]))
		if err != nil {
			return cli.Wrong(err)
		}
		defer func() { _ = f.Close() }()
		entries, state, err := central.ReadExport(f, keys)
		if err != nil {
			return cli.Wrong(fmt.Errorf("%s: %w", args[0], err))
		}
		v := verified{state.Log, len(entries), state.Head, state.Active(), true}
		return out.Print(cmd.OutOrStdout(), v, func(w io.Writer) {
			fmt.Fprintf(w, "%s verified, log %s, head %s; %d in force\n", plural(v.Entries, "entry", "entries"), v.Log, v.Head, len(v.InForce))
		})
	}
	return cmd
}
