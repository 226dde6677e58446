package central

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Event is something that happened. One field is set.
type Event struct {
	Entry    *ledger.Entry `json:"entry,omitempty"`    // was added to the log
	Progress uint64        `json:"progress,omitempty"` // this revision was acknowledged by more sidecars
	Alarms   *[]Alarm      `json:"alarms,omitempty"`   // the alarms are these now
}

// watchers hands events to who watches. One who does not keep up is dropped, and must begin again: nothing waits for it.
type watchers struct {
	mu      sync.Mutex
	open    map[*watcher]bool
	pending map[uint64]bool // revisions whose progress will be told of
}

type watcher struct{ events chan Event }

// maxWatchers bounds those at once; watchBuffer what each may lag behind.
const (
	maxWatchers = 256
	watchBuffer = 256
)

// progressEvery is how often a revision's progress is told of, however many acknowledge it at once.
const progressEvery = 50 * time.Millisecond

func newWatchers() *watchers { return &watchers{open: map[*watcher]bool{}, pending: map[uint64]bool{}} }

func (w *watchers) progress(revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 || w.pending[revision] {
		return
	}
	w.pending[revision] = true
	time.AfterFunc(progressEvery, func() {
		w.mu.Lock()
		delete(w.pending, revision)
		w.mu.Unlock()
		w.publish(Event{Progress: revision})
	})
}

func (w *watchers) publish(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		select {
		case c.events <- e:
		default:
			delete(w.open, c)
			close(c.events)
		}
	}
}

// Watch returns the events from now on that p may see, after the entries since a revision, oldest first. The channel is
// closed when the watcher falls behind. The caller must call the function returned.
func (s *Service) Watch(p Principal, since uint64) (missed []*ledger.Entry, events <-chan Event, stop func(), err error) {
	if err := p.require(Viewer); err != nil {
		return nil, nil, nil, err
	}
	if err := s.log.readable(); err != nil {
		return nil, nil, nil, err
	}
	c := &watcher{events: make(chan Event, watchBuffer)}
	s.watch.mu.Lock()
	if len(s.watch.open) >= maxWatchers {
		s.watch.mu.Unlock()
		return nil, nil, nil, refuse(Unavailable, "%d watch already", maxWatchers)
	}
	s.watch.open[c] = true
	s.watch.mu.Unlock()
	stop = func() {
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		if s.watch.open[c] {
			delete(s.watch.open, c)
			close(c.events)
		}
	}
	// An entry may come both ways. The reader tells by its revision.
	s.log.snapshot(func(v *View, entries []*ledger.Entry) {
		for _, e := range entries[min(since, uint64(len(entries))):] {
			if p.covers(selectorOf(v, e)) {
				missed = append(missed, e)
			}
		}
	})
	return missed, c.events, stop, nil
}

// MaySee reports whether an event of Watch is p's to see.
func (s *Service) MaySee(p Principal, e Event) bool {
	if len(p.Tenants) == 0 {
		return true
	}
	about := e.Entry
	ok := e.Alarms != nil
	s.log.snapshot(func(v *View, entries []*ledger.Entry) {
		if e.Progress > 0 && e.Progress <= uint64(len(entries)) {
			about = entries[e.Progress-1]
		}
		if about != nil {
			ok = p.covers(selectorOf(v, about))
		}
	})
	return ok
}

// Alarms returns what a person must look at now.
func (s *Service) Alarms() []Alarm {
	list := []Alarm{}
	add := func(k AlarmKind, err error) {
		if err == nil {
			return
		}
		text := err.Error()
		if mine := (*Error)(nil); errors.As(err, &mine) {
			text = mine.Text // the alarm's kind says the rest
		}
		list = append(list, Alarm{k, text})
	}
	s.log.mu.RLock()
	add(AlarmStore, cmp.Or(s.log.away, s.log.unsure))
	add(AlarmBroken, s.log.broken)
	if s.log.opened {
		add(AlarmLost, s.log.lost())
	}
	proven := s.log.proof.revision
	s.log.mu.RUnlock()
	if revision, n := s.roster.claims(); n > 0 && revision > proven {
		add(AlarmClaim, refuse(LogLost, "sidecars that say they have revision %d, which the store lacks, and prove nothing: %d", revision, n))
	}
	if n := s.roster.counts().Refuse; n > 0 {
		add(AlarmRefused, refuse(Conflict, "sidecars that refuse what the log says: %d; the list of sidecars has why", n))
	}
	if s.roster.isFull() {
		add(AlarmRoster, refuse(Unavailable, "%d sidecars were heard; further ones are not followed", maxSidecars))
	}
	add(AlarmSenders, s.unheard())
	return list
}

func (r *roster) isFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full
}

// alarms tells watchers and the log when the alarms have changed.
func (s *Service) alarms() {
	now := s.Alarms()
	s.watch.mu.Lock()
	same := slices.Equal(now, s.raised)
	s.raised = now
	s.watch.mu.Unlock()
	if same {
		return
	}
	for _, a := range now {
		s.opts.Log.Error("alarm", "kind", a.Kind, "text", a.Text)
	}
	s.watch.publish(Event{Alarms: &now})
}
