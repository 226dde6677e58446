//go:build linux

package main

import (
	"io"
	"sync/atomic"
	"time"
)

// watch has events come in some of the tunnels, one a second each, and notes when each tunnel ends.
func (s *session) watch(streams int) error {
	for _, t := range s.tunnels[:streams] {
		if _, err := t.Write(s.route.getRequest("/events?every=1s")); err != nil {
			return err
		}
	}
	for _, t := range s.tunnels[:streams] {
		if _, err := t.readHead(); err != nil {
			return err
		}
	}
	s.ends = make([]atomic.Int64, len(s.tunnels))
	for i, t := range s.tunnels {
		if err := t.SetDeadline(time.Time{}); err != nil {
			return err
		}
		s.watched.Go(func() {
			_, _ = io.Copy(io.Discard, t.br)
			s.ends[i].Store(time.Now().UnixNano())
		})
	}
	return nil
}

// cut waits until all watched tunnels have ended, and no longer than within.
func (s *session) cut(within time.Duration) *reply {
	all := make(chan struct{})
	go func() { s.watched.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(within):
	}
	r := &reply{}
	for i := range s.ends {
		r.Ends = append(r.Ends, s.ends[i].Load())
	}
	return r
}
