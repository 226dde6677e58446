package proxy

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"
)

// frames knows where in a stream of WebSocket frames one ends (RFC 6455, section 5.2). The zero value is at a boundary.
type frames struct {
	head [14]byte
	n    int    // bytes of a header that is not whole yet
	left uint64 // of a payload
}

func (f *frames) between() bool { return f.n == 0 && f.left == 0 }

// next takes bytes up to the end of the current frame, and returns how many.
func (f *frames) next(p []byte) int {
	taken := 0
	for taken < len(p) {
		if f.left > 0 {
			k := min(f.left, uint64(len(p)-taken))
			f.left -= k
			taken += int(k)
		} else {
			f.head[f.n] = p[taken]
			f.n++
			taken++
			if f.n < f.header() {
				continue
			}
			f.left, f.n = f.payload(), 0
		}
		if f.between() {
			break
		}
	}
	return taken
}

// header returns how long the header is, as far as its beginning tells.
func (f *frames) header() int {
	if f.n < 2 {
		return 2
	}
	size := 2
	switch f.head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.head[1]&0x80 != 0 {
		size += 4
	}
	return size
}

func (f *frames) payload() uint64 {
	switch short := f.head[1] & 0x7f; short {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(short)
	}
}

// goingAway is a close frame with status 1001 (RFC 6455, section 7.4.1). What clients send is masked.
func goingAway(masked bool) []byte {
	status := [2]byte{1001 >> 8, 1001 & 0xff}
	if !masked {
		return []byte{0x88, 2, status[0], status[1]}
	}
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	return []byte{0x88, 0x80 | 2, key[0], key[1], key[2], key[3], status[0] ^ key[0], status[1] ^ key[1]}
}

// lane is one direction of a WebSocket. Once it has been left, its peer gets a close frame at the next end of a frame, and nothing
// after that.
type lane struct {
	dst    io.Writer
	masked bool        // towards the upstream
	left   atomic.Bool // the close frame is due

	mu     sync.Mutex
	frames frames
	begun  bool // the 101 has been sent
	closed bool // it was sent
}

// begin tells that frames may be sent.
func (l *lane) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = true
	_ = l.close()
}

// Write passes on what came.
func (l *lane) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(p), nil
	}
	end := 0
	for end < len(p) {
		end += l.frames.next(p[end:])
		if l.left.Load() && l.frames.between() {
			break
		}
	}
	if n, err := l.dst.Write(p[:end]); err != nil {
		return n, err
	}
	return len(p), l.close()
}

// leave sends the close frame if that is possible now. It waits for a peer that does not read.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.close()
}

func (l *lane) close() error {
	if !l.begun || !l.left.Load() || l.closed || !l.frames.between() {
		return nil
	}
	l.closed = true
	_, err := l.dst.Write(goingAway(l.masked))
	return err
}
