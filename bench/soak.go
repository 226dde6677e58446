//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// soak is a steady load on one sidecar, and what was seen of it.
type soak struct {
	lab     *lab
	proxy   *proxy
	config  *sidecarConfig
	cycle   time.Duration // of a reload, and of a revocation with its restoration
	every   time.Duration // between samples
	began   time.Time
	samples []soakSample

	mu      sync.Mutex
	done    map[string]int // operations that went as they should, by kind
	errs    map[string]int // those that did not, by kind and error
	changed time.Time      // of the last revocation or restoration
	revoked bool
}

// soakSample is what the process holds at one moment. Bytes, where it is not a count.
type soakSample struct {
	at                time.Duration
	rss, heap         float64
	files, goroutines float64
}

// runSoak keeps up the load for opt.soak, or until ctx ends, and writes the report. The error says what was unexpected.
func runSoak(ctx context.Context, opt *options, stdout, stderr io.Writer) error {
	s, err := soakFor(ctx, opt, stderr)
	if err != nil {
		return err
	}
	return errors.Join(s.verdict(), opt.write(s.report(opt), stdout))
}

func soakFor(ctx context.Context, opt *options, progress io.Writer) (*soak, error) {
	var err error
	if opt.peers, err = pick(allPeers, "toolgate-intercept+identity"); err != nil {
		return nil, err
	}
	l, err := openLab(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer l.close()
	s := &soak{
		lab: l, cycle: min(time.Minute, opt.soak/6), every: min(10*time.Second, opt.soak/60),
		done: map[string]int{}, errs: map[string]int{}, began: time.Now(), changed: time.Now(),
		config: &sidecarConfig{Issuer: l.issuer.URL, Audience: l.issuer.Audience, Intercept: true, KillSwitch: true},
	}
	if s.proxy, err = l.startSidecar(ctx, opt.uid, s.config); err != nil {
		return nil, err
	}
	defer s.proxy.child.stop()
	s.proxy.auth = "Bearer " + l.issuer.Token
	limited, cancel := context.WithTimeout(ctx, opt.soak)
	defer cancel()
	var load sync.WaitGroup
	for kind, worker := range s.workers() {
		load.Go(func() { s.keepAt(limited, kind, worker) })
	}
	s.watch(limited, progress)
	load.Wait()
	s.count(ctx, "the sidecar is alive", s.proxy.child.alive())
	s.count(ctx, "no reload failed", s.reloads(ctx))
	return s, nil
}

// count notes how an operation went. What fails because the soak ends is not counted.
func (s *soak) count(ctx context.Context, kind string, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.done[kind]++
	} else {
		s.errs[kind+": "+portless(err.Error())]++
	}
}

// portless makes errors of one kind equal, which name the client's port.
func portless(text string) string {
	fields := strings.Fields(text)
	for i, f := range fields {
		if host, _, ok := strings.Cut(f, ":"); ok && strings.HasPrefix(host, "127.") {
			fields[i] = host
		}
	}
	return strings.Join(fields, " ")
}

// keepAt repeats a worker, which returns when its connection ends, as it should or not.
func (s *soak) keepAt(ctx context.Context, kind string, worker func(context.Context) error) {
	name, _, _ := strings.Cut(kind, "#")
	for ctx.Err() == nil {
		if err := worker(ctx); err != nil {
			s.count(ctx, name, err)
			_ = pause(ctx, time.Second) // an error that repeats must not become the load
		}
	}
}

// watch samples the process until ctx ends. A sample that fails is an error of the soak.
func (s *soak) watch(ctx context.Context, progress io.Writer) {
	for pause(ctx, s.every) == nil {
		one, err := s.sample(ctx)
		if err != nil {
			s.count(ctx, "sample", err)
			continue
		}
		s.samples = append(s.samples, one)
		fmt.Fprintf(progress, "%7s  RSS %.1f MiB  heap %.1f MiB  fds %.0f  goroutines %.0f\n",
			one.at.Round(time.Second), one.rss/(1<<20), one.heap/(1<<20), one.files, one.goroutines)
	}
}

func (s *soak) sample(ctx context.Context) (one soakSample, err error) {
	one.at = time.Since(s.began)
	rss, err := residentBytes(s.proxy.child.pid())
	if err != nil {
		return one, err
	}
	files, err := openFiles(s.proxy.child.pid())
	if err != nil {
		return one, err
	}
	stats, err := scrape(ctx, s.proxy.metrics)
	if err != nil {
		return one, err
	}
	one.rss, one.files, one.heap, one.goroutines = float64(rss), float64(files), stats.heapInuse, stats.goroutines
	return one, nil
}

// reloads compares what the sidecar counted with the reloads that were asked for.
func (s *soak) reloads(ctx context.Context) error {
	ok, err := scrapeOne(ctx, s.proxy.metrics, `toolgate_config_reloads_total{result="ok"}`)
	if err != nil {
		return err
	}
	failed, err := scrapeOne(ctx, s.proxy.metrics, `toolgate_config_reloads_total{result="error"}`)
	if err != nil {
		return err
	}
	if failed > 0 || ok < float64(s.config.Revision) {
		return fmt.Errorf("%v reloads went well and %v failed, of %d", ok, failed, s.config.Revision)
	}
	return nil
}
