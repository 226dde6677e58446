package hunt

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"html"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// scanner finds pieces of canaries, each window bytes long, whatever the text was encoded with.
type scanner struct {
	canaries []canary
	pieces   map[[window]byte]int // the canary that it is of
	seed     maphash.Seed
	maybe    []uint64 // a bit for the hash of each piece, so that most places cost no look-up
}

const maybeBits = 1 << 20

func newScanner(canaries []canary) *scanner {
	s := &scanner{canaries: canaries, pieces: make(map[[window]byte]int), seed: maphash.MakeSeed(), maybe: make([]uint64, maybeBits/64)}
	for i, c := range canaries {
		for at := 0; at+window <= len(c.value); at++ {
			piece := [window]byte([]byte(c.value[at : at+window]))
			if _, known := s.pieces[piece]; known {
				continue
			}
			s.pieces[piece] = i
			h := s.hash(piece[:]) % maybeBits
			s.maybe[h/64] |= 1 << (h % 64)
		}
	}
	return s
}

func (s *scanner) hash(b []byte) uint64 {
	return (binary.LittleEndian.Uint64(b) ^ binary.LittleEndian.Uint64(b[4:])*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd >> 40
}

// maxDepth is how many layers of encoding are taken off.
const maxDepth = 3

// scan calls found for each canary of which a piece is in b. Words tells that b is a traceback, whose words are bytes of memory.
func (s *scanner) scan(b []byte, words bool, found func(c canary, around string)) {
	done := make(map[uint64]bool)
	told := make(map[int]bool)
	tell := func(i int, around string) {
		if !told[i] {
			told[i] = true
			found(s.canaries[i], around)
		}
	}
	level := [][]byte{b}
	for depth := 0; depth <= maxDepth && len(level) > 0; depth++ {
		var next [][]byte
		for _, v := range level {
			if h := maphash.Bytes(s.seed, v); len(v) < window || done[h] {
				continue
			} else {
				done[h] = true
			}
			s.search(v, tell)
			s.search(bytes.ToLower(v), tell)
			next = append(next, decoded(v, depth == 0)...)
			if words && depth == 0 {
				next = append(next, memory(v))
			}
		}
		level = next
	}
}

func (s *scanner) search(b []byte, tell func(i int, around string)) {
	for at := 0; at+window <= len(b); at++ {
		if h := s.hash(b[at:]) % maybeBits; s.maybe[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		if i, ok := s.pieces[[window]byte(b[at:])]; ok {
			tell(i, strconv.QuoteToASCII(string(b[max(0, at-60):min(len(b), at+60)])))
		}
	}
}

// decoded returns what of b changes by being read in each way. Pieces are put together with a line end between them, since there are many.
func decoded(b []byte, first bool) [][]byte {
	views := [][]byte{
		perLine(b, '%', func(b []byte) []byte { return marked(b, '%') }), perLine(b, '\\', escapes),
		perLine(b, '&', func(b []byte) []byte { return []byte(html.UnescapeString(string(b))) }), hexRuns(b), unzipped(b),
	}
	for from := range 4 {
		views = append(views, base64Runs(b, from))
	}
	if first {
		views = append(views, numbers(b), perLine(bytes.ReplaceAll(b, []byte("=\r\n"), nil), '=', func(b []byte) []byte { return marked(b, '=') }))
	}
	return views
}

// perLine decodes the lines that have a mark.
func perLine(b []byte, mark byte, decode func([]byte) []byte) []byte {
	var out []byte
	for line := range bytes.Lines(b) {
		if bytes.IndexByte(line, mark) >= 0 {
			out = append(out, decode(line)...)
		}
	}
	return out
}

// runs calls f with each longest run of characters, of at least n.
func runs(b []byte, n int, in *[256]bool, f func(run []byte)) {
	for at := 0; at < len(b); at++ {
		if !in[b[at]] {
			continue
		}
		end := at
		for end < len(b) && in[b[end]] {
			end++
		}
		if end-at >= n {
			f(b[at:end])
		}
		at = end
	}
}

func set(chars string) (in [256]bool) {
	for _, c := range []byte(chars) {
		in[c] = true
	}
	return in
}

const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	hexChars    = set(digits + "abcdefABCDEF")
	base64Chars = set(digits + letters + "+/-_")
	listChars   = set(digits + "abcdefABCDEFx, ")
	word        = regexp.MustCompile(`0x([0-9a-f]{1,16})`)
)

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// marked decodes a mark and two hex digits.
func marked(b []byte, mark byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == mark && i+2 < len(b) {
			hi, ok1 := hexDigit(b[i+1])
			lo, ok2 := hexDigit(b[i+2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

// escapes undoes those of JSON, Go and C: \n, \", \x41, \u0041, \101.
func escapes(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		digits, base := 0, 16
		switch {
		case b[i] == 'x':
			digits = 2
		case b[i] == 'u':
			digits = 4
		case '0' <= b[i] && b[i] <= '3':
			digits, base, i = 3, 8, i-1
		}
		if n, err := strconv.ParseUint(string(b[min(i+1, len(b)):min(i+1+digits, len(b))]), base, 16); digits > 0 && err == nil {
			if i += digits; b[i-digits] == 'u' {
				out = utf8.AppendRune(out, rune(n))
			} else {
				out = append(out, byte(n))
			}
			continue
		}
		out = append(out, b[i])
	}
	return out
}

// hexRuns tries both alignments.
func hexRuns(b []byte) []byte {
	var out []byte
	runs(b, 2*window, &hexChars, func(run []byte) {
		for from := range 2 {
			part := run[from : from+(len(run)-from)&^1]
			out, _ = hex.AppendDecode(out, part)
			out = append(out, '\n')
		}
	})
	return out
}

// numbers reads lists of bytes, as % x, %# x, %v and %#v print them.
func numbers(b []byte) []byte {
	var out []byte
	runs(b, 2*window, &listChars, func(run []byte) {
		fields := bytes.FieldsFunc(run, func(r rune) bool { return r == ' ' || r == ',' })
		if len(fields) < window {
			return
		}
		for _, base := range []int{10, 16} {
			for _, f := range fields {
				if n, err := strconv.ParseUint(string(bytes.TrimPrefix(f, []byte("0x"))), base, 8); err == nil {
					out = append(out, byte(n))
				}
			}
			out = append(out, '\n')
		}
	})
	return out
}

// base64Runs reads runs of either alphabet, beginning so many characters after their begin.
func base64Runs(b []byte, from int) []byte {
	var out []byte
	runs(b, 4*window/3, &base64Chars, func(run []byte) {
		part := bytes.Clone(run[from : from+(len(run)-from)&^3+map[int]int{0: 0, 1: 0, 2: 2, 3: 3}[(len(run)-from)&3]])
		for i, c := range part {
			switch c {
			case '-':
				part[i] = '+'
			case '_':
				part[i] = '/'
			}
		}
		out, _ = base64.RawStdEncoding.AppendDecode(out, part)
		out = append(out, '\n')
	})
	return out
}

// unzipped reads what looks like the beginning of a gzip stream.
func unzipped(b []byte) []byte {
	var out []byte
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte{0x1f, 0x8b, 8})
		if i < 0 {
			return out
		}
		at += i
		if z, err := gzip.NewReader(bytes.NewReader(b[at:])); err == nil {
			z.Multistream(false)
			v, _ := io.ReadAll(io.LimitReader(z, 64<<20))
			out = append(append(out, v...), '\n')
		}
		at += 3
	}
}

// memory reads the words of a traceback as the bytes that they were.
func memory(b []byte) []byte {
	var out []byte
	for _, m := range word.FindAllSubmatch(b, -1) {
		n, _ := strconv.ParseUint(string(m[1]), 16, 64)
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return out
}
