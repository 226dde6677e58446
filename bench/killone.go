//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// oneResult is what became of revocations at one sidecar. Times count from the signing.
type oneResult struct {
	tunnel, stream times // until the client's end of a connection was gone
	ack            times // until the control plane had the acknowledgement
	effect         times // at the sidecar, from receipt to effect
	command        times // until the command had returned
	passed         int   // new tunnels that were let through after the command had returned
}

// sidecarOn starts a sidecar that listens to a control plane, and waits until it is known there.
func (k *killRun) sidecarOn(ctx context.Context, p *plane) (*proxy, error) {
	s, err := k.lab.startSidecar(ctx, -1, &sidecarConfig{Intercept: true, Plane: p})
	if err == nil {
		if err = p.live(ctx, 1); err != nil {
			s.child.stop()
		}
	}
	return s, err
}

func (k *killRun) measureOne(ctx context.Context) error {
	p, err := k.lab.startPlane(ctx, k.program)
	if err != nil {
		return err
	}
	defer p.child.stop()
	s, err := k.sidecarOn(ctx, p)
	if err != nil {
		return err
	}
	defer s.child.stop()
	r := &oneResult{}
	for run := range k.size.runs {
		if err := k.revokeOnce(ctx, p, s, r, fmt.Sprint("one-", run)); err != nil {
			return fmt.Errorf("run %d: %w", run+1, err)
		}
	}
	for _, t := range []*times{&r.tunnel, &r.stream, &r.ack, &r.effect, &r.command} {
		slices.Sort(*t)
	}
	k.one = r
	runs := fmt.Sprintf(", p99 of %d", k.size.runs)
	k.mark("one sidecar: signing until a tunnel's client sees the cut"+runs, millis(r.tunnel.at(99)), 50, "ms")
	k.mark("one sidecar: signing until an intercepted stream's client sees the cut"+runs, millis(r.stream.at(99)), 50, "ms")
	k.mark("one sidecar: signing until the acknowledgement"+runs, millis(r.ack.at(99)), 50, "ms")
	k.mark("one sidecar: new tunnels that pass once the command has returned", float64(r.passed), 0, "")
	return nil
}

// revokeOnce cuts a tunnel and a stream by a revocation, and restores.
func (k *killRun) revokeOnce(ctx context.Context, p *plane, s *proxy, r *oneResult, id string) error {
	open, intercepted := k.lab.route(s, plain), k.lab.route(s, secure)
	tunnel, err := open.open(time.Now().Add(grace))
	if err != nil {
		return err
	}
	defer tunnel.Close()
	if err := tunnel.get(open.getRequest("/"), bodyBytes); err != nil {
		return err
	}
	stream, err := intercepted.open(time.Now().Add(grace))
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := stream.Write(intercepted.getRequest("/events")); err != nil {
		return err
	}
	body, err := openEvents(stream)
	if err != nil {
		return err
	}
	cutTunnel, cutStream := ending(tunnel.br), ending(body)
	o, err := p.command(ctx, "revoke", "--tool", "bench", "--id", id, "--reason", "bench", "--yes")
	if err != nil {
		return err
	}
	if t, err := open.open(time.Now().Add(grace)); err == nil {
		t.Close()
		r.passed++
	} else if !strings.Contains(err.Error(), ": revoked") {
		return err
	}
	// Two are cut: the tunnel and the stream's request. The stream's connection counts besides, where it is a call.
	if o.Progress.Acked != 1 || o.Progress.Cut < 2 {
		return fmt.Errorf("%d acknowledged and %d calls were cut, want 1 and 2", o.Progress.Acked, o.Progress.Cut)
	}
	for _, cut := range []struct {
		at  chan time.Time
		add *times
	}{{cutTunnel, &r.tunnel}, {cutStream, &r.stream}} {
		select {
		case at := <-cut.at:
			*cut.add = append(*cut.add, at.Sub(o.Entry.At))
		case <-time.After(10 * time.Second):
			return errors.New("a connection goes on 10 s after the revocation")
		}
	}
	r.ack, r.effect = append(r.ack, o.Progress.Slowest), append(r.effect, o.Progress.Effect)
	r.command = append(r.command, o.returned.Sub(o.Entry.At))
	_, err = p.command(ctx, "restore", id, "--reason", "bench")
	return err
}

func openEvents(t *tunnel) (io.Reader, error) {
	resp, err := http.ReadResponse(t.br, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s, %s", resp.Status, resp.Header.Get("Toolgate-Denial"))
	}
	lines := bufio.NewReader(resp.Body)
	_, err = lines.ReadString('\n') // it runs
	return lines, err
}

// ending tells when reading ends.
func ending(r io.Reader) chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		at <- time.Now()
	}()
	return at
}

// crowdResult is what became of many tunnels that one revocation has cut.
type crowdResult struct {
	tunnels       int
	ends          times // from signing, at the clients' ends
	open          int   // tunnels that went on
	ack           time.Duration
	before, after soakSample
	full          soakSample // while they were open
}

func (k *killRun) measureCrowd(ctx context.Context) error {
	p, err := k.lab.startPlane(ctx, k.program)
	if err != nil {
		return err
	}
	defer p.child.stop()
	s, err := k.sidecarOn(ctx, p)
	if err != nil {
		return err
	}
	defer s.child.stop()
	warm, err := k.lab.open(s, plain, 8)
	if err == nil {
		err = k.lab.shut(warm)
	}
	if err == nil {
		err = pause(ctx, k.lab.opt.load.settleMemory)
	}
	if err != nil {
		return err
	}
	c := &crowdResult{tunnels: k.size.tunnels}
	if c.before, err = sampleOf(ctx, s); err != nil {
		return err
	}
	session, err := k.lab.open(s, plain, c.tunnels)
	if err != nil {
		return err
	}
	if _, err := k.lab.ask(command{Op: "run", Kind: "watch", Session: session, Streams: c.tunnels / 2}); err != nil {
		return err
	}
	if c.full, err = sampleOf(ctx, s); err != nil {
		return err
	}
	o, err := p.command(ctx, "revoke", "--tool", "bench", "--reason", "bench", "--yes")
	if err != nil {
		return err
	}
	c.ack = o.Progress.Slowest
	reply, err := k.lab.ask(command{Op: "run", Kind: "cut", Session: session, Window: 20 * time.Second})
	if err != nil {
		return err
	}
	for _, at := range reply.Ends {
		if at == 0 {
			c.open++
		} else {
			c.ends = append(c.ends, time.Unix(0, at).Sub(o.Entry.At))
		}
	}
	slices.Sort(c.ends)
	if c.after, err = k.baseAgain(ctx, s, c.before); err != nil {
		return err
	}
	k.crowd = c
	if o.Progress.Cut != c.tunnels {
		return fmt.Errorf("%d of %d tunnels were cut, by the acknowledgement", o.Progress.Cut, c.tunnels)
	}
	of := fmt.Sprintf("%d tunnels, half of them streaming: ", c.tunnels)
	k.mark(of+"the last is cut", millis(c.ends.at(100)), 2000, "ms")
	k.mark(of+"not cut", float64(c.open), 0, "")
	k.mark(of+"descriptors left over", c.after.files-c.before.files, slack, "")
	k.mark(of+"goroutines left over", c.after.goroutines-c.before.goroutines, slack, "")
	return nil
}

// slack is what a process may hold more than before: connections of its own come and go.
const slack = 4

func sampleOf(ctx context.Context, p *proxy) (soakSample, error) {
	s := &soak{proxy: p, began: time.Now()}
	return s.sample(ctx)
}

// baseAgain waits until the process holds no more than before, and returns what it holds; after ten seconds what there is.
func (k *killRun) baseAgain(ctx context.Context, p *proxy, before soakSample) (now soakSample, err error) {
	for limit := time.Now().Add(10 * time.Second); ; {
		if now, err = sampleOf(ctx, p); err != nil {
			return now, err
		}
		if now.files <= before.files+slack && now.goroutines <= before.goroutines+slack || time.Now().After(limit) {
			return now, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return now, err
		}
	}
}
