package detect

import "bytes"

const placeholder = "[REDACTED:"

// placeholderLen returns the length of the placeholder that text begins with, or 0.
func placeholderLen(text []byte) int {
	if !bytes.HasPrefix(text, []byte(placeholder)) {
		return 0
	}
	for i := len(placeholder); i < len(text) && i < len(placeholder)+16; i++ {
		if text[i] == ']' {
			return i + 1
		}
		if !isLower(text[i]) && text[i] != '_' {
			break
		}
	}
	return 0
}

// masked reports whether a value is one or more placeholders and nothing else.
func masked(value []byte) bool {
	for len(value) > 0 {
		n := placeholderLen(value)
		if n == 0 {
			return false
		}
		value = value[n:]
	}
	return true
}

// varied reports whether a value mixes kinds of characters as no word does.
func varied(value []byte) bool {
	var lower, upper, digit, other int
	for i, b := range value {
		switch {
		case isLower(b):
			lower = 1
		case isUpper(b):
			if i > 0 {
				upper = 1
			}
		case isDigit(b):
			digit = 1
		case in(b, "_-. "):
		default:
			other = 1
		}
	}
	return lower+upper+digit+other > 1 && (digit == 1 || other == 1 || upper == 1 && lower == 1)
}

// prose reports whether a value has several words of letters only.
func prose(value []byte) bool {
	words := bytes.Fields(value)
	if len(words) < 3 {
		return false
	}
	letters := 0
	for _, w := range words {
		w = bytes.Trim(w, ".,:;!?()")
		plain := true
		for _, b := range w {
			plain = plain && (isAlpha(b) || b == '\'' || b >= 0x80)
		}
		if plain {
			letters++
		}
	}
	return 2*letters > len(words)
}

func sameByte(value []byte) bool {
	return len(value) > 0 && bytes.Count(value, value[:1]) == len(value)
}

// template reports whether a value stands for one that is put in its place later: $NAME, ${NAME}, {{…}}, <…>, %NAME%, or a call $(…).
// A value that only begins like that is none.
func template(value []byte) bool {
	value = bytes.TrimSpace(value)
	if len(value) < 2 {
		return false
	}
	last := value[len(value)-1]
	inner := value[1 : len(value)-1]
	switch value[0] {
	case '$':
		if len(value) > 2 && (value[1] == '{' || value[1] == '(') {
			return last == '}' || value[1] == '(' || identifier(value[2:])
		}
		return identifier(value[1:])
	case '{':
		return len(value) > 4 && value[1] == '{' && last == '}' || last == '}' && identifier(inner)
	case '<':
		return last == '>' || bytes.IndexByte(value, ' ') > 0
	case '%':
		return last == '%' && identifier(inner)
	}
	return false
}

// identifier reports whether all of b is letters in one case, "_" and ".": the name of a variable.
func identifier(b []byte) bool {
	upper, lower := false, false
	for _, c := range b {
		switch {
		case isUpper(c):
			upper = true
		case isLower(c):
			lower = true
		case c != '_' && c != '.':
			return false
		}
	}
	return upper != lower
}
