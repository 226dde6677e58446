package devissuer

import (
	"maps"
	"net/http"
)

// MintOpaque returns a reference token, which says nothing by itself, and what introspection (RFC 7662) will answer for it: claims over the
// usual iss, client_id, token_type, iat and exp; nil leaves one out. It is active until Deactivate, whatever its exp.
func (i *Issuer) MintOpaque(claims map[string]any) string {
	now := i.now().Unix()
	all := map[string]any{"active": true, "iss": i.url, "client_id": "runtime", "token_type": "Bearer", "iat": now, "exp": now + 300}
	token := "opaque." + newID()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.opaque == nil {
		i.opaque = map[string]map[string]any{}
	}
	i.opaque[token] = override(all, claims)
	return token
}

// Deactivate revokes a reference token.
func (i *Issuer) Deactivate(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.opaque, token)
}

// serveIntrospect is RFC 7662: what it does not know is not active. Only a client that authenticates is answered.
func (i *Issuer) serveIntrospect(w http.ResponseWriter, r *http.Request) {
	if _, fail := i.begin(w, r); fail != nil {
		fail.write(w)
		return
	}
	i.mu.Lock()
	answer := maps.Clone(i.opaque[r.PostForm.Get("token")])
	i.mu.Unlock()
	if answer == nil {
		answer = map[string]any{"active": false}
	}
	writeJSON(w, http.StatusOK, answer)
}
