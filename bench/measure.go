//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// results holds every sample: row, peer, round. A sample that failed or was not reached is nil.
type results struct {
	samples    map[string]map[string][]sample
	failures   []error
	began      time.Time
	took       time.Duration
	loadBefore string // load average of one minute
	loadAfter  string
}

// of returns a metric of one peer, one value per round, NaN where there is none.
func (r *results) of(row, peer, metric string) []float64 {
	var out []float64
	for _, s := range r.samples[row][peer] {
		v, ok := s[metric]
		if !ok {
			v = math.NaN()
		}
		out = append(out, v)
	}
	return out
}

// measureAll goes round by round; within a round, row by row; within a row, the peers take turns, so that what disturbs
// the machine for a while disturbs them all. The order of the peers moves on by one each round. The results hold what was measured
// also when there is an error: a sample failed, or the run was interrupted.
func measureAll(ctx context.Context, opt *options, progress io.Writer) (*results, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res := &results{samples: map[string]map[string][]sample{}, began: time.Now(), loadBefore: loadAverage()}
	l, err := openLab(ctx, opt)
	if err != nil {
		return res, err
	}
	defer l.close()
	for _, row := range opt.rows {
		res.samples[row.name] = map[string][]sample{}
	}
	for round := range opt.rounds {
		for _, row := range opt.rows {
			if row.once && round > 0 {
				continue
			}
			l.round(ctx, res, row, round, progress)
		}
		if ctx.Err() != nil {
			res.failures = append(res.failures, fmt.Errorf("stopped in round %d: %w", round+1, context.Cause(ctx)))
			break
		}
	}
	res.took, res.loadAfter = time.Since(res.began), loadAverage()
	return res, errors.Join(res.failures...)
}

// round takes one sample of each peer in a row.
func (l *lab) round(ctx context.Context, res *results, row *row, round int, progress io.Writer) {
	peers := l.opt.in(row)
	for _, peer := range peers {
		res.samples[row.name][peer.name] = append(res.samples[row.name][peer.name], nil)
	}
	for i := range peers {
		peer := peers[(i+round)%len(peers)]
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(progress, "round %d/%d  %-14s %s\n", round+1, l.opt.rounds, row.name, peer.name)
		s, err := l.one(ctx, row, peer)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("round %d, %s, %s: %w", round+1, row.name, peer.name, err)
			fmt.Fprintln(progress, "FAILED:", err)
			res.failures = append(res.failures, err)
		}
		if err == nil {
			res.samples[row.name][peer.name][round] = s
		}
	}
}

// one takes one sample of a peer that is started for it and stopped after it.
func (l *lab) one(ctx context.Context, row *row, peer *peer) (sample, error) {
	if row.bare {
		return row.measure(ctx, l, nil)
	}
	uid := l.opt.uid
	if row.uid > 0 && os.Getuid() == 0 {
		uid = row.uid
	}
	p, err := peer.start(ctx, l, uid)
	if err != nil {
		return nil, err
	}
	if p.child == nil {
		return row.measure(ctx, l, p)
	}
	defer p.child.stop()
	s, err := row.measure(ctx, l, p)
	if err != nil {
		if dead := p.child.alive(); dead != nil {
			return nil, fmt.Errorf("%w (the proxy %w)", err, dead)
		}
	}
	return s, err
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
