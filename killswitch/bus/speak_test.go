package bus

import (
	"log/slog"
	"testing"

	"github.com/toolgate/toolgate/killswitch"
)

// An acknowledgement that finds no place is made up for by a status; one that goes out needs none.
func TestDroppedAckIsMadeUpForByAStatus(t *testing.T) {
	var seen []Event
	s := New(Options{Name: "nats", Switch: killswitch.New(0, "nats"), Log: slog.New(slog.DiscardHandler), Observe: func(e Event) { seen = append(seen, e) },
		Self: func() Sidecar { return Sidecar{} }})
	told := func() bool {
		select {
		case <-s.tell:
			return true
		default:
			return false
		}
	}
	s.acknowledge(killswitch.Effect{}, 0)
	if told() {
		t.Error("a status follows an acknowledgement that is sent")
	}
	for range cap(s.out) - 1 {
		s.send(outgoing{})
	}
	s.acknowledge(killswitch.Effect{}, 0)
	if !told() || len(seen) != 1 || seen[0].Result != "dropped" {
		t.Errorf("no status follows, %v", seen)
	}
}
