package detect

import (
	"bytes"
	"math"
	"sync"
)

// stopwords are words that no secret has in it, such as "example": what has one is a name.
type stopwords struct {
	begin func() *beginnings
}

// beginnings are words by their first letters. The bits keep most of a text from the map.
type beginnings struct {
	bits  [1 << 15 / 64]uint64
	words map[[3]byte][]string
}

// bit returns the place of three bytes among the bits, the same for upper and lower case.
func bit(text []byte) (word int, mask uint64) {
	h := int(text[0]&31)<<10 | int(text[1]&31)<<5 | int(text[2]&31)
	return h >> 6, 1 << (h & 63)
}

// newStopwords takes words in lower case of at least three bytes; nil stands for none.
func newStopwords(words []string) *stopwords {
	if len(words) == 0 {
		return nil
	}
	return &stopwords{begin: sync.OnceValue(func() *beginnings {
		b := &beginnings{words: make(map[[3]byte][]string, len(words))}
		for _, w := range words {
			k := [3]byte([]byte(w))
			b.words[k] = append(b.words[k], w)
			n, mask := bit(k[:])
			b.bits[n] |= mask
		}
		return b
	})}
}

// in reports whether the secret has one of the words in it, in any case.
func (s *stopwords) in(secret []byte) bool {
	if s == nil {
		return false
	}
	for _, c := range secret {
		if c >= 0x80 { // a letter whose lower case may be an ASCII one
			secret = bytes.ToLower(secret)
			break
		}
	}
	b := s.begin()
	for i := 0; i+3 <= len(secret); i++ {
		if n, mask := bit(secret[i:]); b.bits[n]&mask == 0 {
			continue
		}
		for _, w := range b.words[[3]byte{lower(secret[i]), lower(secret[i+1]), lower(secret[i+2])}] {
			if foldPrefix(secret[i:], w) {
				return true
			}
		}
	}
	return false
}

func lower(b byte) byte {
	if isUpper(b) {
		return b | 0x20
	}
	return b
}

// entropy returns Shannon's entropy of the bytes, in bits for each.
func entropy(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	var counts [256]uint32
	for _, c := range b {
		counts[c]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 1 {
			sum += nLog(n)
		}
	}
	return math.Log2(float64(len(b))) - sum/float64(len(b))
}

// nLogs are the values of nLog for what secrets have.
var nLogs = func() (t [64]float64) {
	for n := range t[1:] {
		t[n+1] = float64(n+1) * math.Log2(float64(n+1))
	}
	return t
}()

// nLog returns n times its binary logarithm.
func nLog(n uint32) float64 {
	if int(n) < len(nLogs) {
		return nLogs[n]
	}
	return float64(n) * math.Log2(float64(n))
}
