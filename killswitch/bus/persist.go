package bus

import (
	"context"
	"time"
)

// writeAgain is how long to wait after a write that failed.
const writeAgain = 5 * time.Second

// save hands the newest state to the goroutine that writes it.
func (s *Source) save() {
	if !s.unsaved || s.o.StateDir == "" {
		return
	}
	s.unsaved = false
	select {
	case <-s.disk: // one that is newer replaces it
	default:
	}
	s.disk <- s.kept.clone()
}

// persist writes the newest state, and again until it is written. A revocation never waits for it.
func (s *Source) persist(ctx context.Context) {
	var next *saved
	again := time.NewTimer(0)
	defer again.Stop()
	broken := false
	for {
		select {
		case next = <-s.disk:
		case <-again.C:
		case <-ctx.Done():
			select { // what came last
			case next = <-s.disk:
			default:
			}
			if next != nil {
				s.writeState(next, broken)
			}
			return
		}
		if next == nil {
			continue
		}
		if broken = !s.writeState(next, broken); broken {
			again.Reset(writeAgain)
			continue
		}
		next = nil
	}
}

func (s *Source) writeState(next *saved, broken bool) bool {
	err := next.write(s.o.StateDir)
	s.o.Observe(Event{Name: "state_write", Result: result(err)})
	switch {
	case err != nil && !broken:
		s.o.Log.Error("kill switch state not saved; it is in force and would not outlive a restart", "error", err)
	case err == nil && broken:
		s.o.Log.Info("kill switch state saved again")
	}
	return err == nil
}
