package broker

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxNonce  = 1 << 10 // bytes
	maxNonces = 256     // servers of one binding
)

// nonceOf returns the nonce that an answer wants to see in later proofs (RFC 9449, section 8.2), or "" where it names none, more
// than one, or what is none.
func nonceOf(h http.Header) string {
	list := h["Dpop-Nonce"]
	if len(list) != 1 || len(list[0]) > maxNonce {
		return ""
	}
	for _, c := range []byte(list[0]) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return ""
		}
	}
	return list[0]
}

// nonces are the last ones of servers, by host and port. A server's nonce is for itself alone (RFC 9449, section 8.2).
type nonces struct {
	mu   sync.Mutex
	last map[string]string
}

func (n *nonces) get(server string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last[server]
}

// note remembers the nonce of an answer and reports whether it is another than before.
func (n *nonces) note(server string, h http.Header) bool {
	nonce := nonceOf(h)
	if nonce == "" {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[server] == nonce {
		return false
	}
	if n.last == nil || len(n.last) >= maxNonces {
		n.last = make(map[string]string)
	}
	n.last[server] = nonce
	return true
}

// asksNonce reports whether a token endpoint refused nothing but the proof's nonce (RFC 9449, section 8).
func asksNonce(r reply) bool {
	var body struct {
		Code jsontext.Value `json:"error"`
	}
	if r.status < 400 || r.status >= 500 || json.Unmarshal(r.body, &body) != nil {
		return false
	}
	code, _ := stringOf(body.Code)
	return code == "use_dpop_nonce"
}

// challengesNonce reports the same of an upstream's answer (section 9), whose challenge may be one of several.
func challengesNonce(res *http.Response) bool {
	if res.StatusCode != http.StatusUnauthorized {
		return false
	}
	for _, challenge := range res.Header["Www-Authenticate"] {
		if strings.Contains(challenge, `error="use_dpop_nonce"`) {
			return true
		}
	}
	return false
}
