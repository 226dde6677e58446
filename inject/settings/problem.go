package settings

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a settings file, printed as "file:line:col: message".
type Problem struct {
	File      string
	Line, Col int
	Message   string // "found …, expected …"
}

// Problems is the error of Load and Parse.
type Problems []Problem

// Error returns one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", one.File, one.Line, one.Col, one.Message)
	}
	return strings.Join(lines, "\n")
}
