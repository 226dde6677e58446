package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// ErrCut is what Last returns when the file ends within a line: the process before it ended while it wrote.
var ErrCut = errors.New("audit: the last line is not complete")

// maxLine bounds a line. A record holds some forty texts and four lists, each of which is bounded; a test makes the longest.
const maxLine = 512 << 10

// Last returns the head of the chain that ends in f, which is zero for a file that is empty or holds no chain. With ErrCut it is
// the head before the broken line.
func Last(f *os.File) (Head, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return Head{}, err
	}
	from := max(0, size-2*maxLine)
	b := make([]byte, size-from)
	if _, err := f.ReadAt(b, from); err != nil {
		return Head{}, err
	}
	end := bytes.LastIndexByte(b, '\n')
	if end < 0 {
		return Head{}, ErrCut
	}
	var cut error
	if end != len(b)-1 {
		cut = ErrCut
	}
	line := b[bytes.LastIndexByte(b[:end], '\n')+1 : end]
	var l struct {
		Chain string `json:"chain"`
		Seq   uint64 `json:"seq"`
	}
	if json.Unmarshal(line, &l) != nil || l.Seq == 0 {
		return Head{}, cut
	}
	return Head{l.Chain, l.Seq, lineHash(line)}, cut
}

// lineHash is the SHA-256 of a line without its newline, in hex.
func lineHash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
