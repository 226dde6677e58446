package central

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Log is the signed log: the stream's content, verified, and the one way to add to it. All methods are safe for concurrent
// use.
type Log struct {
	store  store
	signer *ledger.Signer
	keys   ledger.Keys
	now    func() time.Time
	heard  func(e *ledger.Entry, live bool) // called with each entry in order, with mu held; must not block

	appending sync.Mutex // one append of this replica at a time; others are met by compare-and-set
	reading   sync.Mutex

	mu      sync.RWMutex
	opened  bool
	state   ledger.State
	entries []*ledger.Entry // entry n at n-1
	ids     map[string]*life
	broken  error   // the stored log does not verify
	away    error   // the store did not answer the last time
	short   error   // the store ends before what this replica has seen
	unsure  error   // the last write was not confirmed, and none has been since
	proof   witness // the furthest that anything signed has told of
}

// life is what the log has about one id.
type life struct {
	begun *ledger.Entry // the last Revoke, Drill or Propose of a revocation
	ended *ledger.Entry // the Restore, Expire or Decline that ended it
}

// witness is an entry that something with a good signature told of.
type witness struct {
	log      string
	revision uint64
	head     ledger.Hash
}

// View is the log at one moment, for decisions. It must not be kept.
type View struct {
	*ledger.State
	Now time.Time
	ids map[string]*life
}

// load opens the stream and reads and verifies all of it.
func (l *Log) load(ctx context.Context) error {
	// While a cluster chooses its leader, requests are lost rather than refused: asking again soon is what helps.
	opening, cancel := context.WithTimeout(ctx, storeTimeout)
	id, err := l.store.open(opening)
	cancel()
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.state.Revision == 0 {
		l.state.Log = id
	}
	l.mu.Unlock()
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	if b, err := l.store.checkpoint(ctx); err == nil && b != nil {
		if c, err := l.keys.DecodeCheckpoint(b); err == nil {
			l.testify(witness{c.Log, c.Revision, c.Head})
		}
	}
	l.mu.Lock()
	l.opened = true
	l.mu.Unlock()
	return nil
}

// catchUp reads what the stream has and this replica has not seen. It always reads the last entry that it knows as well,
// so that a store which was replaced is noticed before anything is added to it.
func (l *Log) catchUp(ctx context.Context) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	err := l.readNew(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.short = nil, nil
	var mine *ledger.Error
	switch {
	case err == nil:
	case errors.As(err, &mine), errors.Is(err, &Error{Code: LogBroken}):
		l.broken = err
	case errors.Is(err, &Error{Code: LogLost}):
		l.short = err
	default:
		l.away = err
	}
	return err
}

func (l *Log) readNew(ctx context.Context) error {
	l.mu.RLock()
	from, broken := l.state.Revision, l.broken
	l.mu.RUnlock()
	if broken != nil {
		return broken
	}
	last, err := l.store.last(ctx)
	if err != nil {
		return err
	}
	if last < from {
		return refuse(LogLost, "the store ends at revision %d, and this replica has seen %d: it is an old copy. "+
			"Import an export of the missing entries", last, from)
	}
	return l.store.read(ctx, max(from, 1), last, func(seq uint64, b []byte) error {
		e, err := l.keys.Decode(b)
		if err != nil {
			return err
		}
		if e.Revision != seq {
			return refuse(LogBroken, "message %d holds revision %d", seq, e.Revision)
		}
		return l.take(e)
	})
}

// take adds a verified entry that is stored. One that is known already is no error.
func (l *Log) take(e *ledger.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Revision == 0 {
		l.state.Log = e.Log // the signed id rules
	}
	err := l.state.Apply(e)
	if errors.Is(err, &ledger.Error{Kind: ledger.Behind}) {
		if int(e.Revision) <= len(l.entries) && l.entries[e.Revision-1].Hash() == e.Hash() {
			return nil
		}
		return refuse(LogBroken, "another entry at revision %d", e.Revision)
	}
	if err != nil {
		return err
	}
	l.entries = append(l.entries, e)
	l.index(e)
	l.heard(e, l.opened)
	return nil
}

func (l *Log) index(e *ledger.Entry) {
	switch e.Op {
	case ledger.Revoke, ledger.Drill:
		l.ids[e.ID] = &life{begun: e}
	case ledger.Propose:
		if e.Proposes == ledger.Revoke {
			l.ids[e.ID] = &life{begun: e}
		}
	case ledger.Restore, ledger.Expire:
		if known := l.ids[e.ID]; known != nil {
			known.ended = e
		}
	case ledger.Decline:
		if known := l.ids[e.ID]; known != nil && known.begun.Revision == e.Proposal {
			known.ended = e
		}
	}
}

// maxTries bounds how often an append meets others before it gives up.
const maxTries = 64

// Append stores the entry that decide makes of the present log. decide fills in what View.Next returned, or refuses; it
// is asked anew whenever somebody else's entry was first, so of two at once each decides on what the other did. The error
// is an *Error, or decide's.
func (l *Log) Append(ctx context.Context, decide func(*View) (*ledger.Entry, error)) (*ledger.Entry, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := l.writable(); err != nil {
		return nil, err
	}
	for range maxTries {
		e, err := l.decide(decide)
		if err != nil {
			return nil, err
		}
		stored, err := l.put(ctx, e.Revision, e.Encode())
		if err != nil {
			return nil, err
		}
		if stored {
			return e, nil
		}
		if err := l.writable(); err != nil {
			return nil, err
		}
	}
	return nil, refuse(Unavailable, "%d times another replica was first; nothing was written", maxTries)
}

func (l *Log) decide(decide func(*View) (*ledger.Entry, error)) (*ledger.Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e, err := decide(&View{State: &l.state, Now: l.now(), ids: l.ids})
	if err != nil {
		return nil, err
	}
	if err := l.signer.Sign(e); err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	return e, nil
}

// put stores b as the entry of this revision. False without error means that another entry is there, which has been read.
func (l *Log) put(ctx context.Context, revision uint64, b []byte) (bool, error) {
	failed := l.store.append(ctx, revision, b)
	if !errors.Is(failed, errConflict) {
		l.setUnsure(failed)
	}
	if failed != nil && !errors.Is(failed, errConflict) && definite(failed) {
		return false, refuse(Unavailable, "the store refused, and nothing was written: %v", failed)
	}
	if failed == nil {
		e, err := l.keys.Decode(b)
		if err != nil {
			return false, err
		}
		return true, l.take(e)
	}
	// Taken, or not confirmed in time. The log itself tells what is stored. The request's own time may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	err := l.catchUp(ctx)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if uint64(len(l.entries)) >= revision {
		return bytes.Equal(l.entries[revision-1].Encode(), b), nil
	}
	if errors.Is(failed, errConflict) && err == nil {
		return false, refuse(LogLost, "the store takes nothing at revision %d, and has nothing there", revision)
	}
	return false, refuse(UnknownOutcome, "the store has not confirmed it; it may take effect yet. Repeat with the same id to "+
		"find out: %v", failed)
}

func (l *Log) setUnsure(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsure = err
}

// writable says why nothing may be added now.
func (l *Log) writable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.broken != nil {
		return refuse(LogBroken, "the stored log does not verify, so nothing is added to it: %v", l.broken)
	}
	if err := l.lost(); err != nil {
		return err
	}
	if !l.opened {
		if l.away != nil {
			return refuse(Unavailable, "the log has not been read yet: %v", l.away)
		}
		return refuse(Unavailable, "the log has not been read yet")
	}
	return nil
}

// testify notes that something with a good signature told of an entry. What speaks against the stored log goes before what
// does not.
func (l *Log) testify(w witness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	against, before := l.against(w) != nil, l.against(l.proof) != nil
	if against && !before || against == before && w.revision > l.proof.revision {
		l.proof = w
	}
}

// knows reports whether a witness would tell nothing new: the log has that entry, or is known to be lost further on.
func (l *Log) knows(w witness) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.against(w) == nil || l.against(l.proof) != nil && w.log == l.proof.log && w.revision <= l.proof.revision
}

// lost compares the log with what was signed once. The caller holds mu.
func (l *Log) lost() error {
	if l.short != nil {
		return l.short
	}
	return l.against(l.proof)
}

// against says how an entry that was signed speaks against the log: it lacks that entry or has another one there. The
// caller holds mu.
func (l *Log) against(p witness) error {
	switch {
	case p.revision == 0:
		return nil
	case p.log != l.state.Log && l.state.Log != "":
		return refuse(LogLost, "a log %.64q was signed with this key up to revision %d, and the store holds %.64q. "+
			"Import an export of it", p.log, p.revision, l.state.Log)
	case p.revision > l.state.Revision:
		return refuse(LogLost, "the log was signed up to revision %d, and the store ends at %d: it is an old copy. Import "+
			"an export of the missing entries", p.revision, l.state.Revision)
	case l.entries[p.revision-1].Hash() != p.head:
		return refuse(LogLost, "another entry was signed as revision %d than the store holds: the log has two histories", p.revision)
	}
	return nil
}

// snapshot calls f with the log at one moment. f must not block.
func (l *Log) snapshot(f func(*View, []*ledger.Entry)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f(&View{State: &l.state, Now: l.now(), ids: l.ids}, slices.Clip(l.entries))
}
