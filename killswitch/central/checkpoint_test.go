package central_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// TestLargeCheckpoint: what no message carries is stored in parts; replicas that write one at the same time leave a whole one, and
// a sidecar begins with it.
func TestLargeCheckpoint(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	const n = 24
	for i := range n {
		var tools []string
		for range 1200 {
			tools = append(tools, rand.Text())
		}
		_, err := s.Revoke(t.Context(), alice, central.Request{ID: fmt.Sprint("r", i), Selector: ledger.Selector{Tool: tools}, Reason: "large"})
		check(t, err)
	}
	s.stop()
	for range 2 {
		a, b := l.service(nil), l.service(nil) // each writes one at its start
		l.ready(a)
		l.ready(b)
		a.stop()
		b.stop()
	}
	written := l.checkpoints()
	before, _ := written()
	last := l.ready(l.service(nil))
	eventually(t, "a whole checkpoint of the last replica", func() bool { now, whole := written(); return whole && now > before })
	keys, err := ledger.ParseKeys(l.signer.PublicKey())
	check(t, err)
	kill := killswitch.New(time.Minute, "nats")
	source := bus.New(bus.Options{
		Servers: []string{l.server.URL()}, CredentialsFile: natsd.SidecarCredentials(l.dir), Keys: keys, Name: "nats", Switch: kill, MaxStale: time.Minute,
		Self: func() bus.Sidecar { return bus.Sidecar{Version: "test", Tools: []string{"x"}} }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Observe: func(e bus.Event) {
			if e.Name == "ack" {
				t.Error("it has read entries one by one: the checkpoint is of no use")
			}
		},
	})
	check(t, source.Start())
	defer source.Close()
	eventually(t, "the sidecar has them all", func() bool { return source.View().Revision == n && kill.Status().Active == n })
	l.ready(last)
}

// checkpoints returns a function that reports the newest message of the checkpoints' stream, and whether it is one's last part.
func (l *lab) checkpoints() func() (sequence uint64, whole bool) {
	l.Helper()
	conn, err := l.server.Connect()
	check(l, err)
	l.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	check(l, err)
	return func() (uint64, bool) {
		l.Helper()
		stream, err := js.Stream(l.Context(), bus.CheckpointStream)
		check(l, err)
		m, err := stream.GetLastMsgForSubject(l.Context(), bus.SubjectCheckpoint)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, false
		}
		check(l, err)
		number, count, ok := bus.PartOf(m.Header)
		return m.Sequence, ok && number == count
	}
}
