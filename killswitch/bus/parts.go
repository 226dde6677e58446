package bus

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// A checkpoint that is larger than PartBytes is compressed (gzip, RFC 1952) and stored in parts, one message each, with nothing
// between them in the stream. Each says which part of how many it is, and of what.
const (
	PartBytes = 512 << 10 // half of the largest message that a NATS server takes by default
	MaxParts  = 15        // of one checkpoint; they fit into one answer

	headerPart = "Toolgate-Part" // "2/3"
	headerSum  = "Toolgate-Sum"  // SHA-256 of the compressed whole, in hex
)

// KeptCheckpoints is how many messages the checkpoints' stream keeps: a checkpoint, while the next one is written.
const KeptCheckpoints = 2*MaxParts + 2

// Part is one message of a checkpoint.
type Part struct {
	Header map[string][]string // nil: this is the whole, as it is
	Data   []byte
}

// ErrTooLarge is a checkpoint that does not fit into MaxParts, or would not be read.
var ErrTooLarge = errors.New("the checkpoint is too large")

// Parts returns the messages that carry a checkpoint, none longer than limit bytes beside its header, nor than PartBytes. Errors:
// ErrTooLarge.
func Parts(checkpoint []byte, limit int) ([]Part, error) {
	limit = max(1, min(limit, PartBytes))
	if len(checkpoint) <= limit {
		return []Part{{Data: checkpoint}}, nil
	}
	all := pack(checkpoint)
	n := (len(all) + limit - 1) / limit
	if n > MaxParts || len(checkpoint) > ledger.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, and %d compressed", ErrTooLarge, len(checkpoint), len(all))
	}
	return cut(all, n, limit), nil
}

func cut(packed []byte, n, limit int) (parts []Part) {
	sum := sum(packed)
	for i := range n {
		parts = append(parts, Part{
			Header: map[string][]string{headerPart: {fmt.Sprintf("%d/%d", i+1, n)}, headerSum: {sum}},
			Data:   packed[i*limit : min(len(packed), (i+1)*limit)],
		})
	}
	return parts
}

// pack writes to memory, which cannot fail.
func pack(b []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(b)
	_ = w.Close()
	return packed.Bytes()
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Gathered puts a checkpoint together of its parts. The zero value has none.
type Gathered struct {
	sum   string
	count int // of parts in all
	next  int // of the part to come, from 1
	data  []byte
}

// ErrPart is a part that does not follow those before it: another checkpoint was written meanwhile, or one was not written to
// its end.
var ErrPart = errors.New("not the next part of the checkpoint")

// PartOf reads the header of a part, which is number of count. ok is false for a message that is none, or no good.
func PartOf(header map[string][]string) (number, count int, ok bool) {
	if len(header[headerPart]) != 1 {
		return 0, 0, false
	}
	text := header[headerPart][0]
	if n, err := fmt.Sscanf(text, "%d/%d", &number, &count); n != 2 || err != nil || text != fmt.Sprintf("%d/%d", number, count) {
		return 0, 0, false
	}
	return number, count, number >= 1 && number <= count && count <= MaxParts
}

// Add takes the next part, and returns the checkpoint with the last one.
func (g *Gathered) Add(header map[string][]string, data []byte) (checkpoint []byte, err error) {
	number, count, ok := PartOf(header)
	if !ok || len(header[headerSum]) != 1 || len(data) > PartBytes {
		return nil, ErrPart
	}
	if g.next == 0 {
		*g = Gathered{sum: header[headerSum][0], count: count, next: 1}
	}
	if number != g.next || count != g.count || header[headerSum][0] != g.sum {
		return nil, ErrPart
	}
	g.data = append(g.data, data...)
	g.next++
	if number < count {
		return nil, nil
	}
	if sum(g.data) != g.sum {
		return nil, ErrPart
	}
	return unpack(g.data)
}

// unpack bounds what comes out, whatever went in.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(r, ledger.MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(all) > ledger.MaxBytes:
		return nil, ErrTooLarge
	}
	return all, nil
}
