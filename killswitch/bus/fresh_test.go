package bus

import (
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

func TestFreshness(t *testing.T) {
	local := time.Now()
	signer := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) // clocks need not agree
	beat := func(instance string, after time.Duration) *ledger.Heartbeat {
		return &ledger.Heartbeat{Instance: instance, At: signer.Add(after)}
	}
	var f freshness
	if f.unasked(beat("a", time.Hour), local) {
		t.Fatal("a heartbeat counts before any answer to a nonce")
	}
	f.answered(beat("a", 0), local)
	for _, step := range []struct {
		name     string
		instance string
		signed   time.Duration // after the answer, by the signer's clock
		arrives  time.Duration // by ours
		want     bool
	}{
		{"a new one", "a", 5 * time.Second, 5 * time.Second, true},
		{"the same again", "a", 5 * time.Second, 6 * time.Second, false},
		{"one before it", "a", 4 * time.Second, 6 * time.Second, false},
		{"another replica, a little behind", "b", 4 * time.Second, 6 * time.Second, true},
		{"the same of it", "b", 4 * time.Second, 6 * time.Second, false},
		{"new, and held back too long", "a", 10 * time.Second, 30 * time.Second, false},
		{"in time", "a", 29 * time.Second, 30 * time.Second, true},
		{"a third replica with a recording of it", "c", 15 * time.Second, 30 * time.Second, false},
		// Each a little later than the one before: delays must not add up.
		{"held back 8 s", "a", 32 * time.Second, 40 * time.Second, true},
		{"held back 16 s", "a", 34 * time.Second, 50 * time.Second, false},
		{"a signer whose clock has jumped ahead", "d", time.Hour, 51 * time.Second, true},
		{"the others count no longer", "a", 52 * time.Second, 52 * time.Second, false},
	} {
		if got := f.unasked(beat(step.instance, step.signed), local.Add(step.arrives)); got != step.want {
			t.Errorf("%s: %v", step.name, got)
		}
	}
	f.answered(beat("a", 60*time.Second), local.Add(time.Minute))
	if !f.unasked(beat("b", 61*time.Second), local.Add(61*time.Second)) || f.now(local.Add(time.Hour)) != signer.Add(time.Hour) {
		t.Error("an answer to a nonce does not set the estimate right")
	}
	for i := range 1000 {
		f.unasked(beat(string(rune('A'+i)), time.Minute+time.Duration(i)*time.Second), local.Add(time.Minute+time.Duration(i)*time.Second))
	}
	if len(f.seen) > 20 {
		t.Errorf("%d instances are remembered", len(f.seen))
	}
}
