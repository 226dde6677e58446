package central

import (
	"bufio"
	"context"
	"io"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// ReadExport reads an export, one entry a line, and verifies it from the first entry on. It needs no service and no
// network. The error names the line.
func ReadExport(r io.Reader, keys ledger.Keys) ([]*ledger.Entry, *ledger.State, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMessage)
	var entries []*ledger.Entry
	state := new(ledger.State)
	for lines.Scan() {
		e, err := keys.Decode(lines.Bytes())
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, nil, refuse(Invalid, "line %d: %v", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, refuse(Invalid, "line %d: %v", len(entries)+1, err)
	}
	return entries, state, nil
}

// Import gives the store back what it has lost: the entries of an export that come after the store's last one. All of it
// is verified before the first is written; an import that breaks off can be repeated. It returns how many were added.
func (s *Service) Import(ctx context.Context, p Principal, export io.Reader) (int, error) {
	if err := p.requireAll(Admin); err != nil {
		return 0, err
	}
	entries, _, err := ReadExport(export, s.log.keys)
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, refuse(Invalid, "the export is empty")
	}
	n, err := s.log.restore(ctx, entries)
	if n > 0 {
		s.opts.Log.Warn("entries imported", "added", n, "by", p.Name)
		s.checkpoint(context.WithoutCancel(ctx))
	}
	return n, err
}

// restore appends the entries that the log lacks. They must continue it.
func (l *Log) restore(ctx context.Context, entries []*ledger.Entry) (int, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	if !l.isOpen() {
		return 0, refuse(Unavailable, "the log has not been read yet")
	}
	if err := l.rewind(ctx); err != nil {
		return 0, err
	}
	l.mu.RLock()
	at, head, broken := l.state.Revision, l.state.Head, l.broken
	l.mu.RUnlock()
	switch {
	case broken != nil:
		return 0, refuse(LogBroken, "the stored log does not verify: %v", broken)
	case at > uint64(len(entries)):
		return 0, refuse(Conflict, "the store has %d entries already, and the export %d", at, len(entries))
	case at > 0 && entries[at-1].Hash() != head:
		return 0, refuse(Conflict, "the export has another history than the store: entry %d differs", at)
	case at == 0:
		if err := l.adopt(ctx, entries[0].Log); err != nil {
			return 0, err
		}
	}
	added := 0
	for _, e := range entries[at:] {
		stored, err := l.put(ctx, e.Revision, e.Encode())
		if err != nil {
			return added, err
		}
		if !stored {
			return added, refuse(Conflict, "another entry was stored as revision %d meanwhile", e.Revision)
		}
		added++
	}
	return added, nil
}

// adopt gives an empty log the id of the one that is imported.
func (l *Log) adopt(ctx context.Context, log string) error {
	if err := l.store.rename(ctx, log); err != nil {
		return refuse(Unavailable, "the store refused: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Log = log
	return nil
}

// rewind forgets what this replica has seen and reads the store anew, where the store has lost entries while this replica
// ran. What was seen stays as proof of what is missing.
func (l *Log) rewind(ctx context.Context) error {
	last, err := l.store.last(ctx)
	if err != nil {
		return refuse(Unavailable, "the store does not answer: %v", err)
	}
	l.mu.Lock()
	if last < l.state.Revision {
		if l.state.Revision > l.proof.revision {
			l.proof = witness{l.state.Log, l.state.Revision, l.state.Head}
		}
		l.state, l.entries, l.ids = ledger.State{Log: l.state.Log}, nil, map[string]*life{}
	}
	l.mu.Unlock()
	if err := l.catchUp(ctx); err != nil {
		return refuse(Unavailable, "the store cannot be read: %v", err)
	}
	return nil
}
