package detect

import (
	"bytes"
	"math"
	"strings"
	"sync"
)

// stopwords are words that no secret has in it, such as "example": what has one is a name.
type stopwords struct {
	begin func() map[[3]byte][]string // by their first letters
}

// newStopwords takes words in lower case of at least three bytes; nil stands for none.
func newStopwords(words []string) *stopwords {
	if len(words) == 0 {
		return nil
	}
	return &stopwords{begin: sync.OnceValue(func() map[[3]byte][]string {
		m := make(map[[3]byte][]string, len(words))
		for _, w := range words {
			k := [3]byte([]byte(w))
			m[k] = append(m[k], w)
		}
		return m
	})}
}

// in reports whether the secret has one of the words in it, in any case.
func (s *stopwords) in(secret []byte) bool {
	if s == nil {
		return false
	}
	m := s.begin()
	low := string(bytes.ToLower(secret))
	for i := 0; i+3 <= len(low); i++ {
		for _, w := range m[[3]byte{low[i], low[i+1], low[i+2]}] {
			if strings.HasPrefix(low[i:], w) {
				return true
			}
		}
	}
	return false
}

// entropy returns Shannon's entropy of the bytes, in bits for each.
func entropy(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	var counts [256]int
	for _, c := range b {
		counts[c]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 1 {
			sum += float64(n) * math.Log2(float64(n))
		}
	}
	return math.Log2(float64(len(b))) - sum/float64(len(b))
}
