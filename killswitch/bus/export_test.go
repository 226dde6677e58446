package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Resum gives a state file the checksum of its content, as whoever tampers with it would.
func Resum(text []byte) []byte {
	parts := bytes.SplitAfterN(text, []byte("\n"), 3)
	sum := sha256.Sum256(parts[2])
	return slices.Concat(parts[0], []byte("sha256:"+hex.EncodeToString(sum[:])+"\n"), parts[2])
}

// Swollen returns the parts of a checkpoint of n zero bytes, whatever their number.
func Swollen(n int) []Part {
	packed := pack(make([]byte, n))
	return cut(packed, 1, len(packed))
}
