package bus_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func gather(parts []bus.Part) (whole []byte, err error) {
	var g bus.Gathered
	for _, p := range parts {
		if whole, err = g.Add(p.Header, p.Data); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

func TestParts(t *testing.T) {
	random := make([]byte, 3*bus.PartBytes)
	_, _ = rand.Read(random)
	if parts, err := bus.Parts(random[:bus.PartBytes], 1<<20); err != nil || len(parts) != 1 || parts[0].Header != nil {
		t.Errorf("a small one is not left as it is: %d parts, %v", len(parts), err)
	}
	parts, err := bus.Parts(random, 1<<20)
	if err != nil || len(parts) != 4 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	if whole, err := gather(parts); err != nil || !bytes.Equal(whole, random) {
		t.Errorf("another comes out than went in: %v", err)
	}
	other, err := bus.Parts(append([]byte("x"), random...), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	changed := bus.Part{Header: parts[3].Header, Data: append([]byte("x"), parts[3].Data[1:]...)}
	for name, bad := range map[string][]bus.Part{
		"from the middle": parts[1:], "one missing": {parts[0], parts[2]}, "one twice": {parts[0], parts[0]}, "of two": {parts[0], other[1]},
		"changed": {parts[0], parts[1], parts[2], changed}, "no part": {{Data: random[:10]}},
	} {
		if whole, err := gather(bad); !errors.Is(err, bus.ErrPart) || whole != nil {
			t.Errorf("%s: %d bytes, %v", name, len(whole), err)
		}
	}
	if _, err := bus.Parts(make([]byte, ledger.MaxBytes+1), 1<<20); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("one that nobody would read: %v", err)
	}
	if _, err := bus.Parts(random, 1000); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("too many parts: %v", err)
	}
}

// A small message that unpacks to more than is ever read is refused before it fills the memory.
func TestPartsThatSwell(t *testing.T) {
	bomb, err := bus.Parts(make([]byte, ledger.MaxBytes), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gather(bomb); err != nil {
		t.Errorf("the largest: %v", err)
	}
	if _, err := gather(bus.Swollen(ledger.MaxBytes + 1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// 20,000 revocations in force come as a checkpoint in parts, and what follows it is followed.
func TestBeginsWithALargeCheckpoint(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	const n = 20_000
	for i := range n {
		c.Append(func(e *ledger.Entry) {
			e.Op, e.ID, e.Selector = ledger.Revoke, fmt.Sprint("2026-11-29-", i), &ledger.Selector{Tool: []string{fmt.Sprint("t", i)}}
			e.Reason = rand.Text() + rand.Text() + rand.Text() // which compress badly
		})
	}
	whole := c.Checkpoint().Encode()
	if parts, err := bus.Parts(whole, bus.PartBytes); err != nil || len(parts) < 3 {
		t.Fatalf("the checkpoint of %d bytes has %d parts, %v", len(whole), len(parts), err)
	}
	c.Restore("2026-11-29-7")
	dir := t.TempDir()
	s := begin(t, c, time.Minute, inDir(dir))
	s.inSync(t)
	if !s.revoked("t0") || !s.revoked(fmt.Sprint("t", n-1)) || s.revoked("t7") {
		t.Error("the checkpoint and what came after it are not in force")
	}
	if m := s.log.count("kill switch log applied"); m > 2 {
		t.Errorf("entries were applied %d times: it has read the log, not the checkpoint", m)
	}
	eventually(t, "saved", func() bool { return s.count("state_write ok") > 0 })
	s.Close()
	if state, err := bus.LoadState(dir, c.Keys()); err != nil || state.Revision != n+1 || len(state.Active()) != n-1 {
		t.Errorf("the saved state: %v", err)
	}
}

// A checkpoint that was not written to its end is passed over, and the log is read.
func TestPassesOverATornCheckpoint(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	for i := range 100 {
		c.Append(func(e *ledger.Entry) {
			e.Op, e.ID, e.Selector, e.Reason = ledger.Revoke, fmt.Sprint("r", i), &ledger.Selector{Tool: []string{fmt.Sprint("t", i)}}, rand.Text()
		})
	}
	c.TornCheckpoint()
	s := begin(t, c, time.Minute)
	s.inSync(t)
	if !s.revoked("t0") || !s.revoked("t99") {
		t.Error("the log is not in force")
	}
}
