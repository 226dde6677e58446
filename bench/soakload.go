//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// The pace of the load. It is moderate: what it looks for is growth, not speed.
const (
	pace     = 20 * time.Millisecond  // of each worker that asks
	slowPace = 100 * time.Millisecond // of each that is refused
	perConn  = 500                    // requests, then the connection is opened anew
	// takesEffect is how long after a change of the revocations either answer is right. The kill switch promises a second.
	takesEffect = 2 * time.Second
)

// workers are the parts of the load: kind, with "#n" where there are several.
func (s *soak) workers() map[string]func(context.Context) error {
	w := map[string]func(context.Context) error{
		"new tunnel":                   s.newTunnels,
		"denied, domain_not_allowed":   s.refused("denied, domain_not_allowed", "denied.bench.example:443", s.proxy.auth),
		"denied, unauthenticated":      s.refused("denied, unauthenticated", s.lab.upstream.Plain, ""),
		"config reload":                s.reload,
		"revoke and restore":           s.revoke,
		"tunnel of the revoked caller": s.victim,
		"stream of the revoked caller": s.victimStream,
	}
	for i := range 4 {
		w[fmt.Sprintf("request in a tunnel#%d", i)] = s.requests("request in a tunnel", plain)
		w[fmt.Sprintf("intercepted request, h1#%d", i)] = s.requests("intercepted request, h1", secure)
		w[fmt.Sprintf("intercepted request, h2#%d", i)] = s.requests("intercepted request, h2", h2)
		w[fmt.Sprintf("events#%d", i)] = s.events
	}
	return w
}

// closing makes a connection end with ctx.
func closing(ctx context.Context, c io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.Close() })
}

func (s *soak) newTunnels(ctx context.Context) error {
	r := s.lab.route(s.proxy, plain)
	for pause(ctx, pace) == nil {
		t, err := r.open(time.Now().Add(grace))
		if err == nil {
			err = t.get(r.getRequest("/"), bodyBytes)
			t.Close()
		}
		s.count(ctx, "new tunnel", err)
	}
	return nil
}

// requests opens a tunnel and sends some requests down it.
func (s *soak) requests(kind, way string) func(context.Context) error {
	return func(ctx context.Context) error {
		r := s.lab.route(s.proxy, way)
		t, err := r.open(time.Now().Add(grace))
		if err != nil {
			return err
		}
		defer t.Close()
		defer closing(ctx, t)()
		request, err := r.requester(t)
		if err != nil {
			return err
		}
		for range perConn {
			if pause(ctx, pace) != nil {
				return nil
			}
			if err := t.SetDeadline(time.Now().Add(grace)); err != nil {
				return err
			}
			if err := request(); err != nil {
				return err
			}
			s.count(ctx, kind, nil)
		}
		return nil
	}
}

// refused asks for tunnels that must be denied with a code.
func (s *soak) refused(kind, target, auth string) func(context.Context) error {
	_, code, _ := strings.Cut(kind, ", ")
	return func(ctx context.Context) error {
		for pause(ctx, slowPace) == nil {
			r := route{Proxy: s.proxy.addr, Target: target, Auth: auth}
			s.count(ctx, kind, mustRefuse(&r, code))
		}
		return nil
	}
}

func mustRefuse(r *route, code string) error {
	t, err := r.open(time.Now().Add(grace))
	if err == nil {
		t.Close()
		return errors.New("was let through")
	}
	if strings.Contains(err.Error(), ": "+code) {
		return nil
	}
	return err
}

// stream reads events through an intercepted tunnel until enough have come or the stream ends.
func (s *soak) stream(ctx context.Context, auth string, enough int, event func()) error {
	r := s.lab.route(s.proxy, secure)
	r.Auth = auth
	t, err := r.open(time.Now().Add(grace))
	if err != nil {
		return err
	}
	defer t.Close()
	defer closing(ctx, t)()
	if _, err := t.Write(r.getRequest("/events")); err != nil {
		return err
	}
	resp, err := http.ReadResponse(t.br, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s, %s", resp.Status, resp.Header.Get("Toolgate-Denial"))
	}
	lines := bufio.NewReader(resp.Body)
	for n := 0; n < enough; {
		if err := t.SetDeadline(time.Now().Add(grace)); err != nil {
			return err
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "data:") {
			n++
			event()
		}
	}
	return nil
}

func (s *soak) events(ctx context.Context) error {
	return s.stream(ctx, s.proxy.auth, perConn, func() { s.count(ctx, "event", nil) })
}

// reload changes the manifest's version, so that another policy comes into force.
func (s *soak) reload(ctx context.Context) error {
	for pause(ctx, s.cycle) == nil {
		s.config.Revision++
		if err := s.config.writeManifest(); err != nil {
			return err
		}
		s.count(ctx, "config reload", nil)
	}
	return nil
}

// revoke revokes one of the two callers for half of each cycle.
func (s *soak) revoke(ctx context.Context) error {
	for _, subjects := range [][]string{{victim}, nil} {
		if pause(ctx, s.cycle/2) != nil {
			return nil
		}
		s.config.Revoked = subjects
		s.mu.Lock()
		s.changed, s.revoked = time.Now(), subjects != nil
		s.mu.Unlock()
		if err := s.config.writeRevocations(); err != nil {
			return err
		}
		s.count(ctx, map[bool]string{true: "revocation", false: "restoration"}[subjects != nil], nil)
	}
	return nil
}

// expected says what the revoked caller must meet now. Within takesEffect of a change nothing is certain.
func (s *soak) expected() (revoked, certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked, time.Since(s.changed) > takesEffect
}

// victim opens tunnels as the caller who is revoked now and then.
func (s *soak) victim(ctx context.Context) error {
	r := route{Proxy: s.proxy.addr, Target: s.lab.upstream.Plain, Auth: "Bearer " + s.lab.issuer.Victim}
	for pause(ctx, slowPace) == nil {
		before, certainBefore := s.expected()
		t, err := r.open(time.Now().Add(grace))
		if err == nil {
			t.Close()
		}
		refused := err != nil && strings.Contains(err.Error(), ": revoked")
		if refused {
			err = nil
		}
		now, certain := s.expected()
		if err == nil && certain && certainBefore && before == now && refused != now {
			err = fmt.Errorf("revoked is %v and refused is %v, %s after the change", now, refused, takesEffect)
		}
		s.count(ctx, map[bool]string{true: "denied, revoked", false: "tunnel of the revoked caller"}[refused], err)
	}
	return nil
}

// victimStream keeps a stream open as the caller who is revoked now and then: the revocation must cut it, and nothing else may.
func (s *soak) victimStream(ctx context.Context) error {
	err := s.stream(ctx, "Bearer "+s.lab.issuer.Victim, 1<<30, func() {
		if revoked, certain := s.expected(); revoked && certain {
			s.count(ctx, "stream of the revoked caller", errors.New("goes on after the revocation"))
		}
	})
	revoked, certain := s.expected()
	var timeout net.Error
	switch {
	case strings.Contains(err.Error(), ": revoked") && (revoked || !certain):
		_ = pause(ctx, slowPace)
	case revoked && !(errors.As(err, &timeout) && timeout.Timeout()):
		s.count(ctx, "stream cut by a revocation", nil)
	default:
		return err
	}
	return nil
}
