//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// plane is a control plane: the killswitch program with the NATS server in it. The exported fields are what a sidecar needs.
type plane struct {
	NATS        string // host:port
	Credentials string // file
	Key         string

	program, dir, api string
	child             *child
}

func (l *lab) buildPlane(ctx context.Context) (string, error) {
	path := filepath.Join(l.dir, "killswitch")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/killswitch")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the control plane: %w\n%s", err, out)
	}
	return path, nil
}

// startPlane starts a control plane with a log of its own.
func (l *lab) startPlane(ctx context.Context, program string) (*plane, error) {
	p := &plane{program: program}
	var err error
	if p.dir, err = os.MkdirTemp(l.dir, "plane"); err != nil {
		return nil, err
	}
	if p.api, err = freeAddress(); err != nil {
		return nil, err
	}
	if p.NATS, err = freeAddress(); err != nil {
		return nil, err
	}
	p.Credentials = filepath.Join(p.dir, "sidecar.creds")
	return p, p.start(ctx)
}

// start starts it, at first or again, and returns when it is ready.
func (p *plane) start(ctx context.Context) (err error) {
	if p.child, err = spawn(ctx, -1, p.program, "serve", "--dir", p.dir, "--listen", p.api, "--nats-listen", p.NATS, "--warm-up", "1ms"); err != nil {
		return err
	}
	for {
		line, err := p.child.stdout.ReadString('\n')
		if err != nil {
			p.child.stop()
			return fmt.Errorf("the control plane did not start: %w: %s", err, p.child.errs.String())
		}
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), "publicKey: "); ok {
			p.Key = strings.Trim(key, `"`)
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, p.child.stdout) }()
	return waitReady(ctx, p.child, "http://"+p.api+"/readyz")
}

func (p *plane) metrics() string { return "http://" + p.api + "/metrics" }

// outcome is what the command prints.
type outcome struct {
	Entry struct {
		ID       string
		Revision uint64
		At       time.Time
	}
	Progress struct {
		Expected, Acked, Cut int
		Slowest              time.Duration `json:"slowest_ns"`
		Effect               time.Duration `json:"effect_ns"`
	}
	returned time.Time
}

// command runs the killswitch program as a person does. That all sidecars have acknowledged is a part of its success.
func (p *plane) command(ctx context.Context, args ...string) (*outcome, error) {
	args = append(args, "--server", "http://"+p.api, "--token-file", filepath.Join(p.dir, "admin.token"), "-o", "json")
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = []string{}
	text, err := cmd.Output()
	o := &outcome{returned: time.Now()}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("killswitch %s: %w", args[0], err)
	}
	return o, json.Unmarshal(text, o)
}

// live waits until the control plane counts n sidecars as live.
func (p *plane) live(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		now, err := scrapeOne(ctx, p.metrics(), `toolgate_central_sidecars{state="live"}`)
		if err != nil {
			return err
		}
		if int(now) >= n {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("the control plane counts %v of %d sidecars: %w", now, n, err)
		}
	}
}
