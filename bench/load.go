//go:build linux

package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// command is one line to the load generator; reply is its answer. A session is a set of open tunnels along one route.
type command struct {
	Op      string // open, run, close
	Session int    // of run and close
	Route   route  // of open
	Conns   int    // of open: how many tunnels, each of which answers one request
	Kind    string // of run: requests, connects, bulk, handshakes, watch, cut
	Streams int    // of run requests: how many at a time in each tunnel; of run watch: in how many tunnels events come
	Workers int    // of run connects; of run handshakes: clients that start at once
	Window  time.Duration
	Bytes   int64 // of run bulk
}

type reply struct {
	Error    string
	Session  int
	Ops      int64
	Elapsed  time.Duration
	P50, P99 time.Duration // of one operation
	Distinct int           // of run handshakes: certificates that were shown
	Ends     []int64       // of run cut: when each tunnel ended, in nanoseconds since 1970; 0: it is open
}

// grace is what an operation may take beyond its window before its sockets time out.
const grace = 60 * time.Second

// loadMain reads commands from stdin until it ends.
func loadMain([]string) error {
	if err := sayHello(struct{}{}); err != nil {
		return err
	}
	g, out := &generator{}, json.NewEncoder(os.Stdout)
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var c command
		if err := in.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := g.do(&c)
		if err != nil {
			r = &reply{Error: err.Error()}
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

type generator struct{ sessions []*session }

type session struct {
	route   route
	tunnels []*tunnel
	ends    []atomic.Int64 // of watched tunnels
	watched sync.WaitGroup
}

func (g *generator) do(c *command) (*reply, error) {
	if c.Op == "open" {
		s := &session{route: c.Route}
		if err := s.open(c.Conns); err != nil {
			s.close()
			return nil, err
		}
		g.sessions = append(g.sessions, s)
		return &reply{Session: len(g.sessions) - 1}, nil
	}
	if c.Session < 0 || c.Session >= len(g.sessions) {
		return nil, fmt.Errorf("no session %d", c.Session)
	}
	s := g.sessions[c.Session]
	switch {
	case c.Op == "close":
		s.close()
		return &reply{}, nil
	case c.Op == "run" && c.Kind == "requests":
		return s.requests(max(1, c.Streams), c.Window)
	case c.Op == "run" && c.Kind == "connects":
		return s.connects(c.Workers, c.Window)
	case c.Op == "run" && c.Kind == "bulk":
		return s.bulk(c.Bytes)
	case c.Op == "run" && c.Kind == "watch":
		return &reply{}, s.watch(c.Streams)
	case c.Op == "run" && c.Kind == "cut":
		return s.cut(c.Window), nil
	case c.Op == "run" && c.Kind == "handshakes":
		return s.handshakes(c.Workers)
	}
	return nil, fmt.Errorf("cannot %s %q", c.Op, c.Kind)
}

// open opens n tunnels, a few at a time. Each carries one request, so that an idle tunnel is one that has been used.
func (s *session) open(n int) error {
	const atOnce = 8
	s.tunnels = make([]*tunnel, n)
	return parallel(min(n, atOnce), func(worker int) error {
		for i := worker; i < n; i += atOnce {
			t, err := s.route.open(time.Now().Add(grace))
			if err != nil {
				return err
			}
			s.tunnels[i] = t
			if err := s.once(t); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) close() {
	for _, t := range s.tunnels {
		if t != nil {
			t.Close()
		}
	}
	s.tunnels = nil
}

// once sends one request.
func (s *session) once(t *tunnel) error {
	request, err := s.route.requester(t)
	if err != nil {
		return err
	}
	return request()
}

// requests sends requests down each open tunnel until the window ends, each of the streams one after the other.
func (s *session) requests(streams int, window time.Duration) (*reply, error) {
	workers := make([]func() error, len(s.tunnels)*streams)
	for i := range workers {
		var err error
		if workers[i], err = s.route.requester(s.tunnels[i%len(s.tunnels)]); err != nil {
			return nil, err
		}
	}
	return timed(len(workers), window, func(worker int, deadline time.Time) error {
		return s.tunnels[worker%len(s.tunnels)].SetDeadline(deadline.Add(grace))
	}, func(worker int) error { return workers[worker]() })
}

// connects opens a tunnel, sends one request and closes it, over and over.
func (s *session) connects(workers int, window time.Duration) (*reply, error) {
	return timed(workers, window, nil, func(int) error {
		t, err := s.route.open(time.Now().Add(grace))
		if err != nil {
			return err
		}
		defer t.Close()
		return s.once(t)
	})
}

// handshakes has n clients open a tunnel and do a TLS handshake in it, all at once, and counts the certificates that they see.
func (s *session) handshakes(n int) (*reply, error) {
	shown := make([]string, n)
	start := time.Now()
	err := parallel(n, func(worker int) error {
		t, err := s.route.open(time.Now().Add(grace))
		if err != nil {
			return err
		}
		defer t.Close()
		shown[worker] = string(t.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(shown)
	return &reply{Ops: int64(n), Elapsed: time.Since(start), Distinct: len(slices.Compact(shown))}, nil
}

// bulk reads one answer of n bytes through the first tunnel.
func (s *session) bulk(n int64) (*reply, error) {
	t := s.tunnels[0]
	if err := t.SetDeadline(time.Now().Add(10 * grace)); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := t.get(s.route.getRequest(fmt.Sprintf("/%d", n)), n); err != nil {
		return nil, err
	}
	return &reply{Ops: 1, Elapsed: time.Since(start)}, nil
}

// timed runs op in each worker until the window ends and returns what they did in all. prepare may be nil.
func timed(workers int, window time.Duration, prepare func(int, time.Time) error, op func(int) error) (*reply, error) {
	start := time.Now()
	deadline := start.Add(window)
	took := make([][]time.Duration, workers)
	err := parallel(workers, func(worker int) error {
		if prepare != nil {
			if err := prepare(worker, deadline); err != nil {
				return err
			}
		}
		mine := make([]time.Duration, 0, 1<<14)
		for before := time.Now(); before.Before(deadline); {
			if err := op(worker); err != nil {
				return err
			}
			after := time.Now()
			mine = append(mine, after.Sub(before))
			before = after
		}
		took[worker] = mine
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &reply{Elapsed: time.Since(start)}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return nil, errors.New("no operation finished")
	}
	slices.Sort(all)
	r.Ops = int64(len(all))
	r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
	return r, nil
}

// parallel runs work in n goroutines and returns the first of their errors, and how many there were.
func parallel(n int, work func(worker int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = work(i) })
	}
	wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more errors)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}
