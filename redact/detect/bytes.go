package detect

import "github.com/toolgate/toolgate/redact/detect/pattern"

// Classes of bytes.
var (
	wordByte   = classOf(isWord)
	nameByte   = classOf(func(b byte) bool { return isWord(b) || b == '-' || b == '.' })
	tokenByte  = classOf(func(b byte) bool { return isWord(b) || in(b, "-+/=.~") })
	base64Byte = classOf(func(b byte) bool { return isAlnum(b) || in(b, "-_+/=") })
	digitByte  = classOf(isDigit)
)

func classOf(f func(byte) bool) (s pattern.Set) {
	for b := range s {
		s[b] = f(byte(b))
	}
	return s
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
func isUpper(b byte) bool { return 'A' <= b && b <= 'Z' }
func isLower(b byte) bool { return 'a' <= b && b <= 'z' }
func isAlpha(b byte) bool { return isUpper(b) || isLower(b) }
func isAlnum(b byte) bool { return isAlpha(b) || isDigit(b) }
func isWord(b byte) bool  { return isAlnum(b) || b == '_' }
func isHex(b byte) bool   { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

func in(b byte, set string) bool {
	for i := 0; i < len(set); i++ {
		if set[i] == b {
			return true
		}
	}
	return false
}

// run returns the end of the bytes of a class that begin at a place.
func run(text []byte, at int, class *pattern.Set) int {
	for at < len(text) && class[text[at]] {
		at++
	}
	return at
}

// back returns the beginning of the bytes of a class that end before a place, but goes no further than limit bytes.
func back(text []byte, at, limit int, class *pattern.Set) int {
	for stop := max(at-limit, 0); at > stop && class[text[at-1]]; {
		at--
	}
	return at
}

// foldPrefix reports whether text begins with a word in any case; the word is in lower case.
func foldPrefix(text []byte, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := 0; i < len(word); i++ {
		b := text[i]
		if isUpper(b) {
			b |= 0x20
		}
		if b != word[i] {
			return false
		}
	}
	return true
}
