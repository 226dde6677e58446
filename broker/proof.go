package broker

import (
	"net/http"
	"net/url"
	"time"
)

// NewClientProof returns a function that adds a client's proof to one request to an endpoint of its authorization server which is no
// token endpoint, such as that of introspection (RFC 7662). It is safe for concurrent use; each call makes a new proof. Its errors say
// that a file could not be used, without its content. Method tls_client_auth proves by the connection and adds the client's name only.
// Errors: those of a binding's ClientAuth.
func NewClientProof(c ClientAuth, endpoint string) (func(form url.Values, h http.Header) error, error) {
	return newClientAuth(c, endpoint, time.Now)
}
