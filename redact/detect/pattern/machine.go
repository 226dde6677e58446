package pattern

import "regexp/syntax"

// Budget is the number of steps that a match may take. The longest matches of ordinary texts take a few hundred.
const Budget = 20_000

// Result is how a match ended.
type Result uint8

const (
	No     Result = iota
	Yes           // the match and its groups are in the machine
	GaveUp        // the budget ran out: nothing is known
)

// Machine holds what a match needs while it runs, and its outcome. It is for one goroutine at a time.
type Machine struct {
	// Start and End are the place of the match.
	Start, End int
	// Held is where what is looked for would begin if more of the text followed: the least of the groups that had begun whenever a
	// match came to the end of the text; of a pattern without groups, the match. It is -1 if no match came to the end.
	Held  int
	slots [2 * (MaxGroups + 1)]int
	stack []alternative
}

var unset = func() (s [2 * (MaxGroups + 1)]int) {
	for i := range s {
		s[i] = -1
	}
	return s
}()

// alternative is what is tried when the way taken fails.
type alternative struct {
	pc    int
	at    int // where to go on
	limit int // of a run: how far at may move; of a slot: its old value
	kind  kind
}

type kind uint8

const (
	branch  kind = iota
	shorter      // a run that took many: at may go down to limit
	longer       // a run that took few: at may go up to limit
	restore      // the slot pc gets its old value again
)

// Group returns the place of a group, and whether it took part in the match.
func (m *Machine) Group(n int) (start, end int, ok bool) {
	if n > MaxGroups {
		return 0, 0, false
	}
	start, end = m.slots[2*n], m.slots[2*n+1]
	return start, end, start >= 0 && end >= start
}

// Match tries to match p at exactly this place of the text.
func (p *Pattern) Match(m *Machine, text []byte, at int) Result {
	m.slots = unset
	m.stack = m.stack[:0]
	m.Start, m.Held = at, -1
	pc := 0
	for steps := Budget; steps > 0; steps-- {
		in := &p.insts[pc]
		ok := true
		switch in.op {
		case opMatch:
			m.End = at
			return Yes
		case opLiteral:
			if ok = len(text)-at >= len(in.lit); ok {
				ok = string(text[at:at+len(in.lit)]) == in.lit
			} else if string(text[at:]) == in.lit[:len(text)-at] {
				m.hold(p)
			}
			at += len(in.lit)
		case opFold:
			if ok = len(text)-at >= len(in.lit); ok {
				ok = hasFold(text[at:], in.lit)
			} else if hasFold(text[at:], in.lit[:len(text)-at]) {
				m.hold(p)
			}
			at += len(in.lit)
		case opRun:
			if ok = in.gate == nil || in.gate.open(text, at); ok {
				at, ok = m.run(p, pc, text, at)
			}
		case opSplit:
			m.stack = append(m.stack, alternative{pc: in.y, at: at})
			pc = in.x - 1
		case opJump:
			pc = in.x - 1
		case opSave:
			m.stack = append(m.stack, alternative{pc: in.x, limit: m.slots[in.x], kind: restore})
			m.slots[in.x] = at
		case opAssert:
			ok = holds(in.what, text, at)
		}
		pc++
		if !ok {
			if pc, at, ok = m.back(p, text); !ok {
				return No
			}
		}
	}
	return GaveUp
}

// Search tries to match p at every place of the text where a match may begin, and stops at the first.
func (p *Pattern) Search(m *Machine, text []byte) Result {
	if p.first {
		return p.Match(m, text, 0)
	}
	for at := 0; at <= len(text); at++ {
		if p.begin != nil && at < len(text) && !p.begin[text[at]] {
			continue
		}
		if r := p.Match(m, text, at); r != No {
			return r
		}
	}
	return No
}

// run takes bytes and notes what else could have been taken.
func (m *Machine) run(p *Pattern, pc int, text []byte, at int) (int, bool) {
	in := &p.insts[pc]
	most := len(text) - at
	if in.max >= 0 && in.max < most {
		most = in.max
	}
	want := most
	if in.lazy {
		want = min(in.min, most)
	}
	n := 0
	for n < want && in.set[text[at+n]] {
		n++
	}
	if at+n == len(text) && n != in.max {
		m.hold(p)
	}
	if n < in.min {
		return 0, false
	}
	if in.lazy && n < most {
		m.stack = append(m.stack, alternative{pc: pc, at: at + n, limit: at + most, kind: longer})
	}
	if !in.lazy && n > in.min {
		m.stack = append(m.stack, alternative{pc: pc, at: at + n, limit: at + in.min, kind: shorter})
	}
	return at + n, true
}

// hold notes that the match came to the end of the text.
func (m *Machine) hold(p *Pattern) {
	from := m.Start
	if p.groups {
		from = -1
		for n := 2; n < len(m.slots); n += 2 {
			if m.slots[n] >= 0 && (from < 0 || m.slots[n] < from) {
				from = m.slots[n]
			}
		}
	}
	if from >= 0 && (m.Held < 0 || from < m.Held) {
		m.Held = from
	}
}

// back returns to the last alternative.
func (m *Machine) back(p *Pattern, text []byte) (pc, at int, ok bool) {
	for len(m.stack) > 0 {
		top := &m.stack[len(m.stack)-1]
		switch top.kind {
		case branch:
			pc, at = top.pc, top.at
			m.stack = m.stack[:len(m.stack)-1]
			return pc, at, true
		case restore:
			m.slots[top.pc] = top.limit
			m.stack = m.stack[:len(m.stack)-1]
		case shorter:
			in := &p.insts[top.pc]
			for top.at--; top.at >= top.limit && in.follow != nil && !in.follow[text[top.at]]; top.at-- {
			}
			if top.at >= top.limit {
				return top.pc + 1, top.at, true
			}
			m.stack = m.stack[:len(m.stack)-1]
		case longer:
			in := &p.insts[top.pc]
			for top.at < top.limit && in.set[text[top.at]] {
				top.at++
				if in.follow == nil || top.at == len(text) || in.follow[text[top.at]] {
					return top.pc + 1, top.at, true
				}
			}
			m.stack = m.stack[:len(m.stack)-1]
		}
	}
	return 0, 0, false
}

func hasFold(text []byte, lit string) bool {
	if len(text) < len(lit) {
		return false
	}
	for i := 0; i < len(lit); i++ {
		if lower(text[i]) != lit[i] {
			return false
		}
	}
	return true
}

func holds(what syntax.EmptyOp, text []byte, at int) bool {
	switch what {
	case syntax.EmptyBeginText:
		return at == 0
	case syntax.EmptyEndText:
		return at == len(text)
	case syntax.EmptyBeginLine:
		return at == 0 || text[at-1] == '\n'
	case syntax.EmptyEndLine:
		return at == len(text) || text[at] == '\n'
	}
	before := at > 0 && word(text[at-1])
	after := at < len(text) && word(text[at])
	return (before != after) == (what == syntax.EmptyWordBoundary)
}

func word(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}
