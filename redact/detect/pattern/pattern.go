// Package pattern matches regular expressions at a given place of a text, fast and with little memory. It takes the expressions of
// package regexp and finds what that finds first from there; but where regexp expands [a-z0-9]{64} into 64 instructions, here it is
// one, so that a rule costs hundreds of bytes and a mismatch tens of nanoseconds.
//
// Limits: a repeat without a bound that takes words and spaces ends after 512 bytes. It works on bytes. A negated class takes each byte of a character beyond ASCII for one, and no letter beyond ASCII equals an
// ASCII one in another case. It backtracks, and gives up after Budget steps: whoever calls it falls back on regexp, whose time is
// linear. Without that, a payload could make it slow.
//
// It is a leaf of package detect: only that may import it.
package pattern

import (
	"fmt"
	"regexp/syntax"
)

// Set is a class of bytes.
type Set [256]bool

type opcode uint8

const (
	opMatch   opcode = iota
	opLiteral        // the text of lit
	opFold           // the text of lit, which is in lower case, in any case
	opRun            // min to max bytes of set; lazy takes few rather than many
	opSplit          // x, and if that fails, y
	opJump           // x
	opSave           // the place into slot x
	opAssert         // nothing, where what holds
)

type inst struct {
	op       opcode
	lazy     bool
	what     syntax.EmptyOp
	min, max int // max is -1 for any number
	x, y     int
	lit      string
	set      *Set
	follow   *Set // bytes of which one follows the run, unless the text ends; nil if any may
	gate     *gate
}

// gate is before some runs that may all be empty. Whatever each takes, the first byte that none takes is the one behind them.
type gate struct {
	pass *Set // what the runs take
	most int  // how much
	need *Set // what comes then, unless the text ends
}

func (g *gate) open(text []byte, at int) bool {
	for end := min(len(text), at+g.most); at < end && g.pass[text[at]]; at++ {
	}
	return at == len(text) || g.need[text[at]]
}

// MaxGroups is how many groups of an expression are remembered, counted from the left.
const MaxGroups = 7

// Pattern is a compiled expression. It is immutable and safe for concurrent use.
type Pattern struct {
	insts  []inst
	groups bool
	begin  *Set         // bytes of which one begins a match, unless the text ends; nil if any may
	first  bool         // it matches at the beginning of the text or nowhere
	sets   map[Set]*Set // while compiling
}

// maxProse is how much a repeat takes that has no bound and takes letters and spaces alike: it would take all of a text that has no
// line ends, at each place anew.
const maxProse = 512

// maxInsts bounds what repeats of groups may expand to.
const maxInsts = 4000

// Compile makes a Pattern of an expression, parsed with syntax.Perl.
func Compile(re *syntax.Regexp) (*Pattern, error) {
	p := &Pattern{sets: map[Set]*Set{}}
	if err := p.compile(re); err != nil {
		return nil, err
	}
	p.emit(inst{op: opMatch})
	p.follows()
	p.first = p.anchored(0)
	var begin Set
	if p.starts(0, &begin, map[int]bool{}) {
		p.begin = p.intern(begin)
	}
	p.sets = nil
	return p, nil
}

func (p *Pattern) emit(i inst) int {
	p.insts = append(p.insts, i)
	return len(p.insts) - 1
}

func (p *Pattern) compile(re *syntax.Regexp) error {
	if len(p.insts) > maxInsts {
		return fmt.Errorf("expression expands to more than %d instructions", maxInsts)
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpLiteral:
		p.literal(re)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		p.emit(inst{op: opRun, min: 1, max: 1, set: p.intern(setOf(re))})
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		p.emit(inst{op: opAssert, what: assertion(re.Op)})
	case syntax.OpCapture:
		return p.capture(re)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if err := p.compile(sub); err != nil {
				return err
			}
		}
	case syntax.OpAlternate:
		return p.alternate(re.Sub)
	case syntax.OpStar:
		return p.repeat(re, 0, -1)
	case syntax.OpPlus:
		return p.repeat(re, 1, -1)
	case syntax.OpQuest:
		return p.repeat(re, 0, 1)
	case syntax.OpRepeat:
		return p.repeat(re, re.Min, re.Max)
	default:
		return fmt.Errorf("expression has %v", re.Op)
	}
	return nil
}

func (p *Pattern) capture(re *syntax.Regexp) error {
	if re.Cap > MaxGroups {
		return p.compile(re.Sub[0])
	}
	p.groups = true
	p.emit(inst{op: opSave, x: 2 * re.Cap})
	if err := p.compile(re.Sub[0]); err != nil {
		return err
	}
	p.emit(inst{op: opSave, x: 2*re.Cap + 1})
	return nil
}

func (p *Pattern) alternate(subs []*syntax.Regexp) error {
	var jumps []int
	for n, sub := range subs {
		split := -1
		if n < len(subs)-1 {
			split = p.emit(inst{op: opSplit})
			p.insts[split].x = split + 1
		}
		if err := p.compile(sub); err != nil {
			return err
		}
		if split >= 0 {
			jumps = append(jumps, p.emit(inst{op: opJump}))
			p.insts[split].y = len(p.insts)
		}
	}
	for _, j := range jumps {
		p.insts[j].x = len(p.insts)
	}
	return nil
}

// repeat compiles a repeat of one byte to one instruction, and that of anything else to copies.
func (p *Pattern) repeat(re *syntax.Regexp, least, most int) error {
	sub, lazy := re.Sub[0], re.Flags&syntax.NonGreedy != 0
	if set, ok := single(sub); ok {
		if most < 0 && set[' '] && set['a'] {
			most = max(maxProse, least)
		}
		p.emit(inst{op: opRun, min: least, max: most, set: p.intern(set), lazy: lazy})
		return nil
	}
	for range least {
		if err := p.compile(sub); err != nil {
			return err
		}
	}
	if most < 0 {
		split := p.emit(inst{op: opSplit})
		if err := p.compile(sub); err != nil {
			return err
		}
		p.emit(inst{op: opJump, x: split})
		p.fork(split, len(p.insts), lazy)
		return nil
	}
	var splits []int
	for range most - least {
		splits = append(splits, p.emit(inst{op: opSplit}))
		if err := p.compile(sub); err != nil {
			return err
		}
	}
	for _, s := range splits {
		p.fork(s, len(p.insts), lazy)
	}
	return nil
}

// fork lets a split go on behind itself or to the end, in the order that lazy asks for.
func (p *Pattern) fork(split, end int, lazy bool) {
	p.insts[split].x, p.insts[split].y = split+1, end
	if lazy {
		p.insts[split].x, p.insts[split].y = end, split+1
	}
}
