package killswitch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(time.Minute, "file", "nats")
		stale := func(risk string) string {
			var e *Stale
			if !errors.As(k.Check(Scope{Tool: "t", Risk: risk}), &e) {
				return ""
			}
			return e.Source
		}
		k.Heard("file")
		k.Heard("unknown")
		if stale("high") != "nats" || stale("critical") != "nats" || stale("") != "nats" || stale("odd") != "nats" {
			t.Fatal("a source that was never heard does not deny")
		}
		if stale("low") != "" || stale("medium") != "" {
			t.Fatal("a low or medium call is denied")
		}
		if st := k.Status(); !st.Stale || st.Age >= 0 || st.Sources["nats"] >= 0 || st.Sources["file"] != 0 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Second)
		k.Heard("nats")
		ctx, end, err := k.Guard(t.Context(), Scope{Tool: "t", Risk: "critical"})
		if err != nil {
			t.Fatal(err)
		}
		defer end(nil)
		time.Sleep(59 * time.Second)
		if stale("high") != "" {
			t.Fatal("stale at exactly maxStale")
		}
		time.Sleep(time.Nanosecond)
		if stale("high") != "file" || k.Status().Age != time.Minute+1 {
			t.Fatalf("not stale after maxStale: %+v", k.Status())
		}
		if ctx.Err() != nil {
			t.Fatal("going stale cut a running call")
		}
		mustApply(t, k, "nats", revoke("r", Selector{Tool: []string{"t"}}))
		if got := tripped(k.Check(Scope{Tool: "t", Risk: "high"})); got != "r" {
			t.Fatal("stale is told instead of the revocation")
		}
		mustApply(t, k, "nats")
		k.Heard("file")
		if stale("high") != "" || k.Status().Stale {
			t.Fatal("stale after both were heard")
		}
	})
}

func TestDenyStale(t *testing.T) {
	for _, tt := range []struct{ risks, denied []string }{
		{nil, []string{"high", "critical"}},
		{[]string{"medium"}, []string{"medium", "high", "critical"}},
		{[]string{"critical", "low"}, []string{"low", "high", "critical"}},
	} {
		k := New(time.Minute, "nats")
		k.DenyStale(tt.risks...)
		if st := k.Status(); !slices.Equal(st.StaleRisks, tt.denied) {
			t.Errorf("%v: %v", tt.risks, st.StaleRisks)
		}
		for _, risk := range []string{"low", "medium", "high", "critical"} {
			if denied := k.Check(Scope{Tool: "t", Risk: risk}) != nil; denied != slices.Contains(tt.denied, risk) {
				t.Errorf("%v: %s is denied: %v", tt.risks, risk, denied)
			}
		}
		if k.Check(Scope{Tool: "t", Risk: "odd"}) == nil {
			t.Errorf("%v: an unknown risk goes on", tt.risks)
		}
	}
}

func TestStaleDisabled(t *testing.T) {
	if err := New(0, "file").Check(Scope{Risk: "critical"}); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revocations")
	synctest.Test(t, func(t *testing.T) {
		k := New(time.Minute, "file")
		f := &File{Path: path, Name: "file", Switch: k, Decode: func(path string) ([]Revocation, error) {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if len(b) == 0 {
				return nil, errors.New("empty file")
			}
			return []Revocation{revoke(string(b), Selector{Tool: []string{"t"}})}, nil
		}}
		write := func(s string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		high := Scope{Tool: "u", Risk: "high"}

		if err := f.Load(); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("missing file: %v", err)
		}
		if k.Check(high) == nil {
			t.Fatal("a missing file counts as heard")
		}
		write("one")
		if err := f.Load(); err != nil || k.Check(high) != nil {
			t.Fatalf("load %v, check %v", err, k.Check(high))
		}
		time.Sleep(time.Minute)
		if err := f.Load(); err != nil || k.Status().Age != 0 || k.Status().Revision != 1 {
			t.Fatalf("the same content: %v, %+v", err, k.Status())
		}
		write("")
		time.Sleep(time.Minute + 1)
		if err := f.Load(); err == nil {
			t.Fatal("bad file: no error")
		}
		if tripped(k.Check(Scope{Tool: "t"})) != "one" {
			t.Fatal("the last good set does not rule")
		}
		if k.Check(high) == nil {
			t.Fatal("a bad file counts as heard")
		}
	})
}
