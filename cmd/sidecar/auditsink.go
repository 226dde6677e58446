package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
)

// openAudit starts the log of records. What a chain before left in the file is named in the first line of this one.
func (a *app) openAudit(c config.Audit, stdout, stderr io.Writer) error {
	p := &audit.Process{Version: cli.Version(), Every: c.Records, Interval: c.Interval, Told: a.checkpoint}
	if c.SigningKeyFile != "" {
		text, err := os.ReadFile(filepath.Clean(c.SigningKeyFile))
		if err != nil {
			return fmt.Errorf("audit.signingKeyFile: %w", err)
		}
		if p.Key, err = audit.ParseKey(text); err != nil {
			return fmt.Errorf("audit.signingKeyFile: %w", err)
		}
	}
	var w io.Writer
	switch c.Output {
	case "stdout":
		w = stdout
	case "stderr":
		w = stderr
	default:
		f, head, err := audit.OpenFile(c.Output, c.MaxBytes, c.Keep)
		if err != nil {
			return fmt.Errorf("audit.output: %w", err)
		}
		w, a.sink, p.Previous = f, f, head
	}
	a.audit = audit.New(w, audit.Options{Chain: c.Chain, Process: p, Observe: a.metrics.Record})
	return nil
}

// checkpoint puts the signed word on the records into the log, which leaves the machine by another way than they do: whoever cuts
// their end off, or writes all of them anew, does not have that copy.
func (a *app) checkpoint(c audit.Checkpoint) {
	a.log.Info("checkpoint of the records", slog.String("chain", c.Chain), slog.Uint64("seq", c.Seq), slog.String("line_hash", c.Hash),
		slog.String("signer", c.KeyID), slog.String("signed", c.Signature), slog.Time("at", c.Time))
}
