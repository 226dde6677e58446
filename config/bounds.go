package config

import "github.com/goccy/go-yaml/token"

// Bounds on what the parser is given: it recurses on nesting, where a stack overflow cannot be recovered from, and takes
// time that grows with the square of a block mapping's keys.
const (
	maxDepth  = 64
	maxKeys   = 1000
	maxTokens = 250_000
)

// bounded refuses what exceeds the bounds, before anything recurses.
func (r *report) bounded(start mark, tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.errorf(start, "found %d tokens, expected at most %d", len(tokens), maxTokens)
		return false
	}
	flow, prefixes, line := 0, 0, 0
	var block columns
	for _, t := range tokens {
		p := t.Position
		if p.Line != line {
			line, prefixes = p.Line, 0
			if flow == 0 {
				block.begin(p.Column, t.Type != token.SequenceEntryType)
			}
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			prefixes++
		}
		if flow+prefixes+len(block) > maxDepth {
			r.errorf(mark{start.file, p.Line, p.Column}, "found nesting deeper than %d levels, expected less", maxDepth)
			return false
		}
		if block.keys() > maxKeys {
			r.errorf(mark{start.file, p.Line, p.Column}, "found a mapping of more than %d keys, expected fewer", maxKeys)
			return false
		}
	}
	return true
}

// columns are the block mappings and lists that are open at a line, from the outermost to the innermost.
type columns []struct{ column, keys int }

// begin takes note of a line by the column of its first token.
func (c *columns) begin(column int, key bool) {
	open := *c
	for len(open) > 0 && open[len(open)-1].column > column {
		open = open[:len(open)-1]
	}
	if len(open) == 0 || open[len(open)-1].column < column {
		open = append(open, struct{ column, keys int }{column: column})
	}
	if key {
		open[len(open)-1].keys++
	}
	*c = open
}

func (c columns) keys() int {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].keys
}
