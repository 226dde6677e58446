package detect

// automaton finds all occurrences of a set of words in one pass: Aho and Corasick's, as a table with a row for each state and a column
// for each class of bytes. It does not tell upper case from lower.
type automaton struct {
	class [256]uint8
	next  []uint16 // row of 64 for each state
	outs  []uint16 // for each state: its first output, or 0
	out   []output // chains; the one at 0 is unused
	from  uint16   // states from this one on have outputs
}

type output struct {
	word uint16
	next uint16
}

const rowBits = 6

// newAutomaton builds the automaton of words, which are in lower case and have at most 63 different bytes.
func newAutomaton(words []string) *automaton {
	t := &trie{nodes: make([]trieNode, 1)}
	for w, s := range words {
		t.add(s, w)
	}
	t.link()
	a := &automaton{}
	columns := uint8(0)
	for _, s := range words {
		for i := 0; i < len(s); i++ {
			if b := s[i]; a.class[b] == 0 {
				columns++
				a.class[b] = columns
				if 'a' <= b && b <= 'z' {
					a.class[b-'a'+'A'] = columns
				}
			}
		}
	}
	if columns >= 1<<rowBits {
		panic("detect: too many different bytes in the words of rules")
	}
	t.fill(a)
	return a
}

type trieNode struct {
	children [256]uint16
	fail     uint16
	words    []int
}

type trie struct {
	nodes []trieNode
	order []uint16 // by depth
}

func (t *trie) add(s string, word int) {
	n := uint16(0)
	for i := 0; i < len(s); i++ {
		c := t.nodes[n].children[s[i]]
		if c == 0 {
			t.nodes = append(t.nodes, trieNode{})
			c = uint16(len(t.nodes) - 1)
			t.nodes[n].children[s[i]] = c
		}
		n = c
	}
	t.nodes[n].words = append(t.nodes[n].words, word)
}

// link sets where to go on when no child fits, and makes each missing child that of the node gone to.
func (t *trie) link() {
	t.order = append(t.order, 0)
	for i := 0; i < len(t.order); i++ {
		n := t.order[i]
		node := &t.nodes[n]
		for b := range node.children {
			c := node.children[b]
			var other uint16
			if n != 0 {
				other = t.nodes[node.fail].children[b]
			}
			if c == 0 {
				node.children[b] = other
				continue
			}
			if c != other {
				t.nodes[c].fail = other
			}
			t.nodes[c].words = append(t.nodes[c].words, t.nodes[t.nodes[c].fail].words...)
			t.order = append(t.order, c)
		}
	}
}

// fill writes the table. States with outputs get the highest numbers, so that one comparison tells them.
func (t *trie) fill(a *automaton) {
	number := make([]uint16, len(t.nodes))
	k := uint16(0)
	for _, with := range []bool{false, true} {
		if with {
			a.from = k
		}
		for _, n := range t.order {
			if (len(t.nodes[n].words) > 0) == with {
				number[n] = k
				k++
			}
		}
	}
	a.next = make([]uint16, len(t.nodes)<<rowBits)
	a.outs = make([]uint16, len(t.nodes))
	a.out = make([]output, 1)
	for n := range t.nodes {
		row := int(number[n]) << rowBits
		for b := range t.nodes[n].children {
			if c := a.class[b]; c != 0 && (b < 'A' || b > 'Z') {
				a.next[row+int(c)] = number[t.nodes[n].children[b]]
			}
		}
		for _, w := range t.nodes[n].words {
			a.out = append(a.out, output{word: uint16(w), next: a.outs[number[n]]})
			a.outs[number[n]] = uint16(len(a.out) - 1)
		}
	}
}

// scan returns the end of the next occurrence of a word at or behind at, and its first output; or len(text) and 0.
// state is carried from call to call and begins as 0.
func (a *automaton) scan(text []byte, at int, state *uint16) (end int, out uint16) {
	s, next, from := *state, a.next, a.from
	for ; at < len(text); at++ {
		s = next[int(s)<<rowBits|int(a.class[text[at]]&(1<<rowBits-1))]
		if s >= from {
			*state = s
			return at + 1, a.outs[s]
		}
	}
	*state = s
	return at, 0
}
