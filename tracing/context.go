package tracing

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/toolgate/toolgate/audit"
)

// flags of a traceparent (W3C Trace Context, level 2, section 3.2.2.5).
const (
	flagSampled = 1
	flagRandom  = 2
)

// parent is what a tool's traceparent says. The zero value is none.
type parent struct {
	trace [16]byte
	span  [8]byte
	flags byte
}

func (p *parent) sampled() bool { return p.flags&flagSampled != 0 }

// parseParent reads a traceparent as audit.ParseTraceparent does, with its flags. Flags that are unknown are cleared, as the standard
// wants of who passes it on (section 3.2.2.5).
func parseParent(header string) (p parent, ok bool) {
	trace, span, ok := audit.ParseTraceparent(header)
	if !ok {
		return parent{}, false
	}
	var flags [1]byte
	_, _ = hex.Decode(p.trace[:], []byte(trace))
	_, _ = hex.Decode(p.span[:], []byte(span))
	_, _ = hex.Decode(flags[:], []byte(header[53:55]))
	p.flags = flags[0] & (flagSampled | flagRandom)
	return p, true
}

// traceparent writes version 00 of the header.
func traceparent(trace [16]byte, span [8]byte, flags byte) string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, []byte{flags})
	return string(b)
}

// Ids must be unique and not all zero (section 3.2.2.3); they need not be secret.
func newTraceID() (id [16]byte) {
	for id == [16]byte{} {
		put(id[:8], rand.Uint64())
		put(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id [8]byte) {
	for id == [8]byte{} {
		put(id[:], rand.Uint64())
	}
	return id
}

func put(b []byte, n uint64) {
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
}

// The bounds of a tracestate (section 3.3.1): what is longer may be dropped whole.
const (
	maxState   = 512
	maxMembers = 32
)

// State returns the lines of a tracestate as the one that may be passed on beside a traceparent that was read; empty if it is
// malformed or too long (section 3.3.1).
func State(lines []string) string {
	text := strings.Join(lines, ",")
	if len(text) > maxState {
		return ""
	}
	var members []string
	seen := map[string]bool{}
	for m := range strings.SplitSeq(text, ",") {
		m = strings.Trim(m, " \t")
		if m == "" {
			continue // an empty member is allowed
		}
		key, value, ok := strings.Cut(m, "=")
		if !ok || !validKey(key) || !validValue(value) || seen[key] {
			return ""
		}
		seen[key] = true
		members = append(members, m)
	}
	if len(members) > maxMembers {
		return ""
	}
	return strings.Join(members, ",")
}

// validKey is the key of level 2, which allows all that level 1 does.
func validKey(k string) bool {
	if len(k) == 0 || len(k) > 256 {
		return false
	}
	for i := range len(k) {
		c := k[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("_-*/@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

func validValue(v string) bool {
	if v == "" || len(v) > 256 || v[len(v)-1] == ' ' {
		return false
	}
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c > 0x7e || c == ',' || c == '=' {
			return false
		}
	}
	return true
}
