package pattern

import (
	"regexp/syntax"
	"strings"
)

// Trim returns the expression without the optional class that it begins with, such as [\w.-]{0,50}?: from wherever the rest matches, it
// matches too.
func Trim(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpConcat && len(re.Sub) > 1 {
		first := re.Sub[0]
		switch {
		case first.Op == syntax.OpRepeat && first.Min == 0 && first.Flags&syntax.NonGreedy != 0:
			rest := *re
			rest.Sub = re.Sub[1:]
			re = &rest
		case first.Op == syntax.OpConcat:
			rest := *re
			rest.Sub = append(append([]*syntax.Regexp(nil), first.Sub...), re.Sub[1:]...)
			re = &rest
		default:
			return re
		}
	}
	return re
}

// The bounds of Prefixes: a word longer than maxPrefix tells no more than one of that length, and more than maxPrefixes words mean
// that the expression begins with no word.
const (
	maxPrefix   = 8
	maxPrefixes = 48
)

// Prefixes returns words in lower case of which one begins every match, in any case; or nil if there are none such.
// They are at least min bytes long, and at most eight.
func Prefixes(re *syntax.Regexp, min int) []string {
	words, _ := prefixes(re)
	for _, w := range words {
		if len(w) < min {
			return nil
		}
	}
	return words
}

// prefixes returns the words, and whether each is all that the expression takes, so that what follows may be added.
func prefixes(re *syntax.Regexp) (words []string, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		s := strings.ToLower(string(re.Rune))
		return []string{s}, true
	case syntax.OpCharClass:
		return classWords(re)
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpBeginText, syntax.OpBeginLine:
		return []string{""}, true
	case syntax.OpCapture:
		return prefixes(re.Sub[0])
	case syntax.OpQuest:
		words, whole = prefixes(re.Sub[0])
		return append(words, ""), whole
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			w, all := prefixes(sub)
			words, whole = append(words, w...), whole && all
		}
		return unique(words), whole
	case syntax.OpConcat:
		return concat(re.Sub)
	}
	return []string{""}, false
}

func classWords(re *syntax.Regexp) (words []string, whole bool) {
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1] && c < 0x80; c++ {
			if len(words) > 5 {
				return []string{""}, false
			}
			words = append(words, strings.ToLower(string(c)))
		}
	}
	return unique(words), true
}

func concat(subs []*syntax.Regexp) (words []string, whole bool) {
	words = []string{""}
	for _, sub := range subs {
		next, all := prefixes(sub)
		if len(words)*len(next) > maxPrefixes {
			return words, false
		}
		var longer []string
		short := false
		for _, w := range words {
			for _, n := range next {
				s := w + n
				short = short || len(s) < maxPrefix
				longer = append(longer, s[:min(len(s), maxPrefix)])
			}
		}
		words = unique(longer)
		if !all || !short {
			return words, false
		}
	}
	return words, true
}

func unique(words []string) []string {
	seen := map[string]bool{}
	out := words[:0:0]
	for _, w := range words {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// Offset returns how far behind the beginning of a match a word stands, at least and at most. ok is false if that is not bounded, or
// if the expression does not say that the word is there.
func Offset(re *syntax.Regexp, word string) (least, most int, ok bool) {
	switch re.Op {
	case syntax.OpLiteral:
		i := strings.Index(strings.ToLower(string(re.Rune)), word)
		return i, i, i >= 0
	case syntax.OpCapture:
		return Offset(re.Sub[0], word)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l, m, ok := Offset(sub, word); ok {
				return least + l, most + m, true
			}
			l, m := Length(sub)
			if m < 0 {
				return 0, 0, false
			}
			least, most = least+l, most+m
		}
	}
	return 0, 0, false
}

// Length returns the least and the greatest length of a match in bytes; the greatest is -1 if there is none.
func Length(re *syntax.Regexp) (least, most int) {
	switch re.Op {
	case syntax.OpLiteral:
		n := len(string(re.Rune))
		return n, n
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	case syntax.OpCapture:
		return Length(re.Sub[0])
	case syntax.OpStar:
		return 0, -1
	case syntax.OpPlus:
		least, _ = Length(re.Sub[0])
		return least, -1
	case syntax.OpQuest:
		_, most = Length(re.Sub[0])
		return 0, most
	case syntax.OpRepeat:
		l, m := Length(re.Sub[0])
		if re.Max < 0 || m < 0 {
			return l * re.Min, -1
		}
		return l * re.Min, m * re.Max
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			l, m := Length(sub)
			least += l
			if most = most + m; m < 0 || most < m {
				most = -1 << 20
			}
		}
		return least, max(most, -1)
	case syntax.OpAlternate:
		least = 1 << 20
		for _, sub := range re.Sub {
			l, m := Length(sub)
			least = min(least, l)
			if m < 0 {
				most = -1 << 20
			}
			most = max(most, m)
			if m < 0 {
				most = 1 << 20
			}
		}
		if most >= 1<<20 {
			most = -1
		}
		return least, most
	}
	return 0, 0
}
