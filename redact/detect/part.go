package detect

import (
	"bytes"

	"github.com/toolgate/toolgate/redact/detect/pattern"
)

const (
	// Hold bounds what Part holds back, in bytes: it is longer by 512 than the longest match that has a bound.
	Hold = 1536
	// Context is how much of the text before what is held back a stream must keep, so that a name is seen when its value comes.
	Context = 1024
)

// Begun is something without a bound that began in a text and has not ended there. The zero value is nothing.
type Begun struct {
	// Class is what it is; empty for nothing.
	Class string
	until string       // what ends it, or
	stop  *pattern.Set // what goes on with it
	tail  []byte       // the last bytes that were skipped, which may begin what ends it
}

// Skip returns how much of the text that follows belongs to what has begun, and whether it is over.
func (b *Begun) Skip(text []byte) (n int, over bool) {
	if b.until == "" {
		n = run(text, 0, b.stop)
		return n, n < len(text)
	}
	both := append(b.tail, text...)
	if i := bytes.Index(both, []byte(b.until)); i >= 0 {
		return i + len(b.until) - len(b.tail), true
	}
	b.tail = append([]byte(nil), both[max(0, len(both)-len(b.until)+1):]...)
	return len(text), false
}

// Part scans a part of a text that goes on, as Scan does, and tells what is sure. No span begins before open and goes beyond it; what
// stands before open can go out, masked, and the rest is given to Part again with what follows, together with the last Context bytes
// before it. At the end of the text Scan says what the rest is.
//
// What is held back is mostly the last word, at most Hold bytes. Of what is longer and has begun for sure, such as a private key, begun
// tells how to go on: the caller masks all from open on as begun.Class, keeps nothing of it, and gives what follows to begun.Skip.
// A secret that is longer than Hold and has quotes or brackets in it is masked up to the first of them behind that length.
func (s *Set) Part(dst []Span, text []byte) (spans []Span, open int, begun Begun) {
	from := len(dst)
	c := scanners.Get().(*scanner)
	c.Set = s
	dst = c.all(dst, text, s.Look(text))
	open, begun = min(c.open, back(text, len(text), len(text), &runByte)), c.begun
	c.done()
	if last := len(dst) - 1; begun.Class != "" {
		open = min(open, dst[last].Start)
		begun.tail = append([]byte(nil), text[max(0, len(text)-len(begun.until)+1):]...)
		return settle(dst, from, open), open, begun
	}
	least := len(text) - Hold
	for i := len(dst) - 1; i >= from && dst[i].End > open; i-- {
		open = min(open, dst[i].Start)
	}
	if open >= least {
		return settle(dst, from, open), open, Begun{}
	}
	if last := len(dst) - 1; last >= from && dst[last].End == len(text) && dst[last].Start < least {
		p := dst[last]
		begun = Begun{Class: p.Class, stop: &runByte}
		if p.Class == SignedURL || p.Class == Credential || p.Class == Userinfo {
			begun.stop = &valueByte
		}
		return settle(dst, from, p.Start), p.Start, begun
	}
	open = least
	for _, p := range dst[from:] {
		if p.Start < open && open < p.End {
			open = p.End
		}
	}
	return settle(dst, from, open), open, Begun{}
}

// settle leaves out the spans that are not sure yet.
func settle(dst []Span, from, open int) []Span {
	n := len(dst)
	for n > from && dst[n-1].End > open {
		n--
	}
	return dst[:n]
}

// touch notes that what may begin at a place reaches to the end of the text.
func (c *scanner) touch(at int) {
	if at >= 0 && at < c.open {
		c.open = at
	}
}

// runByte is what no delimiter of any text format is, and may be part of a secret.
var runByte = classOf(func(b byte) bool { return b > ' ' && b != 0x7f && !in(b, "\"'`<>,;(){}[]|\\") })
