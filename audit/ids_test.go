package audit

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	// The time of RFC 9562, appendix A.6.
	at := time.UnixMilli(0x017F22E279B0)
	if id := newID(at); !strings.HasPrefix(id, "017f22e2-79b0-7") {
		t.Fatal(id)
	}
	if newID(at) >= newID(at.Add(time.Millisecond)) {
		t.Fatal("a later id sorts first")
	}
}

func TestParseTraceparent(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	good := "00-" + trace + "-" + span + "-01"
	cases := map[string]bool{
		good:                    true,
		good[:53] + "00":        true,
		"cc" + good[2:]:         true,
		"cc" + good[2:] + "-xx": true,
		"cc" + good[2:] + "xx":  false,
		"ff" + good[2:]:         false,
		good + "-xx":            false,
		good + " ":              false,
		"":                      false,
		good[:54]:               false,
		strings.ToUpper(good):   false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00_" + good[3:]: false,
		"00-" + trace[:31] + "\"-" + span + "-01": false,
		"00-" + trace + "-" + span[:15] + "\n-01": false,
	}
	for h, want := range cases {
		gotTrace, gotSpan, ok := ParseTraceparent(h)
		if ok != want || ok && (gotTrace != trace || gotSpan != span) || !ok && gotTrace+gotSpan != "" {
			t.Errorf("%q: %q %q %v", h, gotTrace, gotSpan, ok)
		}
	}
}
