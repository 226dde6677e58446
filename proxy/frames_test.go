package proxy

import (
	"bytes"
	"slices"
	"testing"
)

// frame is a WebSocket frame with a payload of n bytes.
func frame(n int, masked bool) []byte {
	b := []byte{0x82}
	switch {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = append(b, 126, byte(n>>8), byte(n))
	default:
		b = append(b, 127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if masked {
		b[1] |= 0x80
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, bytes.Repeat([]byte{0x88}, n)...) // a payload that looks like a close frame
}

// TestCloseFrameComesAtABoundary, wherever the stream is when it is asked for, and however it is cut into pieces.
func TestCloseFrameComesAtABoundary(t *testing.T) {
	for _, masked := range []bool{false, true} {
		for _, size := range []int{0, 1, 125, 126, 300, 1<<16 - 1, 1 << 16} {
			one := frame(size, masked)
			stream := slices.Concat(one, one)
			for _, at := range []int{0, 1, 2, 5, len(one) - 1, len(one), len(one) + 1} {
				at = min(at, len(stream))
				for _, piece := range []int{1, 7, len(stream)} {
					var out bytes.Buffer
					l := &lane{dst: &out, masked: masked, begun: true}
					for p := range slices.Chunk(stream[:at], piece) {
						_, _ = l.Write(p)
					}
					l.left.Store(true)
					l.leave()
					for p := range slices.Chunk(stream[at:], piece) {
						if n, err := l.Write(p); n != len(p) || err != nil {
							t.Fatal(n, err)
						}
					}
					whole := (at + len(one) - 1) / len(one) * len(one)
					if got := out.Bytes(); !bytes.HasPrefix(got, stream[:whole]) || !isGoingAway(got[whole:], masked) {
						t.Fatalf("masked %v, %d bytes, left at %d, pieces of %d: %d bytes came, want %d and a close frame", masked, size, at, piece, len(got), whole)
					}
				}
			}
		}
	}
}

// isGoingAway reports whether b is one close frame with status 1001.
func isGoingAway(b []byte, masked bool) bool {
	if !masked {
		return bytes.Equal(b, []byte{0x88, 2, 3, 0xe9})
	}
	return len(b) == 8 && b[0] == 0x88 && b[1] == 0x82 && b[6]^b[2] == 3 && b[7]^b[3] == 0xe9
}
