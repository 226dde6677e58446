package ledger

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// signer returns a key that is the same in each run, and what trusts it.
func signer(t testing.TB, seed byte) (*Signer, Keys) {
	t.Helper()
	s := NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	keys, err := ParseKeys(s.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	return s, keys
}

// log appends entries to a state, signed.
type log struct {
	testing.TB
	*Signer
	State
	lines [][]byte
}

func newLog(t testing.TB, s *Signer) *log { return &log{TB: t, Signer: s, State: State{Log: "test"}} }

func (l *log) add(op Op, id string, more func(*Entry)) *Entry {
	l.Helper()
	e := l.Next(noon.Add(time.Duration(l.Revision) * time.Second))
	e.Op, e.ID, e.By = op, id, "responder@example.com"
	if op == Revoke {
		e.Selector = &Selector{Tool: []string{id}}
	}
	if more != nil {
		more(e)
	}
	if err := l.Sign(e); err != nil {
		l.Fatal(err)
	}
	if err := l.Apply(e); err != nil {
		l.Fatal(err)
	}
	l.lines = append(l.lines, e.Encode())
	return e
}

func want(t *testing.T, err error, k Kind) {
	t.Helper()
	if !errors.Is(err, &Error{Kind: k}) {
		t.Fatalf("got %v, want %s", err, k)
	}
}

func TestLogFoldsIntoWhatIsRevoked(t *testing.T) {
	s, keys := signer(t, 1)
	l := newLog(t, s)
	l.add(Revoke, "a", func(e *Entry) { e.Expires = noon.Add(time.Hour) })
	l.add(Revoke, "b", nil)
	l.add(Restore, "b", nil)
	l.add(Drill, "d", nil)
	p := l.add(Propose, "a", func(e *Entry) { e.Proposes = Restore })
	if len(l.Proposals()) != 1 {
		t.Fatal("the proposal is not open")
	}
	l.add(Decline, "a", func(e *Entry) { e.Proposal = p.Revision })
	if len(l.Proposals()) != 0 {
		t.Fatal("a declined proposal is open")
	}
	l.add(Revoke, "c", nil)

	var far State
	for _, line := range l.lines {
		e, err := keys.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := far.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	set := far.KillSwitch(2 * time.Hour) // in no order
	slices.SortFunc(set, func(a, b killswitch.Revocation) int { return strings.Compare(a.ID, b.ID) })
	if len(set) != 2 || set[0].ID != "a" || set[1].ID != "c" || far.Head != l.Head {
		t.Fatalf("revoked: %+v", set)
	}
	if got := set[0].Expires; !got.Equal(noon.Add(3 * time.Hour)) {
		t.Fatalf("with a clock two hours ahead the entry expires at %s", got)
	}
}

// Every byte of an entry counts: no change of one is accepted.
func TestNoByteOfAnEntryCanBeChanged(t *testing.T) {
	s, keys := signer(t, 1)
	l := newLog(t, s)
	l.add(Revoke, "x", nil)
	line := l.add(Revoke, "a", func(e *Entry) { e.Reason = "ünïcode <&>"; e.Expires = noon }).Encode()
	if _, err := keys.Decode(line); err != nil {
		t.Fatal(err)
	}
	for i := range line {
		for _, flip := range []byte{1, 0x20, 0x80} {
			bad := bytes.Clone(line)
			bad[i] ^= flip
			if _, err := keys.Decode(bad); err == nil {
				t.Fatalf("byte %d changed by %#x was accepted: %s", i, flip, bad)
			}
		}
	}
}

func TestOnlyTheCanonicalFormIsRead(t *testing.T) {
	s, keys := signer(t, 1)
	line := string(newLog(t, s).add(Revoke, "a", nil).Encode())
	for name, bad := range map[string]string{
		"space":         strings.Replace(line, ":", ": ", 1),
		"unknown field": strings.Replace(line, `{`, `{"a":1,`, 1),
		"field twice":   strings.Replace(line, `"op":"revoke"`, `"op":"restore","op":"revoke"`, 1),
		"other case":    strings.Replace(line, `"op"`, `"OP"`, 1),
		"number form":   strings.Replace(line, `"revision":1`, `"revision":1.0`, 1),
		"escaped":       strings.Replace(line, `"revoke"`, `"\u0072evoke"`, 1),
		"trailing":      line + "\n",
		"null field":    strings.Replace(line, `"op"`, `"ticket":null,"op"`, 1),
		"time zone":     strings.Replace(line, `T12:00:00Z`, `T13:00:00+01:00`, 1),
	} {
		if bad == line {
			t.Fatalf("%s: the case changes nothing", name)
		}
		t.Run(name, func(t *testing.T) {
			_, err := keys.Decode([]byte(bad))
			want(t, err, Malformed)
		})
	}
}

func TestChain(t *testing.T) {
	s, _ := signer(t, 1)
	ours := newLog(t, s)
	one := ours.add(Revoke, "a", nil)
	two := ours.add(Revoke, "b", nil)
	three := ours.add(Revoke, "c", nil)
	theirs := newLog(t, s) // an old copy that went its own way
	theirs.add(Revoke, "a", nil)
	otherTwo := theirs.add(Restore, "a", nil)
	otherThree := theirs.add(Revoke, "z", nil)
	foreign := &log{TB: t, Signer: s, State: State{Log: "foreign"}}
	foreignOne := foreign.add(Revoke, "a", nil)

	after := func(es ...*Entry) *State {
		st := &State{Log: "test"}
		for _, e := range es {
			if err := st.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		return st
	}
	for name, c := range map[string]struct {
		at    *State
		entry *Entry
		kind  Kind
	}{
		"gap at once":      {after(), two, Gap},
		"gap":              {after(one), three, Gap},
		"again":            {after(one, two), two, Behind},
		"step back":        {after(one, two), one, Behind},
		"fork at the head": {after(one, two), otherTwo, Fork},
		"fork after it":    {after(one, two), otherThree, Fork},
		"other log":        {after(), foreignOne, OtherLog},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.at.Active())
			want(t, c.at.Apply(c.entry), c.kind)
			if len(c.at.Active()) != before {
				t.Fatal("a refused entry changed the state")
			}
		})
	}
}

func TestHeartbeatTellsWhoIsBehind(t *testing.T) {
	s, keys := signer(t, 1)
	l := newLog(t, s)
	one := l.add(Revoke, "a", nil)
	l.add(Revoke, "b", nil)
	beat := func(revision uint64, head Hash) *Heartbeat {
		h := &Heartbeat{Version: 1, Log: "test", Revision: revision, Head: head, At: noon, Instance: "r1"}
		if err := s.SignHeartbeat(h); err != nil {
			t.Fatal(err)
		}
		h, err := keys.DecodeHeartbeat(h.Encode())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if err := l.Compare(beat(2, l.Head)); err != nil {
		t.Fatal(err)
	}
	want(t, l.Compare(beat(1, one.Hash())), Rollback)
	want(t, l.Compare(beat(0, "")), Rollback)
	want(t, l.Compare(beat(2, one.Hash())), Fork)
	want(t, l.Compare(beat(3, one.Hash())), Gap)
}

// A signature is good for one kind of message, one key, and only while that key is trusted.
func TestSignaturesStandForOneThing(t *testing.T) {
	old, oldKeys := signer(t, 1)
	young, _ := signer(t, 2)
	both, err := ParseKeys(old.PublicKey(), young.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, old)
	first := l.add(Revoke, "a", nil)
	l.Signer = young
	second := l.add(Restore, "a", nil)
	for _, e := range []*Entry{first, second} {
		if _, err := both.Decode(e.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = oldKeys.Decode(second.Encode())
	want(t, err, UnknownKey)
	_, err = Keys(nil).Decode(first.Encode())
	want(t, err, UnknownKey)

	stolen := *second
	stolen.Key = old.KeyID()
	_, err = both.Decode(stolen.Encode())
	want(t, err, Forged)

	c := l.Checkpoint(noon)
	if err := young.SignCheckpoint(c); err != nil {
		t.Fatal(err)
	}
	if _, err := both.DecodeCheckpoint(c.Encode()); err != nil {
		t.Fatal(err)
	}
	h := &Heartbeat{Version: 1, Log: "test", At: noon, Instance: "r1"}
	if err := young.SignHeartbeat(h); err != nil {
		t.Fatal(err)
	}
	h.Sig = c.Sig
	_, err = both.DecodeHeartbeat(h.Encode())
	want(t, err, Forged)
}

func TestCheckpointBeginsOnlyAnEmptyState(t *testing.T) {
	s, _ := signer(t, 1)
	l := newLog(t, s)
	l.add(Revoke, "b", nil)
	l.add(Revoke, "a", nil)
	c := l.Checkpoint(noon)
	var fresh State
	if err := fresh.Begin(c); err != nil {
		t.Fatal(err)
	}
	if got := fresh.Active(); len(got) != 2 || got[0].ID != "a" {
		t.Fatalf("%+v", got)
	}
	if err := fresh.Apply(l.add(Restore, "a", nil)); err != nil {
		t.Fatal(err)
	}
	want(t, fresh.Begin(c), Behind)
	want(t, (&State{Log: "foreign"}).Begin(c), OtherLog)
}

func TestSignRefusesWhatNobodyShouldPublish(t *testing.T) {
	s, _ := signer(t, 1)
	for name, spoil := range map[string]func(*Entry){
		"no selector":      func(e *Entry) { e.Selector = nil },
		"empty selector":   func(e *Entry) { e.Selector = &Selector{} },
		"all and tool":     func(e *Entry) { e.Selector.All = true },
		"unknown op":       func(e *Entry) { e.Op = "pause" },
		"no id":            func(e *Entry) { e.ID = "" },
		"no by":            func(e *Entry) { e.By = "" },
		"long reason":      func(e *Entry) { e.Reason = strings.Repeat("x", MaxText+1) },
		"reason of nobody": func(e *Entry) { e.ApprovalReason = "x" },
		"long approval":    func(e *Entry) { e.ApprovedBy, e.ApprovalReason = "bob", strings.Repeat("x", MaxText+1) },
		"invalid UTF-8":    func(e *Entry) { e.Reason = "\xff" },
		"local time":       func(e *Entry) { e.At = noon.In(time.FixedZone("x", 3600)) },
		"restore selector": func(e *Entry) { e.Op = Restore },
		"bare decline":     func(e *Entry) { e.Op, e.Selector = Decline, nil },
		"proposes drill":   func(e *Entry) { e.Op, e.Proposes, e.Selector = Propose, Drill, nil },
		"stray proposes":   func(e *Entry) { e.Proposes = Restore },
		"large selector":   func(e *Entry) { e.Selector.Run = []string{strings.Repeat("x", MaxSelector)} },
		"no prev":          func(e *Entry) { e.Revision = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			e := (&State{Log: "test"}).Next(noon)
			e.Op, e.ID, e.By, e.Selector = Revoke, "a", "me", &Selector{Tool: []string{"a"}}
			if err := s.Sign(e); err != nil {
				t.Fatal(err)
			}
			spoil(e)
			want(t, s.Sign(e), Malformed)
		})
	}
}

func TestKeysSurviveTheirText(t *testing.T) {
	s, _ := signer(t, 1)
	again, err := ParseSigner(s.PEM())
	if err != nil || again.PublicKey() != s.PublicKey() || again.KeyID() != s.KeyID() {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "ed25519:", strings.TrimPrefix(s.PublicKey(), keyPrefix), s.PublicKey() + "A", s.PublicKey() + "="} {
		if _, err := ParseKeys(bad); err == nil {
			t.Errorf("%q was taken for a key", bad)
		}
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseSigner([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a key", bad)
		}
	}
}

// What is read is what was signed: nothing decodes to a value that would encode differently.
func FuzzDecode(f *testing.F) {
	s, keys := signer(f, 1)
	l := newLog(f, s)
	for i, op := range []Op{Revoke, Restore, Drill} {
		f.Add(l.add(op, string(rune('a'+i)), nil).Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := keys.Decode(b); err == nil && !bytes.Equal(e.Encode(), b) {
			t.Fatalf("%s reads as %s", b, e.Encode())
		}
		e := new(Entry)
		if err := (Keys{}).open(b, e); !errors.Is(err, &Error{Kind: Malformed}) && !errors.Is(err, &Error{Kind: UnknownKey}) {
			t.Fatalf("accepted without a key: %v", err)
		}
	})
}
