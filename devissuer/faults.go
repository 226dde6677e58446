package devissuer

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// Omit is the value of a Faults field that leaves the answer's field out.
const Omit = "omit"

// Faults makes the issuer misbehave. A zero field changes nothing.
type Faults struct {
	Hang  bool // answer nothing on any path until the client gives up or the issuer is closed
	Reset bool // cut the connection of any request

	DiscoveryStatus, JWKSStatus, TokenStatus, IntrospectStatus int    // answered in place of 200
	DiscoveryBody, JWKSBody, TokenBody, IntrospectBody         string // answered verbatim
	HugeBody                                                   int    // bytes of a valid JSON string that is the whole body, on any path
	Redirect                                                   string // Location of a 307 on any path
	RetryAfter                                                 string // header that goes with a status

	// For the token endpoint's good answer.
	WrongAudience   string          // aud of the token
	ExpiresIn       json.RawMessage // expires_in as any JSON value, or Omit
	GrantScope      string          // the scope granted, in the token and in the answer, or Omit
	TokenType       string          // token_type, or Omit
	IssuedTokenType string          // issued_token_type, or Omit
	OmitAct         bool            // no act claim
}

// SetFaults replaces the faults; the zero value makes the issuer well again. Requests that hang already stay so.
func (i *Issuer) SetFaults(f Faults) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = f
}

// answer writes what f wants in place of the real answer and reports whether it did.
func (f *Faults) answer(w http.ResponseWriter, r *http.Request, closed <-chan struct{}) bool {
	switch {
	case f.Reset:
		panic(http.ErrAbortHandler)
	case f.Hang:
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxForm)) // an unread body would hide that the client gives up
		select {
		case <-r.Context().Done():
		case <-closed:
		}
		panic(http.ErrAbortHandler)
	case f.Redirect != "":
		http.Redirect(w, r, f.Redirect, http.StatusTemporaryRedirect)
		return true
	case f.HugeBody > 0:
		w.Header().Set("Content-Type", "application/json")
		writeHuge(w, f.HugeBody)
		return true
	}
	status, body := 0, ""
	switch r.URL.Path {
	case PathDiscovery:
		status, body = f.DiscoveryStatus, f.DiscoveryBody
	case PathJWKS:
		status, body = f.JWKSStatus, f.JWKSBody
	case PathToken:
		status, body = f.TokenStatus, f.TokenBody
	case PathIntrospect:
		status, body = f.IntrospectStatus, f.IntrospectBody
	}
	if status == 0 && body == "" {
		return false
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if status == 0 {
		status = http.StatusOK
	}
	if body == "" {
		body = `{"error":"temporarily_unavailable"}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client has gone away
	return true
}

func writeHuge(w http.ResponseWriter, n int) {
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	_, _ = w.Write([]byte(`"`))
	for n -= 2; n > 0; n -= len(chunk) {
		if n < len(chunk) {
			chunk = chunk[:n]
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	_, _ = w.Write([]byte(`"`))
}
