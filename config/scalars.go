package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/egress"
)

func (d *decoder) str(n *node, v reflect.Value, k key) bool {
	e, isEnum := v.Addr().Interface().(enum)
	if n.kind != stringNode {
		want := expectedOf(v.Type())
		if !isEnum && n.kind >= boolNode && n.kind <= dateNode {
			want += ": put it in quotes, " + strconv.Quote(n.text)
		}
		return d.mismatch(n, want)
	}
	if p, ok := v.Addr().Interface().(patterned); ok && !compiled[p.pattern()].MatchString(n.text) {
		d.errorf(n.at, "found %s, expected %s", found(n), p.shape())
		return false
	}
	if isEnum && !contains(e.values(), n.text) {
		d.errorf(n.at, "found %s, expected %s", found(n), oneOf(e.values(), n.text))
		return false
	}
	if n.text == "" && !k.blank {
		d.errorf(n.at, "found an empty string, expected some text")
		return false
	}
	v.SetString(n.text)
	return true
}

func (d *decoder) integer(n *node, v reflect.Value, k key) bool {
	if b, ok := v.Addr().Interface().(bounded); ok {
		k.min, k.max = b.bounds()
	}
	lo, hi := k.bounds()
	want := expectedNumber(k)
	i, err := strconv.ParseInt(n.text, 10, 64)
	if n.kind != intNode || err != nil || strconv.FormatInt(i, 10) != n.text {
		return d.mismatch(n, want)
	}
	if i < lo || i > hi {
		d.errorf(n.at, "found number %s, expected %s", n.text, want)
		return false
	}
	v.SetInt(i)
	return true
}

// ratio decodes a number with or without a fraction, as JSON writes it.
func (d *decoder) ratio(n *node, v reflect.Value, k key) bool {
	want := fmt.Sprintf("a number from %s to %s", k.min, k.max)
	f, err := strconv.ParseFloat(n.text, 64)
	if n.kind != intNode && n.kind != floatNode || err != nil || !plainNumber.MatchString(n.text) {
		return d.mismatch(n, want)
	}
	lo, _ := strconv.ParseFloat(k.min, 64)
	hi, _ := strconv.ParseFloat(k.max, 64)
	if f < lo || f > hi {
		d.errorf(n.at, "found number %s, expected %s", n.text, want)
		return false
	}
	v.SetFloat(f)
	return true
}

// plainNumber keeps out what YAML also takes for a number: .5, 1e3, 0x1, .inf.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

func (d *decoder) duration(n *node, v reflect.Value, k key) bool {
	want := "a duration such as 10s"
	t, err := time.ParseDuration(n.text)
	if n.kind != stringNode || err != nil {
		return d.mismatch(n, want)
	}
	lo, hi := k.durations()
	if t < lo || t > hi {
		d.errorf(n.at, "found duration %s, expected one from %s to %s", n.text, k.min, k.max)
		return false
	}
	v.SetInt(int64(t))
	return true
}

func (d *decoder) time(n *node, v reflect.Value) bool {
	t, err := time.Parse(time.RFC3339, n.text)
	if n.kind != dateNode && n.kind != stringNode || err != nil {
		return d.mismatch(n, expectedOf(timeType))
	}
	v.Set(reflect.ValueOf(t))
	return true
}

func (d *decoder) textual(n *node, v reflect.Value, u encoding.TextUnmarshaler) bool {
	want := expectedOf(v.Type())
	if n.kind != stringNode {
		return d.mismatch(n, want)
	}
	if err := u.UnmarshalText([]byte(n.text)); err != nil {
		why := ""
		if pe, ok := errors.AsType[*egress.PatternError](err); ok {
			why = ": " + pe.Reason // its text repeats the entry
		} else if !errors.Is(err, errShape) {
			why = ": " + err.Error()
		}
		d.errorf(n.at, "found %s, expected %s%s", found(n), want, why)
		return false
	}
	return true
}

// mismatch reports a node of the wrong kind.
func (d *decoder) mismatch(n *node, want string) bool {
	hint := ""
	if n.kind == nullNode {
		hint = "; give a value or leave the key out"
		if want == "a list" {
			hint = "; write [] for an empty one"
		}
	}
	d.errorf(n.at, "found %s, expected %s%s", found(n), want, hint)
	return false
}
