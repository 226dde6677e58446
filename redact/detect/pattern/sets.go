package pattern

import (
	"regexp/syntax"
	"strings"
	"unicode"
)

func (p *Pattern) intern(s Set) *Set {
	if old := p.sets[s]; old != nil {
		return old
	}
	p.sets[s] = &s
	return &s
}

// literal compiles a text. Letters beyond ASCII keep their case.
func (p *Pattern) literal(re *syntax.Regexp) {
	s := string(re.Rune)
	if re.Flags&syntax.FoldCase != 0 {
		p.emit(inst{op: opFold, lit: strings.ToLower(s)})
		return
	}
	p.emit(inst{op: opLiteral, lit: s})
}

// single returns the class of an expression that takes exactly one byte.
func single(re *syntax.Regexp) (Set, bool) {
	switch re.Op {
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return setOf(re), true
	case syntax.OpLiteral:
		if len(re.Rune) == 1 && re.Rune[0] < 0x80 {
			var s Set
			s.add(byte(re.Rune[0]), re.Flags&syntax.FoldCase != 0)
			return s, true
		}
	}
	return Set{}, false
}

// setOf returns the bytes of a class. One that reaches to the end of Unicode is a negated one, and takes all bytes beyond ASCII.
func setOf(re *syntax.Regexp) (s Set) {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		for b := range s {
			s[b] = re.Op == syntax.OpAnyChar || b != '\n'
		}
		return s
	}
	for i := 0; i+1 < len(re.Rune); i += 2 {
		lo, hi := re.Rune[i], re.Rune[i+1]
		for c := lo; c <= hi && c < 0x80; c++ {
			s[c] = true
		}
		if hi == unicode.MaxRune {
			for b := 0x80; b < 0x100; b++ {
				s[b] = true
			}
		}
	}
	return s
}

func (s *Set) add(b byte, fold bool) {
	s[b] = true
	if fold {
		s[lower(b)] = true
		if 'a' <= lower(b) && lower(b) <= 'z' {
			s[lower(b)-'a'+'A'] = true
		}
	}
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func assertion(op syntax.Op) syntax.EmptyOp {
	switch op {
	case syntax.OpBeginLine:
		return syntax.EmptyBeginLine
	case syntax.OpEndLine:
		return syntax.EmptyEndLine
	case syntax.OpBeginText:
		return syntax.EmptyBeginText
	case syntax.OpEndText:
		return syntax.EmptyEndText
	case syntax.OpWordBoundary:
		return syntax.EmptyWordBoundary
	}
	return syntax.EmptyNoWordBoundary
}

// follows gives each run that can be of several lengths the bytes that may come behind it, so that a length that cannot be
// right costs one look.
func (p *Pattern) follows() {
	for i := range p.insts {
		p.insts[i].gate = p.gate(i)
		if in := &p.insts[i]; in.op == opRun && in.min != in.max {
			var s Set
			if p.starts(i+1, &s, make(map[int]bool)) {
				in.follow = p.intern(s)
			}
		}
	}
}

// gate returns the gate for the runs that begin at pc, if there is one.
func (p *Pattern) gate(pc int) *gate {
	var pass, need Set
	most, end := 0, pc
	for ; p.insts[end].op == opRun && p.insts[end].min == 0 && p.insts[end].max > 0; end++ {
		for b, ok := range p.insts[end].set {
			pass[b] = pass[b] || ok
		}
		most += p.insts[end].max
	}
	if end == pc || !p.starts(end, &need, make(map[int]bool)) {
		return nil
	}
	for b := range pass {
		if pass[b] && need[b] {
			return nil
		}
	}
	return &gate{pass: p.intern(pass), most: most, need: p.intern(need)}
}

// starts adds the bytes that can come next at pc. It returns false if the pattern can end there although the text does not.
func (p *Pattern) starts(pc int, s *Set, seen map[int]bool) bool {
	if seen[pc] {
		return true
	}
	seen[pc] = true
	in := &p.insts[pc]
	switch in.op {
	case opMatch:
		return false
	case opLiteral, opFold:
		s.add(in.lit[0], in.op == opFold)
	case opRun:
		for b, ok := range in.set {
			s[b] = s[b] || ok
		}
		return in.min > 0 || p.starts(pc+1, s, seen)
	case opSplit:
		x := p.starts(in.x, s, seen)
		return p.starts(in.y, s, seen) && x
	case opJump:
		return p.starts(in.x, s, seen)
	case opSave:
		return p.starts(pc+1, s, seen)
	case opAssert:
		return in.what == syntax.EmptyEndText || p.starts(pc+1, s, seen)
	}
	return true
}

// anchored reports whether whatever matches at pc must be at the beginning of the text.
func (p *Pattern) anchored(pc int) bool {
	switch in := &p.insts[pc]; in.op {
	case opAssert:
		return in.what == syntax.EmptyBeginText
	case opSave:
		return p.anchored(pc + 1)
	case opSplit:
		return in.x > pc && in.y > pc && p.anchored(in.x) && p.anchored(in.y)
	case opJump:
		return in.x > pc && p.anchored(in.x)
	}
	return false
}

// First reports whether p matches at the beginning of the text or nowhere.
func (p *Pattern) First() bool { return p.first }

// MayBegin reports whether a match can begin at this place of the text. It is cheaper than Match, and never wrong about a match.
func (p *Pattern) MayBegin(text []byte, at int) bool {
	return p.begin == nil || at >= len(text) || p.begin[text[at]]
}
