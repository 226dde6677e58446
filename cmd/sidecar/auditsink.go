package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/audit/ship"
	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/tracing/otlp"
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
	var spool ship.Spool
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
		if spool, err = followed(c, f); err != nil {
			return fmt.Errorf("audit.otlp: %w", err)
		}
	}
	o := audit.Options{Chain: c.Chain, Process: p, Observe: a.metrics.Record, Failed: func() { a.metrics.RecordFailed("output") }}
	if err := a.openShipper(c.OTLP, spool); err != nil {
		return err
	}
	if a.shipper != nil {
		o.Wrote = a.shipper.Wrote
	}
	a.audit = audit.New(w, o)
	return nil
}

// followed is the spool of records that go to a file: the file. What is a pipe or a device keeps nothing.
func followed(c config.Audit, f *audit.File) (ship.Spool, error) {
	if c.OTLP.Endpoint == "" || !f.Regular() {
		return nil, nil
	}
	return audit.Follow(c.Output)
}

// openShipper begins to send a copy of the records where the config names a collector. Whether one is there is not asked: calls do not
// need it.
func (a *app) openShipper(c config.AuditOTLP, spool ship.Spool) (err error) {
	if c.Endpoint == "" {
		return nil
	}
	if spool == nil {
		spool = ship.NewMemory(c.SpoolBytes)
	}
	a.shipper, err = ship.New(ship.Options{
		Collector: otlp.Options{Endpoint: c.Endpoint, Protocol: c.Protocol, CAFile: c.CAFile, HeadersFile: c.HeadersFile},
		Spool:     spool, Version: cli.Version(), Observe: a.metrics.Shipped, Failed: func() { a.metrics.RecordFailed("otlp") }, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("audit.otlp: %w", err)
	}
	a.metrics.Spool(a.shipper.Waiting)
	return nil
}

// closeAudit writes the last lines and sends them.
func (a *app) closeAudit() error {
	err := a.audit.Close(5 * time.Second)
	if err != nil {
		a.log.Error("records were lost", "error", err)
	}
	if a.sink != nil {
		err = errors.Join(err, a.sink.Close())
	}
	a.closeShipper()
	return err
}

func (a *app) closeShipper() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	a.shipper.Close(ctx)
}

// checkpoint puts the signed word on the records into the log, which leaves the machine by another way than they do: whoever cuts
// their end off, or writes all of them anew, does not have that copy.
func (a *app) checkpoint(c audit.Checkpoint) {
	a.log.Info("checkpoint of the records", slog.String("chain", c.Chain), slog.Uint64("seq", c.Seq), slog.String("line_hash", c.Hash),
		slog.String("signer", c.KeyID), slog.String("signed", c.Signature), slog.Time("at", c.Time))
}
