package audit

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// NewID returns a UUIDv7 (RFC 9562, section 5.7): ids of later milliseconds sort after earlier ones.
func NewID() string { return newID(time.Now()) }

func newID(now time.Time) string {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:16]) // it never fails: crypto/rand ends the program instead
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[:8], b[:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// ParseTraceparent reads a traceparent header (W3C Trace Context, section 3.2). A later version than 00 is read as far
// as 00 goes, as the standard says.
func ParseTraceparent(h string) (traceID, spanID string, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(h) < length || h[2] != '-' || h[35] != '-' || h[52] != '-' {
		return "", "", false
	}
	version, flags := h[:2], h[53:55]
	traceID, spanID = h[3:35], h[36:52]
	if !lowerHex(version) || !lowerHex(traceID) || !lowerHex(spanID) || !lowerHex(flags) || version == "ff" {
		return "", "", false
	}
	if len(h) > length && (version == "00" || h[length] != '-') {
		return "", "", false
	}
	if strings.Trim(traceID, "0") == "" || strings.Trim(spanID, "0") == "" {
		return "", "", false
	}
	return traceID, spanID, true
}

func lowerHex(s string) bool { return strings.Trim(s, hexDigits) == "" }
