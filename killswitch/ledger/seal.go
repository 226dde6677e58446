package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Hash is "sha256:" and 64 hex digits, of an entry's canonical JSON with its signature.
type Hash string

// Signature stands at the end of everything that is signed.
type Signature struct {
	Key string `json:"key"`           // key id
	Sig string `json:"sig,omitempty"` // base64url of 64 bytes
}

func (s *Signature) signature() *Signature { return s }

// signed is an Entry, a Checkpoint or a Heartbeat.
type signed interface {
	signature() *Signature
	check() error
	domain() string // what the signature is for, so that none can stand for another kind
}

func (e *Entry) domain() string      { return "toolgate kill switch entry v1\n" }
func (c *Checkpoint) domain() string { return "toolgate kill switch checkpoint v1\n" }
func (h *Heartbeat) domain() string  { return "toolgate kill switch heartbeat v1\n" }

// MaxBytes bounds what Decode, DecodeCheckpoint and DecodeHeartbeat look at.
const MaxBytes = 16 << 20

// Encode returns the canonical JSON of e (RFC 8785), which is its wire form.
func (e *Entry) Encode() []byte { return canonical(e) }

// Encode returns the canonical JSON of c.
func (c *Checkpoint) Encode() []byte { return canonical(c) }

// Encode returns the canonical JSON of h.
func (h *Heartbeat) Encode() []byte { return canonical(h) }

// Hash returns what the next entry's Prev must be.
func (e *Entry) Hash() Hash { return hash(canonical(e)) }

func hash(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash("sha256:" + hex.EncodeToString(sum[:]))
}

// Sign checks e and signs it. The caller has set all but Signature.
func (s *Signer) Sign(e *Entry) error { return s.seal(e) }

// SignCheckpoint checks c and signs it.
func (s *Signer) SignCheckpoint(c *Checkpoint) error { return s.seal(c) }

// SignHeartbeat checks h and signs it.
func (s *Signer) SignHeartbeat(h *Heartbeat) error { return s.seal(h) }

func (s *Signer) seal(v signed) error {
	*v.signature() = Signature{Key: s.id}
	if err := v.check(); err != nil {
		return err
	}
	body := canonical(v)
	if body == nil {
		return malformed("a text is not UTF-8")
	}
	v.signature().Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, append([]byte(v.domain()), body...)))
	return nil
}

// Decode reads an entry and verifies its form and its signature. The chain is State's business.
func (k Keys) Decode(b []byte) (*Entry, error) {
	e := new(Entry)
	return e, k.open(b, e)
}

// DecodeCheckpoint is Decode for a checkpoint.
func (k Keys) DecodeCheckpoint(b []byte) (*Checkpoint, error) {
	c := new(Checkpoint)
	return c, k.open(b, c)
}

// DecodeHeartbeat is Decode for a heartbeat. Whether it is new is State's business.
func (k Keys) DecodeHeartbeat(b []byte) (*Heartbeat, error) {
	h := new(Heartbeat)
	return h, k.open(b, h)
}

// open accepts the canonical form alone: what was read must give the same bytes again. So an unknown or doubled field,
// another spelling of a number or a text, and what a later version may add are refused, and nothing unsigned is read.
func (k Keys) open(b []byte, v signed) error {
	if len(b) > MaxBytes {
		return malformed("%d bytes", len(b))
	}
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return malformed("not JSON of this form")
	}
	if !bytes.Equal(canonical(v), b) {
		return malformed("not in canonical form")
	}
	if err := v.check(); err != nil {
		return err
	}
	return k.verify(v)
}

func (k Keys) verify(v signed) error {
	s := *v.signature()
	key, ok := k[s.Key]
	if !ok {
		return refuse(UnknownKey, "key id %.32q", s.Key)
	}
	sig, err := base64.RawURLEncoding.Strict().DecodeString(s.Sig)
	if err != nil {
		return malformed("signature is not base64url")
	}
	v.signature().Sig = ""
	message := append([]byte(v.domain()), canonical(v)...)
	v.signature().Sig = s.Sig
	if !ed25519.Verify(key, message, sig) {
		return refuse(Forged, "the signature does not fit key %s", s.Key)
	}
	return nil
}

func canonical(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		err = (*jsontext.Value)(&b).Canonicalize()
	}
	if err != nil {
		// Invalid UTF-8 in a text. No such value can have been read, and check refuses to sign it.
		return nil
	}
	return b
}
