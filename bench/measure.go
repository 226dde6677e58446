//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// results holds every sample: row, peer, round.
type results struct {
	samples    map[string]map[string][]sample
	began      time.Time
	took       time.Duration
	loadBefore string // load average of one minute
	loadAfter  string
}

// of returns a metric of one peer, one value per round; nil when it has none.
func (r *results) of(row, peer, metric string) []float64 {
	var out []float64
	for _, s := range r.samples[row][peer] {
		v, ok := s[metric]
		if !ok {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// measureAll goes round by round; within a round, row by row; within a row, the peers take turns, so that what disturbs
// the machine for a while disturbs them all. The order of the peers moves on by one each round.
func measureAll(ctx context.Context, opt *options, progress io.Writer) (*results, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := openLab(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer l.close()
	res := &results{samples: map[string]map[string][]sample{}, began: time.Now(), loadBefore: loadAverage()}
	for _, row := range opt.rows {
		res.samples[row.name] = map[string][]sample{}
	}
	for round := range opt.rounds {
		for _, row := range opt.rows {
			for i := range opt.peers {
				peer := opt.peers[(i+round)%len(opt.peers)]
				fmt.Fprintf(progress, "round %d/%d  %-14s %s\n", round+1, opt.rounds, row.name, peer.name)
				s, err := l.one(ctx, row, peer)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", row.name, peer.name, err)
				}
				res.samples[row.name][peer.name] = append(res.samples[row.name][peer.name], s)
			}
		}
	}
	res.took, res.loadAfter = time.Since(res.began), loadAverage()
	return res, nil
}

// one takes one sample of a peer that is started for it and stopped after it.
func (l *lab) one(ctx context.Context, row *row, peer *peer) (sample, error) {
	p, err := peer.start(ctx, l)
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
