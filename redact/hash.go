package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
func Hash(s string) string { return hash([]byte(s)) }

func hash(b []byte) string {
	m := hmac.New(sha256.New, hashKey())
	m.Write(b)
	return hex.EncodeToString(m.Sum(nil)[:hashLen/2])
}

// unparsed stands for bytes that could not be read, and so could not be masked.
func unparsed(b []byte) string { return fmt.Sprintf("[unparsed %d bytes hmac=%s]", len(b), hash(b)) }
