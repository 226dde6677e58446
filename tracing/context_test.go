package tracing

import (
	"strings"
	"testing"
)

func TestParent(t *testing.T) {
	for header, want := range map[string]string{ // what is passed on with the same ids
		sampled:                                         sampled,
		strings.TrimSuffix(sampled, "01") + "00":        strings.TrimSuffix(sampled, "01") + "00",
		strings.TrimSuffix(sampled, "01") + "03":        strings.TrimSuffix(sampled, "01") + "03",
		strings.TrimSuffix(sampled, "01") + "ff":        strings.TrimSuffix(sampled, "01") + "03", // unknown flags are cleared
		"cc" + strings.TrimPrefix(sampled, "00") + "-x": sampled,
		"ff" + strings.TrimPrefix(sampled, "00"):        "",
		sampled + "-x":                                  "",
		strings.ToUpper(sampled):                        "",
		strings.Replace(sampled, "b7ad6b7169203331", strings.Repeat("0", 16), 1): "",
		"": "",
	} {
		p, ok := parseParent(header)
		got := ""
		if ok {
			got = traceparent(p.trace, p.span, p.flags)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

func TestState(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("a=1,", 33), ",")
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"a=1,b=2"}, "a=1,b=2"},
		{[]string{"a=1", "b=2"}, "a=1,b=2"},
		{[]string{"a=1 ,\tb=2,,"}, "a=1,b=2"},
		{[]string{"t61rcwkgmze@vendor=x:y z"}, "t61rcwkgmze@vendor=x:y z"},
		{[]string{"a=1,a=2"}, ""},
		{[]string{"A=1"}, ""},
		{[]string{"a"}, ""},
		{[]string{"a="}, ""},
		{[]string{"a=1=2"}, ""},
		{[]string{"a=\x01"}, ""},
		{[]string{many}, ""},
		{[]string{"a=" + strings.Repeat("x", 257)}, ""},
		{[]string{"a=" + strings.Repeat("x", 250), "b=" + strings.Repeat("x", 250), "c=123456789"}, ""},
	} {
		if got := State(c.lines); got != c.want {
			t.Errorf("%q: got %q, want %q", c.lines, got, c.want)
		}
	}
}

func TestIDs(t *testing.T) {
	a, b := newSpanID(), newSpanID()
	if x, y := newTraceID(), newTraceID(); a == b || x == y || a == [8]byte{} || x == [16]byte{} {
		t.Error("ids repeat")
	}
}
