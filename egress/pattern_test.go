package egress

import (
	"encoding"
	"errors"
	"strings"
	"testing"
)

var (
	_ encoding.TextUnmarshaler = (*Pattern)(nil)
	_ encoding.TextUnmarshaler = (*PathPattern)(nil)
)

func mustPattern(t testing.TB, text string) Pattern {
	t.Helper()
	var p Pattern
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPatternMatch(t *testing.T) {
	tests := []struct {
		pattern, host string
		port          uint16
		match         bool
	}{
		{"api.ok.test", "api.ok.test", 443, true},
		{"api.ok.test", "api.ok.test", 80, true},
		{"api.ok.test", "api.ok.test", 22, false},
		{"api.ok.test:443", "api.ok.test", 443, true},
		{"api.ok.test:443", "api.ok.test", 80, false},
		{"api.ok.test:443", "api.ok.test", 9999, false},
		{"API.ok.test.", "api.ok.test", 443, true},
		{"api.ok.test", "x.api.ok.test", 443, false},
		{"api.ok.test", "xapi.ok.test", 443, false},
		{"*.wild.test", "a.wild.test", 443, true},
		{"*.wild.test", "a.b.wild.test", 443, true},
		{"*.wild.test", "wild.test", 443, false},
		{"*.wild.test", "notwild.test", 443, false},
		{"*.wild.test", "evilwild.test", 443, false},
		{"*.wild.test", "wild.test.evil.test", 443, false},
		{"*.wild.test", ".wild.test", 443, false}, // no host at all, and not the apex either
		{"*.wild.test:8443", "a.wild.test", 8443, true},
		{"*.wild.test:8443", "a.wild.test", 443, false},
		{"xn--bcher-kva.test", "xn--bcher-kva.test", 443, true},
		{"198.51.100.7", "198.51.100.7", 80, true},
		{"198.51.100.7", "198.51.100.70", 80, false},
		{"198.51.100.7:8443", "198.51.100.7", 8443, true},
		{"[2001:DB8::1]:8443", "2001:db8::1", 8443, true},
		{"[2001:db8::1]", "2001:db8::1", 443, true},
		{"2001:db8::1", "2001:db8::1", 443, true},
		{"2001:db8::1:8443", "2001:db8::1:8443", 443, true}, // all address: without brackets there is no port
		{"[::ffff:198.51.100.7]", "198.51.100.7", 443, true},
	}
	for _, tt := range tests {
		p := mustPattern(t, tt.pattern)
		if got := p.Match(tt.host, tt.port); got != tt.match {
			t.Errorf("%q matches %s:%d = %v", tt.pattern, tt.host, tt.port, got)
		}
		if p.String() != tt.pattern {
			t.Errorf("%q prints as %q", tt.pattern, p)
		}
	}
}

func TestZeroPatternMatchesNothing(t *testing.T) {
	if (Pattern{}).Match("", 443) || (Pattern{}).Match("api.ok.test", 443) || (PathPattern{}).match("/") {
		t.Error("a zero pattern matches")
	}
}

func TestPatternErrors(t *testing.T) {
	for entry, want := range map[string]string{
		"":                         "empty",
		"*":                        "every host",
		"*:443":                    "every host",
		"*.":                       "empty",
		"*.*":                      "one wildcard",
		"*.com":                    "public suffix",
		"*.COM.":                   "public suffix",
		"*.co.uk":                  "public suffix",
		"*.github.io":              "public suffix",
		"*.github.io:443":          "public suffix",
		"*.foo.ck":                 "public suffix", // by the wildcard rule *.ck
		"*.test":                   "public suffix",
		"*.local":                  "public suffix",
		"*.1.2.3.4":                "over an address",
		"*.[2001:db8::1]":          "over an address",
		"api*.ok.test":             "whole first label",
		"api.*.test":               "whole first label",
		"**.ok.test":               "whole first label",
		"*ok.test":                 "whole first label",
		"*.*.ok.test":              "one wildcard",
		"https://api.ok.test":      "URL",
		"api.ok.test/path":         "path",
		"10.0.0.0/8":               "prefix length",
		"u@api.ok.test":            "user info",
		"api.ok.test:0":            "port",
		"api.ok.test:":             "port",
		"api.ok.test:443:80":       "not an IPv6 address",
		"api.ok.test:*":            "whole first label",
		"api.ok.test ":             "not allowed in a host",
		"127.1":                    "canonical IPv4",
		"[api.ok.test]":            "brackets",
		"bücher.test":              `"xn--bcher-kva.test"`,
		"BÜCHER.test:8443":         `"xn--bcher-kva.test:8443"`,
		"*.bücher.test":            `"*.xn--bcher-kva.test"`,
		"\u212a.ok.test":           `"k.ok.test"`,
		"１２７．０．０．１":                `"127.0.0.1"`,
		"bücher.test\x00":          "A-label",
		"bücher..test":             "A-label",
		"\xff.test":                "A-label",
		strings.Repeat("a", 64):    "63",
		"a.example, b.example":     "not allowed in a host",
		"xn--zzzzzzzz99999.test":   "A-label is not valid",
		"api.ok.test?x=1":          "not allowed in a host",
		"[fe80::1%eth0]:443":       "zone",
		"*.api.ok.test:https":      "port",
		"api.ok.test:443\nb.test":  "port",
		"*.cdn.example:443:8443":   "not an IPv6 address",
		"*.s3.amazonaws.com":       "public suffix",
		"api.ok.test:65536":        "port",
		"[2001:db8::1]:99999":      "port",
		"[2001:db8::1":             "brackets",
		"2001:db8::1]:443":         "not an IPv6 address",
		"*.xn--55qx5d.cn":          "public suffix",
		"http://user:pw@host.test": "URL",
	} {
		p := Pattern{text: "before"}
		err := p.UnmarshalText([]byte(entry))
		var pe *PatternError
		if !errors.As(err, &pe) || pe.Entry != entry || !strings.Contains(pe.Reason, want) {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
		if p != (Pattern{text: "before"}) {
			t.Errorf("%q: an error changed the pattern to %+v", entry, p)
		}
	}
}

// What the error suggests must be accepted.
func TestSuggestedALabelIsAPattern(t *testing.T) {
	for _, entry := range []string{"bücher.test", "*.bücher.test:8443", "例え.テスト", "straße.test"} {
		a, ok := suggestALabels(entry)
		if !ok {
			t.Errorf("%q: no suggestion", entry)
			continue
		}
		mustPattern(t, a)
	}
}
