package detect

import "github.com/toolgate/toolgate/redact/detect/pattern"

const (
	// maxBack is how far before a keyword a match may begin.
	maxBack = 128
	// window is how far behind a keyword a match may begin, and how much of a text is given to the slow matcher.
	window = 512
)

// words passes over the text once, and looks closer wherever a word of a rule stands.
func (c *scanner) words() {
	var state uint16
	for at := 0; at < len(c.text); {
		end, out := c.auto.scan(c.text, at, &state)
		c.hinted(end, out)
		at = end
	}
}

// hinted follows the hints of the words that end here.
func (c *scanner) hinted(end int, out uint16) {
	for ; out != 0; out = c.auto.out[out].next {
		w := &c.ruleset.words[c.auto.out[out].word]
		at := end - len(w.text)
		if w.hint != 0 {
			c.own(w.hint, at, end)
		}
		for i := range w.rules {
			u := &w.rules[i]
			if u.forward {
				c.window(u.rule, at)
				continue
			}
			for start := max(at-u.most, 0); start <= at-u.least; start++ {
				c.try(u.rule, start)
			}
		}
	}
}

// window tries a rule wherever a match may begin behind a keyword. No place is tried twice.
func (c *scanner) window(r *rule, at int) {
	at = max(at, c.tried[r])
	end := min(at+window, len(c.text))
	p := r.pattern()
	for ; at < end; at++ {
		if !p.MayBegin(c.text, at) {
			continue
		}
		if next := c.try(r, at); next > at {
			at = next - 1
		}
	}
	c.tried[r] = max(c.tried[r], end)
}

// try matches a rule at one place, and returns the end of the match or 0.
func (c *scanner) try(r *rule, at int) int {
	if len(c.slow) > 0 && at < c.slow[r] {
		return 0
	}
	result := r.pattern().Match(&c.machine, c.text, at)
	c.touch(c.machine.Held)
	switch result {
	case pattern.Yes:
		end := c.machine.End
		if from, to, ok := c.group(r); ok {
			c.judge(r, at, end, from, to)
		}
		return end
	case pattern.GaveUp:
		c.slowly(r, at)
	}
	return 0
}

// slowly searches a window with package regexp, whose time is linear, and keeps the rule from being tried again within it.
func (c *scanner) slowly(r *rule, at int) {
	end := min(at+window, len(c.text))
	c.slow[r] = end
	for _, m := range r.slow().FindAllSubmatchIndex(c.text[at:end], -1) {
		from, to := m[0], m[1]
		for n := 2; r.group != wholeMatch && n+1 < len(m); n += 2 {
			if m[n] >= 0 && m[n] < m[n+1] && (r.group < 0 || n == 2*r.group) {
				from, to = m[n], m[n+1]
				break
			}
		}
		c.judge(r, at+m[0], at+m[1], at+from, at+to)
	}
}

// judge decides whether what a rule matched is a secret: by its entropy, and by the allowlists.
func (c *scanner) judge(r *rule, start, end, from, to int) {
	secret := c.text[from:to]
	if r.entropy > 0 && entropy(secret) <= r.entropy {
		return
	}
	if namesOne(secret) {
		return
	}
	for n := 0; n < maxContext && start > 0 && nameByte[c.text[start-1]]; n++ {
		start--
	}
	if c.allowed(&c.machine, r, c.text[start:end], secret) {
		return
	}
	c.found(from, to, Token)
}

// maxContext is how much of a name before its keyword belongs to a match, as in the rules' [\w.-]{0,50}.
const maxContext = 50

// group returns the place of the secret in the machine's match.
func (c *scanner) group(r *rule) (start, end int, ok bool) {
	switch r.group {
	case wholeMatch:
		start, end = c.trim(c.machine.Start, c.machine.End)
		return start, end, start < end
	case firstGroup:
		for n := 1; n <= pattern.MaxGroups; n++ {
			if start, end, ok = c.machine.Group(n); ok && start < end {
				return start, end, true
			}
		}
		start, end = c.trim(c.machine.Start, c.machine.End)
		return start, end, start < end
	}
	return c.machine.Group(r.group)
}

// trim takes off what a rule without a group consumed to see that the secret ends.
func (c *scanner) trim(start, end int) (int, int) {
	for start < end && !tokenByte[c.text[start]] {
		start++
	}
	for start < end && !tokenByte[c.text[end-1]] {
		end--
	}
	return start, end
}
