package main

import (
	"context"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/tracing"
	"github.com/toolgate/toolgate/tracing/otlp"
)

// openTracing begins to trace calls where the config names a collector. Whether one is there is not asked: calls do not need it.
func (a *app) openTracing(c config.Tracing) (err error) {
	if c.Endpoint == "" {
		return nil
	}
	a.tracer, err = tracing.New(tracing.Options{
		Collector:   otlp.Options{Endpoint: c.Endpoint, Protocol: c.Protocol, CAFile: c.CAFile, HeadersFile: c.HeadersFile},
		SampleRatio: c.SampleRatio, PerSecond: c.MaxPerSecond,
		Version: cli.Version(), Observe: a.metrics.Spans, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("tracing.endpoint: %w", err)
	}
	return nil
}

// flushTime is how long the collector may take, when the sidecar stops, for what is left.
const flushTime = 3 * time.Second

func (a *app) closeTracing() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	a.tracer.Close(ctx)
}
