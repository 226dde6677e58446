package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"
)

// The kinds of lines that are about the chain and not about a call.
const (
	KindStart      = "start"      // the first line of a process
	KindCheckpoint = "checkpoint" // signed, from time to time
	KindEnd        = "end"        // the last line of a process that stopped in order; signed where there is a key
)

// Head is where a chain stands: its name, the number of its last line, and that line's SHA-256 in hex.
type Head struct {
	Chain string
	Seq   uint64
	Hash  string
}

// Process tells of the process whose chain it is.
type Process struct {
	Version  string             // of the program
	Previous Head               // of the chain before, as its output holds it; zero: not known
	Key      ed25519.PrivateKey // signs checkpoints; nil: there are none
	Every    int                // records between checkpoints; 0: 1,000
	Interval time.Duration      // between checkpoints while there are records; 0: a minute
	Told     func(Checkpoint)   // is told of each checkpoint, for a copy elsewhere; may be nil
}

// Checkpoint is a signed word on all lines of a chain up to Seq.
type Checkpoint struct {
	Head
	Time      time.Time
	KeyID     string
	Signature string // base64url of Ed25519 over the line without it, after a line of context
}

// context keeps a signature from being taken for one of another use of the same key.
const signingContext = "toolgate audit checkpoint v1"

// signedText is what a signature is over: the line that carries it, as it is without it.
func signedText(line []byte) []byte { return append([]byte(signingContext+"\n"), line...) }

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// marks is what a writer knows of its own lines.
type marks struct {
	Process
	chain string
	since int // records since the last line of ours
	now   func() time.Time
}

func newMarks(p *Process) *marks {
	m := &marks{Process: *p, chain: NewID(), now: time.Now}
	if m.Every <= 0 {
		m.Every = 1000
	}
	if m.Interval <= 0 {
		m.Interval = time.Minute
	}
	return m
}

func (m *marks) count() {
	if m != nil {
		m.since++
	}
}

// due reports whether it is time for a checkpoint, by count.
func (m *marks) due() bool { return m != nil && m.Key != nil && m.since >= m.Every }

// mark is a line about the chain.
type mark struct {
	kind, chain, version string
	time                 time.Time
	key                  ed25519.PrivateKey
	previous             Head
	signature            string
}

// appendMark appends m as the line that follows l, signed where there is a key; a first line has nothing to sign.
func appendMark(b []byte, m *mark, l link) []byte {
	if m.key == nil || m.kind == KindStart {
		return m.append(b, l)
	}
	m.signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.key, signedText(m.append(nil, l))))
	return m.append(b, l)
}

func (m *mark) append(b []byte, l link) []byte {
	o := object{b: append(b, '{')}
	o.str("chain", m.chain)
	if m.key != nil {
		o.str("key_id", KeyID(m.key.Public().(ed25519.PublicKey)))
	}
	o.str("kind", m.kind)
	o.num("lost", int64(l.lost))
	o.hash("prev_hash", l.prev)
	o.str("previous_chain", m.previous.Chain)
	o.str("previous_hash", m.previous.Hash)
	o.num("previous_seq", int64(m.previous.Seq))
	if m.kind == KindStart && m.key != nil {
		o.str("public_key", base64.RawURLEncoding.EncodeToString(m.key.Public().(ed25519.PublicKey)))
	}
	o.num("seq", int64(l.seq))
	o.str("signature", m.signature)
	o.time("time", m.time)
	o.num("v", Version)
	o.str("version", m.version)
	return append(o.b, '}')
}
