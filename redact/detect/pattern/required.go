package pattern

import (
	"regexp/syntax"
	"strings"
)

// maxRequired bounds the words of Required.
const maxRequired = 128

// Required returns words in lower case of which at least one stands, in any case, in every match of an expression; or nil if there are none
// such. A text without any need not be searched.
func Required(re *syntax.Regexp) []string {
	words := required(re)
	if shortest(words) == 0 || len(words) > maxRequired {
		return nil
	}
	return unique(words)
}

func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r >= 0x80 {
				return nil
			}
		}
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			words := required(sub)
			if words == nil {
				return nil
			}
			all = append(all, words...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if words := required(sub); shortest(words) > shortest(best) {
				best = words
			}
		}
		return best
	}
	return nil
}

// shortest returns the length of the shortest word, or 0 if there is none.
func shortest(words []string) (n int) {
	for i, w := range words {
		if i == 0 || len(w) < n {
			n = len(w)
		}
	}
	return n
}
