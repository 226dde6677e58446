package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/inject/settings"
	"github.com/toolgate/toolgate/inject/webhook"
)

// current is the settings in force. A reload takes all of a file or nothing.
type current struct {
	path    string
	value   atomic.Pointer[settings.Settings]
	metrics *webhook.Metrics
	log     *slog.Logger
}

func loadSettings(path string, metrics *webhook.Metrics, log *slog.Logger) (*current, error) {
	s, err := settings.Load(path)
	if err != nil {
		return nil, err
	}
	c := &current{path: path, metrics: metrics, log: log}
	c.value.Store(s)
	metrics.SetSettings(s.Revision)
	return c, nil
}

// files are the settings' file and those that it names.
func (c *current) files() []string {
	s := c.value.Load()
	files := []string{c.path}
	for _, name := range []string{s.KillSwitch.PublicKeyFile, s.KillSwitch.CAFile, s.Gateway.CAFile} {
		if name != "" && !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(c.path), name)
		}
		if name != "" {
			files = append(files, name)
		}
	}
	return files
}

func (c *current) reload() {
	s, err := settings.Load(c.path)
	if err != nil {
		c.metrics.Reloaded("", err)
		c.log.Error("settings: the old ones stay", "error", err.Error())
		return
	}
	if s.Revision == c.value.Load().Revision {
		return
	}
	c.value.Store(s)
	c.metrics.Reloaded(s.Revision, nil)
	c.log.Info("settings: reloaded", "revision", s.Revision)
}

// run reads the settings again whenever they change, until ctx ends.
func (c *current) run(ctx context.Context) error {
	// A change between the first reading and the first look of the watch sends no event.
	again := time.AfterFunc(time.Second, c.reload)
	defer again.Stop()
	return config.Watch(ctx, c.log, c.files, c.reload)
}
