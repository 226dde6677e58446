package broker

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// prover makes proofs for the requests of one token client's tokens.
type prover struct {
	keys      *proofs
	endpoints nonces // of token endpoints
	upstreams nonces // of targets; their nonces are not the endpoints'
}

// prove adds a proof for a request to a token endpoint (RFC 9449, section 5).
func (p *prover) prove(ep *endpoint, key *proofKey, h http.Header, now time.Time) error {
	u, err := url.Parse(ep.url)
	if err != nil {
		return err
	}
	proof, err := key.proof(http.MethodPost, htu(u, withoutDefaultPort(u)), "", p.endpoints.get(ep.url), now)
	h["Dpop"] = []string{proof}
	return err
}

// withoutDefaultPort is a URL's host as RFC 3986, section 6.2.3, normalizes it.
func withoutDefaultPort(u *url.URL) string {
	if p := u.Port(); u.Scheme == "https" && p == "443" || u.Scheme == "http" && p == "80" {
		return strings.TrimSuffix(u.Host, ":"+p)
	}
	return u.Host
}

// proven is a token that is shown with a proof of its key (RFC 9449, section 7).
type proven struct {
	line   redact.Secret // scheme and token
	ath    string
	key    *proofKey
	nonces *nonces
	now    func() time.Time
}

func newProven(token string, key *proofKey, n *nonces, now func() time.Time) *proven {
	sum := sha256.Sum256([]byte(token))
	return &proven{redact.New("DPoP " + token), b64(sum[:]), key, n, now}
}

func (*proven) body(*http.Request) int64 { return 0 }

// place sets the token and a proof for this very request. A proof of the tool's own is removed: it would be of a key that the token is
// not bound to, and a server may read the first of two.
func (p *proven) place(out *http.Request, body []byte) ([]byte, Reason) {
	for _, name := range []string{"Authorization", "Dpop"} {
		removeFolded(out.Header, name)
		removeFolded(out.Trailer, name)
	}
	proof, err := p.key.proof(out.Method, htu(out.URL, orElse(out.Host, out.URL.Host)), p.ath, p.nonces.get(out.URL.Host), p.now())
	if err != nil {
		return nil, Internal
	}
	if out.Header == nil {
		out.Header = make(http.Header, 2)
	}
	out.Header["Authorization"], out.Header["Dpop"] = []string{p.line.Reveal()}, []string{proof}
	return body, ""
}

// answered remembers the nonce of an upstream.
func (p *proven) answered(out *http.Request, res *http.Response) bool {
	changed := p.nonces.note(out.URL.Host, res.Header)
	return changed && challengesNonce(res)
}

// Answered is told of every answer to a request that Apply was called for. It reports whether the request is worth sending again after
// another Apply: the upstream refused only that the proof did not hold its nonce (RFC 9449, section 9), which is known now.
func (c *Credential) Answered(out *http.Request, res *http.Response) bool {
	p, ok := c.put.(*proven)
	return ok && p.answered(out, res)
}
