package broker

import (
	"context"
	"net/http"
)

// MTLS is a client certificate for the upstream, such as an X.509-SVID. It may stand beside another kind of credential, whose token
// the issuer may have bound to it (RFC 8705, section 3).
type MTLS struct {
	CertFile string // PEM, chain from the leaf up; re-read when it changes
	KeyFile  string // PEM
}

func (c *MTLS) kind() string { return "mtls" }
func (c *MTLS) name() string { return "mtls" }

func (c *MTLS) copy() settings {
	x := *c
	return &x
}

func (c *MTLS) bind(bd *Binding, _ *opening) (*bound, error) {
	return &bound{issuer: &certificateIssuer{bd.Name}}, nil
}

func (c *MTLS) open() (*clientCert, error) {
	pair := newClientCert(c.CertFile, c.KeyFile)
	if _, err := pair.get(); err != nil {
		return nil, fileProblem("mtls certFile", c.CertFile, err)
	}
	return pair, nil
}

// certify has the connections of a binding be made with its certificate.
func (bo *bound) certify(given *Binding) error {
	if given.MTLS == nil {
		return nil
	}
	own := *given.MTLS
	bo.MTLS = &own
	var err error
	bo.pair, err = own.open()
	return err
}

// certificateIssuer is the issuer of credentials that are nothing but the certificate of their binding.
type certificateIssuer struct{ binding string }

// Issue returns a credential that the request does not carry.
func (is *certificateIssuer) Issue(ctx context.Context, _ Subject) (*Credential, error) {
	if ctx.Err() != nil {
		return nil, newError(is.binding, Cancelled)
	}
	return &Credential{ref: Ref{Binding: is.binding, Kind: "mtls"}, put: nowhere{}}, nil
}

// Key holds nothing: the certificate is all that chooses.
func (is *certificateIssuer) Key(Subject) (Key, error) { return Key{Binding: is.binding}, nil }

// nowhere is the placing of a credential that the request does not carry.
type nowhere struct{}

func (nowhere) body(*http.Request) int64 { return 0 }

func (nowhere) place(_ *http.Request, body []byte) ([]byte, Reason) { return body, "" }

// with returns a copy for a connection made with cert.
func (c *Credential) with(cert *ClientCertificate) *Credential {
	d := *c
	d.cert = cert
	if d.ref.Kind == "mtls" {
		d.ref.Expires = cert.TLS.Leaf.NotAfter
	}
	return &d
}

// Certificate returns the client certificate that the request's connection must be made with, or nil: none. A connection made with
// one may carry no request of another binding, and none of a credential with another certificate.
func (c *Credential) Certificate() *ClientCertificate { return c.cert }

// certified is credential for a binding whose connections are made with a certificate.
func (b *Broker) certified(ctx context.Context, bo *bound, s Subject) (*Credential, error) {
	cert, err := bo.pair.get()
	if err != nil {
		return nil, newError(bo.Name, SecretUnreadable)
	}
	c, err := b.credential(ctx, bo, s, cert.x5t)
	if err != nil {
		return nil, err
	}
	if c.x5t != "" && c.x5t != cert.x5t {
		b.Forget(c)
		return nil, newError(bo.Name, WrongKey)
	}
	return c.with(cert), nil
}
