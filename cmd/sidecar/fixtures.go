package main

import (
	"context"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/fixture"
)

// openFixtures begins to capture calls where the config asks for it.
func (a *app) openFixtures(c config.Capture) (err error) {
	if c.Dir == "" {
		return nil
	}
	a.capture, err = fixture.Open(fixture.Options{
		Dir: c.Dir, MaxBodyBytes: c.MaxBodyBytes, MaxEntries: c.MaxEntries, MaxFileBytes: c.MaxFileBytes,
		Version: cli.Version(), Observe: a.metrics.Captures, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("audit.capture.dir: %w", err)
	}
	return nil
}

// fixtureTime is how long the writing of what was captured may take when the sidecar stops.
const fixtureTime = 3 * time.Second

func (a *app) closeFixtures() {
	ctx, cancel := context.WithTimeout(context.Background(), fixtureTime)
	defer cancel()
	a.capture.Close(ctx)
}
