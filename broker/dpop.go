package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"
)

// proofKey is a key that tokens are bound to (RFC 9449). It never leaves the process and is written nowhere.
type proofKey struct {
	key    *ecdsa.PrivateKey // P-256
	header string            // of its proofs, as they begin
	jkt    string            // SHA-256 thumbprint of the public key (RFC 7638)
}

func newProofKey() (*proofKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, err
	}
	// Members in the order of RFC 7638, section 3.2, so that the thumbprint is taken of the same text.
	jwk := `{"crv":"P-256","kty":"EC","x":"` + b64(point[1:33]) + `","y":"` + b64(point[33:]) + `"}`
	sum := sha256.Sum256([]byte(jwk))
	header := `{"typ":"dpop+jwt","alg":"ES256","jwk":` + jwk + `}`
	return &proofKey{key, b64([]byte(header)) + ".", b64(sum[:])}, nil
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// thumbprint is empty of a nil key.
func (k *proofKey) thumbprint() string {
	if k == nil {
		return ""
	}
	return k.jkt
}

// proof returns a new proof for one request (RFC 9449, section 4.2). ath is the hash of the token that is shown with it, and nonce
// what the server wants to see; either may be empty.
func (k *proofKey) proof(method, htu, ath, nonce string, now time.Time) (string, error) {
	p := make([]byte, 0, 256+len(htu)+len(nonce))
	p = append(append(p, `{"jti":"`...), rand.Text()...)
	p = append(strconv.AppendInt(append(p, `","iat":`...), now.Unix(), 10), `,"htm":`...)
	for _, m := range []struct{ name, value string }{{"", method}, {`,"htu":`, htu}, {`,"ath":`, ath}, {`,"nonce":`, nonce}} {
		if m.value == "" {
			continue
		}
		var err error
		if p, err = jsontext.AppendQuote(append(p, m.name...), m.value); err != nil {
			return "", err
		}
	}
	p = append(p, '}')
	jws := make([]byte, 0, len(k.header)+2*len(p)+128)
	jws = base64.RawURLEncoding.AppendEncode(append(jws, k.header...), p)
	sum := sha256.Sum256(jws)
	r, s, err := ecdsa.Sign(rand.Reader, k.key, sum[:])
	if err != nil {
		return "", err
	}
	var sig [64]byte // RFC 7518, section 3.4
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return string(base64.RawURLEncoding.AppendEncode(append(jws, '.'), sig[:])), nil
}

// htu is a request's URL as a proof has it: without query and fragment (RFC 9449, section 4.2), whatever port is the scheme's own
// left out (section 4.3).
func htu(u *url.URL, host string) string {
	h := url.URL{Scheme: u.Scheme, Host: host, Path: u.Path, RawPath: u.RawPath}
	if h.Path == "" {
		h.Path = "/"
	}
	return h.String()
}

// proofs are the keys of callers, each for one binding, caller, task and tool, so that no two tasks can be told to be of one
// process by their key. The one that was used least recently makes room; its tokens are asked for anew then.
type proofs struct {
	mu   sync.Mutex
	keys *lru.Cache[Key, *proofKey]
}

// newProofs keeps at most size keys. size is positive, the only condition of lru.New.
func newProofs(size int) *proofs {
	keys, err := lru.New[Key, *proofKey](size)
	if err != nil {
		panic("broker: number of proof keys: " + err.Error())
	}
	return &proofs{keys: keys}
}

// of returns the key of a caller, made when there is none.
func (p *proofs) of(binding string, s *Subject) (*proofKey, error) {
	owner := Key{
		Binding: binding, Issuer: s.Issuer, Subject: s.Subject, Tenant: s.Tenant, Agent: s.Agent, Task: s.Task, Run: s.Run,
		Tool: s.Tool, Version: s.Version,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.keys.Get(owner); ok {
		return k, nil
	}
	k, err := newProofKey()
	if err == nil {
		p.keys.Add(owner, k)
	}
	return k, err
}

// drop forgets the keys whose owner matches: what was bound to them is of no use any more.
func (p *proofs) drop(match func(Key) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, owner := range p.keys.Keys() {
		if match(owner) {
			p.keys.Remove(owner)
		}
	}
}
