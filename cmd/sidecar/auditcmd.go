package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/cmd/cli"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read records: verify that none is changed or missing, and print them for people",
		Args:  cli.KnownCommand,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("found no command, expected export, tail or verify")
		},
	}
	cmd.AddCommand(newAuditExport(), newAuditTail(), newAuditVerify())
	return cmd
}

func newAuditVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Find what was changed, taken out, put in, moved or cut off in files of records",
		Long: "Find what was changed, taken out, put in, moved or cut off in files of one sidecar's records. Files with one name and\n" +
			"numbers behind it are put in order, as audit.rotate and logrotate number them; others are read as they are given.\n" +
			"- is the standard input.\n" +
			"The exit code is 0 if the chain is whole, 1 if something was found. Notes tell what these files alone cannot show.\n" +
			"Without --public-key a chain is believed the key that it names itself, which whoever writes all of it anew chooses.",
		Args: needFiles,
	}
	output := cli.OutputFlag(cmd)
	key := cmd.Flags().String("public-key", "", "the public `key` that signs: a PEM file, or ed25519: and base64url")
	closed := cmd.Flags().Bool("closed", false, "the last process has ended in order: its last line must be there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Valid(); err != nil {
			return err
		}
		r, err := verifyRecords(cmd.InOrStdin(), *key, *closed, args)
		if err != nil {
			return cli.Wrong(err)
		}
		if err := output.Print(cmd.OutOrStdout(), r, func(w io.Writer) { printVerified(w, cmd.ErrOrStderr(), r) }); err != nil {
			return err
		}
		if len(r.Findings) > 0 {
			return cli.Wrong(cli.ErrPrinted)
		}
		return nil
	}
	return cmd
}

func verifyRecords(stdin io.Reader, key string, closed bool, names []string) (audit.Report, error) {
	v := &audit.Verifier{}
	if key != "" {
		var err error
		if v.Key, err = publicKey(key); err != nil {
			return audit.Report{}, fmt.Errorf("--public-key: %w", err)
		}
	}
	for _, name := range audit.InOrder(names) {
		if err := readRecords(stdin, name, v.Read); err != nil {
			return audit.Report{}, err
		}
	}
	r := v.Report(closed)
	if r.Lines == 0 {
		return r, fmt.Errorf("found no line in %s, expected records", strings.Join(names, ", "))
	}
	return r, nil
}

func publicKey(arg string) ([]byte, error) {
	if strings.HasPrefix(arg, "ed25519:") {
		return audit.ParsePublicKey(arg)
	}
	text, err := os.ReadFile(filepath.Clean(arg))
	if err != nil {
		return nil, err
	}
	key, err := audit.ParsePublicKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	return key, nil
}

// readRecords opens a file of records, or the standard input, and hands it to read. Mistakes that people make with files are named.
func readRecords(stdin io.Reader, name string, read func(name string, r io.Reader) error) error {
	if name == "-" {
		return read("stdin", stdin)
	}
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.IsDir() {
		return fmt.Errorf("%s: found a folder, expected a file of records", name)
	}
	magic := make([]byte, 4)
	n, err := io.ReadFull(f, magic)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	magic = magic[:n]
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) || bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return fmt.Errorf("%s: found a compressed file, expected records as they were written; unpack it, as in: zcat %s | sidecar audit verify -", name, name)
	}
	return read(name, io.MultiReader(bytes.NewReader(magic), f))
}

func printVerified(stdout, stderr io.Writer, r audit.Report) {
	for _, f := range r.Findings {
		fmt.Fprintln(stdout, visible(f.String()))
	}
	for _, f := range r.Notes {
		fmt.Fprintln(stderr, "note: "+visible(f.String()))
	}
	if r.More > 0 {
		fmt.Fprintf(stderr, "%d more are not shown\n", r.More)
	}
	word := "whole"
	if n := len(r.Findings); n == 1 {
		word = "NOT whole: 1 finding"
	} else if n > 1 {
		word = fmt.Sprintf("NOT whole: %d findings", n)
	}
	fmt.Fprintf(stdout, "%s; %s, %s, %s with good signatures\n", word, plural(r.Records, "record"), plural(r.Chains, "chain"), plural(r.Checkpoints, "checkpoint"))
	if r.Lost > 0 {
		fmt.Fprintf(stdout, "the sidecar says that it dropped %s\n", plural(int(min(r.Lost, 1<<53)), "record"))
	}
	if r.Last.Seq > 0 {
		fmt.Fprintf(stdout, "last line: seq %d, hash %s\n", r.Last.Seq, r.Last.Hash)
	}
}
