package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// Problem is one mistake in a file, printed as "file:line:col: message".
type Problem struct {
	File      string
	Line, Col int
	Message   string // "found …, expected …", and a hint where there is one
}

// String returns "file:line:col: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, p.Message)
}

// Problems is the error of Load: every mistake, sorted by file and position.
type Problems []Problem

// Error returns one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// mark is a place in a file. Values keep theirs, so that a check made long after decoding can point at it.
type mark struct {
	file      string
	line, col int
}

func (m mark) String() string { return fmt.Sprintf("%s:%d:%d", m.file, m.line, m.col) }

// report gathers mistakes, warnings and notes; nothing stops at the first.
type report struct {
	mistakes Problems
	warnings Problems
	notes    Problems
}

// maxMistakes bounds what one load reports.
const maxMistakes = 1000

func (r *report) errorf(at mark, format string, args ...any) {
	switch {
	case len(r.mistakes) == maxMistakes:
		format, args = "found more than %d mistakes, expected fewer: the rest is not shown", []any{maxMistakes}
	case r.full():
		return
	}
	r.mistakes = append(r.mistakes, problemf(at, format, args))
}

// problemf masks what is a secret by its form, as a log would: problems are printed as they are.
func problemf(at mark, format string, args []any) Problem {
	return Problem{at.file, at.line, at.col, redact.Text(fmt.Sprintf(format, args...))}
}

func (r *report) full() bool { return len(r.mistakes) > maxMistakes }

func (r *report) warnf(at mark, format string, args ...any) {
	r.warnings = append(r.warnings, problemf(at, format, args))
}

// notef tells what is in force and does not stand in the file.
func (r *report) notef(at mark, format string, args ...any) {
	r.notes = append(r.notes, problemf(at, format, args))
}

// err returns the mistakes, sorted, as an error; nil when there is none.
func (r *report) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	return sorted(r.mistakes)
}

func sorted(p Problems) Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.Compact(p)
}
