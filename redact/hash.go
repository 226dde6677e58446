package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	hash256 "hash"
	"sync"
)

// hashKey lives as long as the process and is never written down, so that no reader of logs can try guesses.
var hashKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails: crypto/rand ends the program instead
	return key
})

// hashLen is the length of a hash's text.
const hashLen = 12

// Hash returns a short keyed hash of s (HMAC-SHA256 under a key drawn at process start, 12 hex digits) that lets two
// lines of one process be matched without showing the value.
func Hash(s string) string {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.in = append(h.in[:0], s...)
	defer clear(h.in) // what is waiting for reuse holds no value
	return h.text(h.in)
}

func hash(b []byte) string {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	return h.text(b)
}

// hasher is a keyed hash that is used again: making one costs five allocations, and every record needs it.
type hasher struct {
	mac     hash256.Hash
	in, sum []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{mac: hmac.New(sha256.New, hashKey())} }}

func (h *hasher) text(b []byte) string {
	h.mac.Reset()
	h.mac.Write(b)
	h.sum = h.mac.Sum(h.sum[:0])
	var text [hashLen]byte
	hex.Encode(text[:], h.sum[:hashLen/2])
	return string(text[:])
}

// unparsed stands for bytes that could not be read, and so could not be masked.
func unparsed(b []byte) string { return fmt.Sprintf("[unparsed %d bytes hmac=%s]", len(b), hash(b)) }

// newHasher begins a hash of something that comes in pieces. Give it back to hashers.
func newHasher() *hasher {
	h := hashers.Get().(*hasher)
	h.mac.Reset()
	return h
}

// sum12 returns the hash of what was written to mac.
func (h *hasher) sum12() string {
	h.sum = h.mac.Sum(h.sum[:0])
	return hex.EncodeToString(h.sum[:hashLen/2])
}
