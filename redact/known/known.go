// Package known finds secrets that the process holds itself: exactly, and in the forms in which a service may repeat them: as they
// are, percent-encoded, as JSON and HTML escape them, in hexadecimal, and in base64 inside of something longer.
//
// Limits: a secret shorter than MinLength is not looked for, since it would be found by chance. Forms do not nest: whoever calls
// it takes off containers and encodings before, layer by layer, and asks at each. It is exact: a secret in other case, or
// with something in between, is not found.
//
// Memory: a secret's value is not copied; what is kept for it is about 400 bytes, whatever its length. There are no more
// than MaxSecrets.
//
// It imports the type of spans from package detect and nothing else, and every package of this module may import it.
package known

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/toolgate/toolgate/redact/detect"
)

const (
	// MinLength is the length in bytes below which a value is no secret worth looking for.
	MinLength = 8
	// MaxLength is the length above which a value is no credential.
	MaxLength = 64 << 10
	// MaxSecrets bounds the number of secrets in a Set.
	MaxSecrets = 1 << 16
)

// Secret is a value that can be had only by asking for it: redact.Secret is one.
type Secret interface{ Reveal() string }

// Set holds secrets. It is safe for concurrent use: a scan holds up a change for the time of some kilobytes of text. Make it with New;
// nil knows no secrets. No formatter, logger or encoder shows what it holds.
type Set struct{ p **state }

// state is behind two pointers: package fmt prints the fields of a struct without asking for its methods, and with %s also what a
// pointer among them points at.
type state struct {
	mu      sync.RWMutex
	held    map[string]*held
	size    atomic.Int64 // of held
	anchors anchors
	begins  beginnings
	longest lengths
}

// held is a secret, and how often it was added.
type held struct {
	value string
	count int
	forms []placed
}

// placed is the number of a form, and where in the secret its anchor begins.
type placed struct {
	form uint8
	at   uint32
}

func (p placed) of() *form { return forms()[p.form] }

// anchor returns the anchor of the form at this place among those of the secret.
func (h *held) anchor(number int) uint64 {
	p := h.forms[number]
	return p.of().anchor(h.value, int(p.at))
}

// New returns an empty Set.
func New() *Set {
	s := &state{held: map[string]*held{}, anchors: newAnchors(), begins: newBeginnings(), longest: lengths{forms: map[int]int{}}}
	return &Set{&s}
}

// Format writes the type's name for every verb and flag.
func (*Set) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "known.Set") }

// LogValue returns the type's name.
func (*Set) LogValue() slog.Value { return slog.StringValue("known.Set") }

// MarshalText returns the type's name.
func (*Set) MarshalText() ([]byte, error) { return []byte("known.Set"), nil }

// Len returns the number of different secrets.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return int((*s.p).size.Load())
}

// Add makes a secret known, or counts it once more. It returns false, and does nothing, if the value is too short or too long, or the
// Set is full. The cost does not depend on how many secrets there are.
func (s *Set) Add(secret Secret) bool {
	st := *s.p
	value := secret.Reveal()
	if len(value) < MinLength || len(value) > MaxLength {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	h := st.held[value]
	if h == nil {
		if len(st.held) >= MaxSecrets {
			return false
		}
		h = &held{value: value}
		st.held[value] = h
		st.place(h)
		st.size.Add(1)
	}
	h.count++
	return true
}

// Remove takes back one Add of the secret; after the last it is not known any more.
func (s *Set) Remove(secret Secret) {
	st := *s.p
	value := secret.Reveal()
	st.mu.Lock()
	defer st.mu.Unlock()
	h := st.held[value]
	if h == nil {
		return
	}
	if h.count--; h.count > 0 {
		return
	}
	delete(st.held, value)
	st.size.Add(-1)
	var buf [deepest]byte
	for n, p := range h.forms {
		f := p.of()
		st.anchors.remove(h, n)
		st.begins.remove(f.prefix(buf[:0], value))
		st.longest.remove(f.length(value))
	}
}

// place enters each form of a secret that differs from those before.
func (s *state) place(h *held) {
	var buf [deepest]byte
	written := formsOf(h.value)
	h.forms = make([]placed, 0, len(written))
	for n, f := range written {
		h.forms = append(h.forms, s.anchors.choose(f, h.value))
		s.anchors.add(h, n)
		s.begins.add(f.prefix(buf[:0], h.value))
		s.longest.add(f.length(h.value))
	}
}

// stretch is how much text is looked at before others may change the Set.
const stretch = 16 << 10

// Scan appends a span for each occurrence of a secret, in order of where they end. Spans may overlap, where secrets do.
func (s *Set) Scan(dst []detect.Span, text []byte) []detect.Span {
	if s == nil {
		return dst
	}
	st := *s.p
	for at := 0; at+window <= len(text); at += stretch {
		dst = st.scan(dst, text, at, min(at+stretch, len(text)-window+1))
	}
	return dst
}

func (s *state) scan(dst []detect.Span, text []byte, at, end int) []detect.Span {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.held) == 0 {
		return dst
	}
	filter, shift := s.anchors.filter, s.anchors.shift
	for ; at < end; at++ {
		w := binary.LittleEndian.Uint64(text[at:])
		hash := w * spread
		h := hash >> shift
		if filter[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		tag := s.anchors.tag(hash)
		for n := s.anchors.first[h>>sparse]; n != 0; n = s.anchors.entries[n].next {
			e := &s.anchors.entries[n]
			if e.tag != tag {
				continue
			}
			p := e.held.forms[e.form]
			if from, to, ok := p.of().match(text, at, e.held.value, int(p.at)); ok {
				dst = append(dst, detect.Span{Start: from, End: to, Class: detect.Credential})
			}
		}
	}
	return dst
}

// Open returns the offset from which the text's end may be the beginning of a secret, or len(text). Of a secret of which fewer than
// four bytes are there, nothing is said: whoever waits for those waits too often.
//
// It may hold back what turns out to be none, but no more than Longest, and mostly less than four times of what was equal.
func (s *Set) Open(text []byte) int {
	if s == nil {
		return len(text)
	}
	st := *s.p
	st.mu.RLock()
	defer st.mu.RUnlock()
	for at := max(0, len(text)-st.longest.most+1); at+shallowest <= len(text); at++ {
		if st.begins.may(text[at:]) {
			return at
		}
	}
	return len(text)
}

// Longest returns the length of the longest form of a secret, in bytes.
func (s *Set) Longest() int {
	if s == nil {
		return 0
	}
	st := *s.p
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.longest.most
}
