package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/redact"
)

// maxQuoted bounds what an error repeats of a value.
const maxQuoted = 80

// quote repeats a value in an error, without what is a secret by its form: it may have got into the wrong setting.
func quote(s string) string {
	if whole := strconv.Quote(s); redact.Text(whole) != whole {
		s = redact.Text(s) // before it is cut, so that no half of a secret escapes its pattern
	}
	if r := []rune(s); len(r) > maxQuoted {
		s = string(r[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

// found says what a node holds, for "found …".
func found(n *node) string {
	switch n.kind {
	case nullNode:
		return "nothing (null)"
	case boolNode:
		return n.text
	case intNode, floatNode:
		return "number " + n.text
	case dateNode:
		return "date " + n.text
	case listNode:
		return "a list"
	case mappingNode:
		return "a mapping"
	default:
		return "string " + quote(n.text)
	}
}

// enum is a string type of which only a few values are allowed.
type enum interface{ values() []string }

// bounded is a number type with a range.
type bounded interface{ bounds() (lo, hi string) }

// shaped is a type that says what its text looks like, for "expected …".
type shaped interface{ shape() string }

// expectedOf says what a type accepts, for "expected …".
func expectedOf(t reflect.Type) string {
	switch t {
	case durationType:
		return "a duration such as 10s"
	case timeType:
		return "a time such as 2026-11-29T17:10:00Z"
	case reflect.TypeFor[egress.Pattern]():
		return "a domain such as api.example.com, *.example.com or api.example.com:8443"
	case reflect.TypeFor[egress.PathPattern]():
		return "a path such as /v1/orders/*"
	case reflect.TypeFor[identity.WorkloadPattern]():
		return "an identity such as spiffe://example.org/ns/{tenant}/sa/* or system:serviceaccount:{tenant}:*"
	case reflect.TypeFor[names]():
		return "a string or a list of strings"
	}
	switch v := reflect.New(t).Interface().(type) {
	case enum:
		return oneOf(v.values(), "")
	case shaped:
		return v.shape()
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "a mapping"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "a string"
	}
}

func expectedNumber(k key) string {
	if k.max == "" {
		return "a whole number"
	}
	return fmt.Sprintf("a whole number from %s to %s", k.min, k.max)
}

// bounds returns the range that the tags give to a number.
func (k key) bounds() (lo, hi int64) {
	if k.max == "" {
		return math.MinInt64, math.MaxInt64
	}
	lo, _ = strconv.ParseInt(k.min, 10, 64)
	hi, _ = strconv.ParseInt(k.max, 10, 64)
	return lo, hi
}

// durations returns the range that the tags give to a duration.
func (k key) durations() (lo, hi time.Duration) {
	lo, _ = time.ParseDuration(k.min)
	hi, _ = time.ParseDuration(k.max)
	return lo, hi
}

func contains(values []string, s string) bool { return slices.Contains(values, s) }

func oneOf(values []string, near string) string {
	s := strings.Join(values, ", ")
	if len(values) > 1 {
		s = "one of " + s
	}
	if c := closest(near, values); c != "" {
		s += fmt.Sprintf("; did you mean %s?", strconv.Quote(c))
	}
	return s
}

// suggest says which keys there are, and which of them was probably meant.
func suggest(name string, keys []key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.name
	}
	if c := closest(name, all); c != "" {
		return fmt.Sprintf("a known key; did you mean %s?", strconv.Quote(c))
	}
	return oneOf(all, "")
}

// closest returns the value that differs from s by a typing mistake, or "".
func closest(s string, values []string) string {
	best, bestDistance := "", 1+max(1, len(s)/3)
	fold := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, v := range values {
		if s == "" || len(s) > maxQuoted {
			return ""
		}
		if d := distance(fold(s), fold(v)); d < bestDistance {
			best, bestDistance = v, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes, a swap of neighbours counting once.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
