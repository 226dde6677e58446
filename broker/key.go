package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"unique"
)

// Key is every input that chose a credential; the cache is keyed by it. Slices are sorted and joined with spaces, which
// no scope may contain (RFC 6749, section 3.3). What a caller's token says beyond these, such as its chain of actors, is in TokenHash; what
// a binding says beyond them, such as parameters and the kinds of tokens, in Generation.
type Key struct {
	Binding, Generation                       string // Generation: the configuration revision
	Issuer, Subject, Tenant, Agent, Task, Run string
	TokenID, Workload                         string // Workload: SHA-256 of the actor token
	TokenHash                                 Hash   // of the subject token
	Tool, Version                             string
	Audience, Resource, Scopes                string
	Client, RequestedType                     string // client_id and requested_token_type
}

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// hashOf does not copy s to the heap, as a conversion would.
func hashOf(s string) (sum Hash) {
	h := sha256.New()
	var part [512]byte
	for len(s) > 0 {
		n := copy(part[:], s)
		_, _ = h.Write(part[:n])
		s = s[n:]
	}
	h.Sum(sum[:0])
	return sum
}

// hash returns the SHA-256 of s in hex.
func hash(s string) string {
	sum := hashOf(s)
	return hex.EncodeToString(sum[:])
}

// packed is a Key in little room: what many keys have in common is kept once for all.
type packed struct {
	common                      unique.Handle[Key]
	subject, task, run, tokenID string
	tokenHash                   Hash
}

func pack(k Key) packed {
	p := packed{subject: k.Subject, task: k.Task, run: k.Run, tokenID: k.TokenID, tokenHash: k.TokenHash}
	k.Subject, k.Task, k.Run, k.TokenID, k.TokenHash = "", "", "", "", Hash{}
	p.common = unique.Make(k)
	return p
}

func (p *packed) key() Key {
	k := p.common.Value()
	k.Subject, k.Task, k.Run, k.TokenID, k.TokenHash = p.subject, p.task, p.run, p.tokenID, p.tokenHash
	return k
}
