package main

import (
	"strings"
	"testing"
	"time"
)

// behaviour is a story told in series, and what an alert makes of it.
type behaviour struct {
	alert  string
	what   string
	series string        // in promtool's notation, a sample each minute
	step   time.Duration // 0: a minute
	at     time.Duration // when it is asked
	fires  string        // the labels of what fires, one alert a line; empty: silent
	text   string        // what summary or description must say of the first of them
}

// TestBehaviour: alerts fire on what they are for, and are silent on what looks like it.
func TestBehaviour(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, stories := range [][]behaviour{injectorStories, certificateStories, sidecarStories, limitStories, killSwitchStories, gatewayStories, auditStories} {
		for _, b := range stories {
			if b.fires == "" {
				silent[b.alert] = true
			} else {
				fires[b.alert] = true
			}
			t.Run(b.alert+"/"+strings.ReplaceAll(b.what, " ", "_"), func(t *testing.T) { b.check(t) })
		}
	}
	for name := range alerts(t) {
		if !fires[name] || !silent[name] {
			t.Errorf("%s: expected a story in which it fires and one in which it does not", name)
		}
	}
}

func (b behaviour) check(t *testing.T) {
	t.Helper()
	step := b.step
	if step == 0 {
		step = time.Minute
	}
	w := newWorld(t, b.alert)
	w.load(b.series, step)
	var got []string
	fire := w.run(b.alert, b.at, step)
	for _, f := range fire {
		got = append(got, f.labels)
	}
	var want []string
	for line := range strings.Lines(b.fires) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(fire) > 0 && !strings.Contains(fire[0].texts, b.text) {
		t.Errorf("found %q, expected it to say %q", fire[0].texts, b.text)
	}
}
