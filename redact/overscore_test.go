package redact

import "strings"

// overRedaction counts the bytes beside secrets, and how many of them were masked.
type overRedaction struct{ all, masked int }

// add takes a text, its secrets, and what was shown of it. What is left between placeholders counts as shown, as far as it is no part of a
// secret.
func (o *overRedaction) add(text string, secrets []string, shown string) {
	harmless := []string{text}
	for _, s := range secrets {
		var rest []string
		for _, part := range harmless {
			rest = append(rest, strings.Split(part, s)...)
		}
		harmless = rest
	}
	for _, part := range harmless {
		part = unspaced(part)
		o.all += len(part)
		o.masked += len(part) - keptOf(part, unspaced(shown))
	}
}

// keptOf returns how many bytes of a part are shown, in stretches of four bytes or more, or all of it.
func keptOf(part, shown string) (n int) {
	for len(part) > 0 {
		k := min(len(part), 4)
		if !strings.Contains(shown, part[:k]) {
			part = part[1:]
			continue
		}
		for k < len(part) && strings.Contains(shown, part[:k+1]) {
			k++
		}
		n += k
		part = part[k:]
	}
	return n
}

func (o *overRedaction) percent() float64 { return 100 * float64(o.masked) / float64(max(o.all, 1)) }
