package egress

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func mustPath(t testing.TB, text string) PathPattern {
	t.Helper()
	var p PathPattern
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPathPatternMatch(t *testing.T) {
	tests := []struct {
		pattern, path string
		match         bool
	}{
		{"/", "/", true},
		{"/", "/a", false},
		{"/v1/orders", "/v1/orders", true},
		{"/v1/orders", "/v1/orders/", false},
		{"/v1/orders", "/v1/orders/1", false},
		{"/v1/orders", "/v1/ordersx", false},
		{"/v1/orders", "/V1/orders", false},
		{"/v1/orders", "/v1/order%73", false}, // an escape is not undone
		{"/v1/orders/", "/v1/orders/", true},
		{"/v1/orders/", "/v1/orders", false},
		{"/v1/orders/*", "/v1/orders/1", true},
		{"/v1/orders/*", "/v1/orders/1/lines", true},
		{"/v1/orders/*", "/v1/orders/1/", true},
		{"/v1/orders/*", "/v1/orders/caf%C3%A9", true},
		{"/v1/orders/*", "/v1/orders", false},
		{"/v1/orders/*", "/v1/orders/", false},
		{"/v1/orders/*", "/v1/refunds/1", false},
		{"/v1/orders/**", "/v1/orders/1/lines", true},
		{"/v1/orders/**", "/v1/orders", false},
		{"/v1/*/lines", "/v1/1/lines", true},
		{"/v1/*/lines", "/v1/1/2/lines", false},
		{"/v1/*/lines", "/v1/lines", false},
		{"/v1/*/lines", "/v1/1/lines/2", false},
		{"/*/lines/*", "/a/lines/b/c", true},
		{"/*/", "/a/", true},
		{"/*/", "/a", false},
		{"/*", "/a", true},
		{"/*", "/", false},
		{"/**", "/a/b", true},
		{"/a/*", "/a/*", true},
		{"/a%20b", "/a%20b", true},
		{"/~u/:x@y!$&'()+,=-_.z", "/~u/:x@y!$&'()+,=-_.z", true},
	}
	for _, tt := range tests {
		p := mustPath(t, tt.pattern)
		if got := plainPath(tt.path) && p.match(tt.path); got != tt.match {
			t.Errorf("%q matches %q = %v", tt.pattern, tt.path, got)
		}
		if p.String() != tt.pattern {
			t.Errorf("%q prints as %q", tt.pattern, p)
		}
	}
}

// Each of these is a path that some server reads as one outside of /v1/, or that another reads otherwise than we do.
func TestAmbiguousPathsNeverMatch(t *testing.T) {
	for _, path := range []string{
		"", "v1/x", "*", "/v1/../admin", "/v1/..", "/v1/.", "/v1/./x", "/v1/%2e%2e/admin", "/v1/%2E./admin", "/v1/.%2e/admin",
		"/v1/%2e/x", "/v1//x", "//v1/x", "/v1/x//", "/v1/%2fadmin", "/v1/..%2Fadmin", `/v1\..\admin`, "/v1/%5c..%5Cadmin",
		"/v1/%252e%252e/admin", "/v1/a%25b", "/v1/..;/admin", "/v1/x;jsessionid=1", "/v1/;/x", "/v1/x%3B", "/v1/x\x00", "/v1/x%00",
		"/v1/x%0d%0a", "/v1/x%7f", "/v1/x y", "/v1/x\ty", "/v1/é", "/v1/%c0%af..", "/v1/%c0%ae%c0%ae/x", "/v1/%e0%80%af", "/v1/%ff",
		"/v1/%", "/v1/%2", "/v1/%zz", "/v1/%u002f", "/v1/x?y=/../", "/v1/x#y", "/v1/%c3", "/v1/%c3x",
	} {
		if plainPath(path) {
			t.Errorf("%q is taken for plain", path)
		}
		r := Rule{Paths: []PathPattern{mustPath(t, "/**"), mustPath(t, "/v1/*")}}
		if _, ok := r.matchPath(path, plainPath(path)); ok {
			t.Errorf("%q matches", path)
		}
	}
}

func TestPathPatternErrors(t *testing.T) {
	for entry, want := range map[string]string{
		"":             "begins with",
		"v1":           "begins with",
		"*":            "begins with",
		"/v1/../x":     "dot or empty segment",
		"/v1//x":       "dot or empty segment",
		"/v1/%2e%2e":   "dot or empty segment",
		"/v1?x=1":      "dot or empty segment",
		"/v1/é":        "dot or empty segment",
		"/v1/a%2fb":    "dot or empty segment",
		"/v1/a*":       "whole segment",
		"/v1/*.json/x": "whole segment",
		"/v1/***":      "whole segment",
		"/**/x":        "at the end",
		"/**/":         "at the end",
	} {
		p := PathPattern{text: "/before"}
		err := p.UnmarshalText([]byte(entry))
		var pe *PatternError
		if !errors.As(err, &pe) || pe.Entry != entry || !strings.Contains(pe.Reason, want) {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
		if p.text != "/before" {
			t.Errorf("%q: an error changed the pattern", entry)
		}
	}
}

// A pattern never covers a path that leaves its fixed beginning once all escapes and dot segments are undone.
func FuzzPathPattern(f *testing.F) {
	for _, s := range []string{"/v1/x", "/v1/%2e%2e/x", "/v1/..;/x", "/v1/%c0%ae", "/v1//", "/v1/%25", "/v1/a/b"} {
		f.Add(s)
	}
	r := Rule{Paths: []PathPattern{mustPath(f, "/v1/*")}}
	f.Fuzz(func(t *testing.T, path string) {
		if _, ok := r.matchPath(path, plainPath(path)); !ok {
			return
		}
		once, err := url.PathUnescape(path)
		if err != nil {
			t.Fatalf("%q matches with a bad escape", path)
		}
		for segment := range strings.SplitSeq(strings.TrimSuffix(once, "/")[1:], "/") {
			if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "\\;%") {
				t.Errorf("%q matches, and reads as %q", path, once)
			}
		}
		if !strings.HasPrefix(once, "/v1/") {
			t.Errorf("%q matches, and reads as %q", path, once)
		}
	})
}
