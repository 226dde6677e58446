package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func inDir(dir string) func(*bus.Options) { return func(o *bus.Options) { o.StateDir = dir } }

// saved runs a sidecar until its state of revision n is on disk, and returns the folder and the file's content.
func savedState(t *testing.T, c *bustest.Central) (dir string, text []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "made", "state")
	s := begin(t, c, time.Minute, inDir(dir))
	s.inSync(t)
	eventually(t, "saved", func() bool {
		state, err := bus.LoadState(dir, c.Keys())
		return err == nil && state.Revision == s.View().Revision && s.count("state_write ok") > 0
	})
	s.Close()
	text, err := os.ReadFile(filepath.Join(dir, bus.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	return dir, text
}

// After a restart without a control plane the last set rules at once, and does not count as heard.
func TestStateRulesAfterARestart(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	c.Revoke("r1", tool("a"))
	c.Checkpoint()
	c.Revoke("r2", tool("b"))
	c.Append(func(e *ledger.Entry) {
		e.Op, e.ID, e.Selector, e.Expires = ledger.Revoke, "brief", &ledger.Selector{Tool: []string{"brief"}}, e.At.Add(time.Second)
	})
	dir, _ := savedState(t, c)
	c.Stop()
	s := open(t, c, time.Minute, inDir(dir)) // not started: nothing was heard
	if !s.revoked("a") || !s.revoked("b") || s.View().Revision != 3 {
		t.Error("what was revoked is not in force")
	}
	if !s.stale() {
		t.Error("a state from disk counts as hearing")
	}
	eventually(t, "a second has passed", func() bool { state, _ := bus.LoadState(dir, c.Keys()); return time.Since(state.At) > time.Second })
	if !s.revoked("brief") {
		t.Error("our clock alone has ended a revocation")
	}
	// It goes on from there: an older log is a rollback, the same one is in sync.
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Run()
	s.inSync(t)
	eventually(t, "expired by the signer's clock", func() bool { return !s.revoked("brief") })
	c.Revoke("r4", tool("d"))
	eventually(t, "r4", func() bool { return s.revoked("d") })
}

func TestStateSeesARollbackAfterARestart(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	c.Revoke("r1", tool("a"))
	dir, _ := savedState(t, c)
	other := bustest.Start(t, 50*time.Millisecond, c.Signer) // began a new log with the same key
	s := begin(t, other, time.Second, inDir(dir))
	eventually(t, "refused", func() bool { return s.View().Refused == ledger.OtherLog })
	if !s.stale() || !s.revoked("a") {
		t.Error("another log has taken over")
	}
}

// Whatever is wrong with the file, nothing of it is used, it is set aside, and the control plane mends it.
func TestBadStateIsRefused(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	c.Revoke("r1", tool("a"))
	c.Revoke("r2", tool("b"))
	_, good := savedState(t, c)
	lines := bytes.SplitAfter(good, []byte("\n"))
	if len(lines) != 6 { // magic, sum, no checkpoint, two entries, nothing
		t.Fatalf("%d lines: %s", len(lines), good)
	}
	for name, bad := range map[string][]byte{
		"empty":            nil,
		"torn":             good[:len(good)-10],
		"half":             good[:len(good)/2],
		"another format":   []byte("hello\n"),
		"a newer version":  bytes.Replace(good, []byte("state v1"), []byte("state v2"), 1),
		"a changed byte":   bytes.Replace(good, []byte(`"r2"`), []byte(`"r3"`), 1),
		"a forged entry":   bus.Resum(bytes.Replace(good, []byte(`"r2"`), []byte(`"r3"`), 1)),
		"an entry less":    bus.Resum(bytes.Join([][]byte{lines[0], lines[1], lines[2], lines[4]}, nil)),
		"entries swapped":  bus.Resum(bytes.Join([][]byte{lines[0], lines[1], lines[2], lines[4], lines[3]}, nil)),
		"an entry doubled": bus.Resum(bytes.Join([][]byte{lines[0], lines[1], lines[2], lines[3], lines[3]}, nil)),
		"nothing in it":    bus.Resum(bytes.Join(lines[:3], nil)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, bus.StateFile)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, c, time.Minute, inDir(dir))
			if s.revoked("a") || !s.stale() || s.View().Revision != 0 {
				t.Error("it was used")
			}
			if s.log.count("level=ERROR") != 1 || s.log.count("refused") == 0 {
				t.Error("nobody was told")
			}
			if _, err := os.Stat(path + ".refused"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("signed by others", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, bus.StateFile), good, 0o600); err != nil {
			t.Fatal(err)
		}
		stranger := bustest.Start(t, 0)
		if _, err := bus.LoadState(dir, stranger.Keys()); !errors.Is(err, &ledger.Error{Kind: ledger.UnknownKey}) {
			t.Errorf("%v", err)
		}
		if state, err := bus.LoadState(dir, c.Keys()); err != nil || state.Revision != 2 {
			t.Errorf("the good one: %v", err)
		}
	})
}

// The file does not grow with the log: a checkpoint takes the place of what it covers, if it is one of this history.
func TestStateIsCompacted(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	c.Revoke("first", tool("first"))
	dir := t.TempDir()
	s := begin(t, c, time.Minute, inDir(dir))
	s.inSync(t)
	path := filepath.Join(dir, bus.StateFile)
	lines := func() int { text, _ := os.ReadFile(path); return bytes.Count(text, []byte("\n")) }
	// When it asks is its own choice, and depends on how many entries it has by then.
	for i := 0; i < 2000 && (i < 300 || lines() > 300); i++ {
		c.Revoke(fmt.Sprint("r", i), tool("t"))
		c.Restore(fmt.Sprint("r", i))
		if i%20 == 0 {
			c.Checkpoint()
		}
	}
	last := c.Revoke("last", tool("last"))
	eventually(t, "short, and whole", func() bool {
		state, err := bus.LoadState(dir, c.Keys())
		return err == nil && state.Revision == last.Revision && lines() < 600 && int(last.Revision) > 600
	})
	s.Close()
	after := open(t, c, time.Minute, inDir(dir))
	if !after.revoked("first") || !after.revoked("last") || after.revoked("t") {
		t.Error("the compacted state is another")
	}
}

// A disk that takes nothing keeps no revocation from its effect.
func TestStateCannotBeWritten(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bus.StateFile+".new"), 0o700); err != nil { // where the new file would be
		t.Fatal(err)
	}
	s := begin(t, c, time.Minute, inDir(dir))
	s.inSync(t)
	c.Revoke("r1", tool("a"))
	eventually(t, "revoked", func() bool { return s.revoked("a") })
	eventually(t, "counted", func() bool { return s.count("state_write error") > 0 })
	if s.log.count("not saved") != 1 {
		t.Error("not logged once")
	}
	if err := os.Remove(filepath.Join(dir, bus.StateFile+".new")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "saved after all", func() bool { _, err := bus.LoadState(dir, c.Keys()); return err == nil })
}
