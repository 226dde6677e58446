package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func peersOf(texts ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range texts {
		out = append(out, netip.AddrPortFrom(netip.MustParseAddr(s), 443))
	}
	return out
}

func TestAttemptOrder(t *testing.T) {
	tests := []struct{ in, want []netip.AddrPort }{
		{nil, nil},
		{peersOf("192.0.2.1"), peersOf("192.0.2.1")},
		{peersOf("2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"), peersOf("2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2")},
		{peersOf("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"), peersOf("192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3")},
		{peersOf("192.0.2.1", "192.0.2.1", "192.0.2.2"), peersOf("192.0.2.1", "192.0.2.2")},
		{
			peersOf("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8", "192.0.2.9", "2001:db8::1"),
			peersOf("192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7"),
		},
	}
	for _, tt := range tests {
		if got := attemptOrder(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%v\n got %v\nwant %v", tt.in, got, tt.want)
		}
	}
}

// tcpConn returns one end of a real connection; the other is closed with the test.
func tcpConn(t *testing.T) *net.TCPConn {
	t.Helper()
	l, _ := listen(t, "127.0.0.1")
	conn, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func isClosed(c *net.TCPConn) bool { return errors.Is(c.SetDeadline(time.Time{}), net.ErrClosed) }

func TestRaceStaggersAndClosesLosers(t *testing.T) {
	winner, loser := tcpConn(t), tcpConn(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		connect := func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
			mu.Lock()
			starts = append(starts, time.Since(began))
			n := len(starts)
			mu.Unlock()
			switch n {
			case 1: // connects although it was told to stop
				<-ctx.Done()
				return loser, nil
			case 2:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			<-time.After(100 * time.Millisecond)
			return winner, nil
		}
		conn, err := race(t.Context(), peersOf("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"), connect)
		if err != nil || conn != winner {
			t.Errorf("%v, %v", conn, err)
		}
		if want := []time.Duration{0, attemptDelay, 2 * attemptDelay}; !slices.Equal(starts, want) {
			t.Errorf("attempts began at %v, want %v", starts, want)
		}
		if took := time.Since(began); took != 2*attemptDelay+100*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
	if !isClosed(loser) || isClosed(winner) {
		t.Errorf("loser closed: %v, winner closed: %v", isClosed(loser), isClosed(winner))
	}
}

func TestRaceGoesOnAtOnceAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		first := errors.New("first")
		var attempts atomic.Int32
		connect := func(context.Context, netip.AddrPort) (*net.TCPConn, error) {
			if attempts.Add(1) == 1 {
				return nil, first
			}
			return nil, errors.New("later")
		}
		_, err := race(t.Context(), peersOf("192.0.2.1", "192.0.2.2", "192.0.2.3"), connect)
		if !errors.Is(err, first) || attempts.Load() != 3 || time.Since(began) != 0 {
			t.Errorf("%v after %d attempts and %s", err, attempts.Load(), time.Since(began))
		}
	})
}

// The bubble of synctest ends only when all goroutines in it have, so this would hang if race left one behind.
func TestRaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		defer cancel()
		began := time.Now()
		var attempts atomic.Int32
		connect := func(ctx context.Context, _ netip.AddrPort) (*net.TCPConn, error) {
			attempts.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err := race(ctx, peersOf("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"), connect)
		if !errors.Is(err, context.DeadlineExceeded) || attempts.Load() != 3 || time.Since(began) != 600*time.Millisecond {
			t.Errorf("%v after %d attempts and %s", err, attempts.Load(), time.Since(began))
		}
	})
}

func TestRaceWithoutPeers(t *testing.T) {
	_, err := race(t.Context(), nil, nil)
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("%#v", err)
	}
}
