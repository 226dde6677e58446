//go:build linux

package main

import (
	"io"
	"strings"
	"testing"
)

// TestKillSwitch goes once through all parts: too small to say how fast, large enough that each revocation must reach everything.
func TestKillSwitch(t *testing.T) {
	opt := quickOptions(t, "-killswitch", "-clients", "8,12")
	k, err := measureKillSwitch(t.Context(), opt, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.one.tunnel) != k.size.runs || k.one.passed > 0 || len(k.crowd.ends) != k.size.tunnels || k.crowd.open > 0 {
		t.Errorf("one sidecar: %+v, %+v", k.one, k.crowd)
	}
	if len(k.fleet) != 2 || len(k.fleet[1].effects) != 12*k.size.each || len(k.fleet[0].storm.effects) != 8*k.size.storm {
		t.Errorf("fleets: %+v", k.fleet)
	}
	text := k.report(opt)
	for _, want := range []string{"smoke run", "## Targets", "| 12 sidecars: signing until the effect, p99 |", "go run . -clients=8,12 -killswitch=true -quick=true", "beside 10,000 | "} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestKillSwitchOptions(t *testing.T) {
	for _, clients := range []string{"", "0", "-1", "ten", "5,,6", "1000000"} {
		if _, err := parseOptions([]string{"-killswitch", "-clients", clients}, io.Discard); err == nil {
			t.Errorf("-clients %q is taken", clients)
		}
	}
	opt, err := parseOptions([]string{"-killswitch", "-clients", "5, 6"}, io.Discard)
	if err != nil || opt.out != "KILLSWITCH.md" || len(opt.kill.fleets) != 2 || opt.kill.fleets[1] != 6 {
		t.Errorf("%+v, %v", opt, err)
	}
}
