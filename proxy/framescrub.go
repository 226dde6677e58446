package proxy

import (
	"io"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/redact"
)

// maxWaiting bounds what waits behind a fragment that may begin the credential, such as pings without end.
const maxWaiting = 64 << 10

// scrubbedFrames passes an upstream's WebSocket frames on with the credential masked in their payloads, at the same length. The
// fragments of a message are looked at as one text, without the frames' headers between them. A message that has ended never waits
// for the next. No extension has been agreed on, so a reserved bit, or a mask (RFC 6455, sections 5.1 and 5.2), hides what is said: an
// error.
type scrubbedFrames struct {
	dst  io.Writer
	cred *broker.Credential

	frames  frames
	data    *redact.KnownMask
	text    []byte  // of data frames, that was not looked at yet
	ended   bool    // a message has, where whole says
	whole   int     // how much of text is of messages that have ended
	control []byte  // of a control frame that is not whole yet
	pieces  []piece // what goes out, in its order
	masked  []byte  // for the gaps of pieces
	waiting int     // bytes of pieces
	out     []byte
}

// piece is text as it goes out, or a gap for so many bytes of payload.
type piece struct {
	text string
	gap  int
}

func newScrubbedFrames(dst io.Writer, cred *broker.Credential) *scrubbedFrames {
	return &scrubbedFrames{dst: dst, cred: cred, data: cred.ScrubPieces()}
}

func (s *scrubbedFrames) Write(p []byte) (int, error) {
	n := len(p)
	f := &s.frames
	for len(p) > 0 {
		if f.left > 0 {
			k := int(min(f.left, uint64(len(p))))
			f.left -= uint64(k)
			s.payload(p[:k])
			p = p[k:]
			continue
		}
		f.head[f.n] = p[0]
		f.n++
		p = p[1:]
		if f.n < f.header() {
			continue
		}
		if f.head[0]&0x70 != 0 || f.head[1]&0x80 != 0 {
			return 0, errCoded
		}
		s.put(piece{text: string(f.head[:f.n])})
		f.left, f.n = f.payload(), 0
		if f.left == 0 {
			s.payload(nil)
		}
	}
	s.look(s.waiting > maxWaiting)
	return n, s.send()
}

// look has data looked at, once for all messages that came at a time: of small ones it costs more than they do. What began before the last
// end of a message does not wait, and with all nothing does.
func (s *scrubbedFrames) look(all bool) {
	if s.ended {
		s.masked = append(s.masked, s.data.Feed(s.text[:s.whole], true)...)
	}
	s.masked = append(s.masked, s.data.Feed(s.text[s.whole:], all)...)
	s.text, s.whole, s.ended = s.text[:0], 0, false
}

// payload takes bytes of the frame that was begun last. Control frames may stand between the fragments of a message (RFC 6455,
// section 5.4), and have a text of their own.
func (s *scrubbedFrames) payload(p []byte) {
	f := &s.frames
	ended := f.left == 0
	if f.head[0]&0x08 == 0 {
		s.put(piece{gap: len(p)})
		if s.text = append(s.text, p...); ended && f.head[0]&0x80 != 0 {
			s.ended, s.whole = true, len(s.text)
		}
		return
	}
	s.control = append(s.control, p...)
	if ended || len(s.control) > maxWaiting {
		s.put(piece{text: string(s.cred.ScrubPieces().Feed(s.control, true))})
		s.control = s.control[:0]
	}
}

func (s *scrubbedFrames) put(p piece) {
	s.pieces = append(s.pieces, p)
	s.waiting += len(p.text) + p.gap
}

// send writes what has no gap before it.
func (s *scrubbedFrames) send() error {
	s.out = s.out[:0]
	done, used := 0, 0
	for i := range s.pieces {
		p := &s.pieces[i]
		k := min(p.gap, len(s.masked)-used)
		s.out = append(append(s.out, p.text...), s.masked[used:used+k]...)
		used += k
		if p.gap -= k; p.gap > 0 {
			break
		}
		done++
	}
	s.waiting -= len(s.out)
	s.pieces = append(s.pieces[:0], s.pieces[done:]...)
	s.masked = append(s.masked[:0], s.masked[used:]...)
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.dst.Write(s.out)
	return err
}

// end sends what waits: nothing follows.
func (s *scrubbedFrames) end() {
	s.look(true)
	_ = s.send() // the socket is closed next
}
