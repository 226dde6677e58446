package identity

import (
	"crypto/x509"
	"errors"
	"strings"
	"time"
)

// ErrNoWorkload says that a peer shows neither a certificate nor a token of its own.
var ErrNoWorkload = errors.New("no workload identity")

// WorkloadPattern matches the identity of a workload: a SPIFFE ID, the subject of a workload's token, or "dns:" with a name of a
// certificate. Its parts, between slashes and colons, are compared one by one: "*" covers any part that is not empty, "{tenant}"
// the tenant of the caller for whom the workload speaks. The zero value matches nothing.
type WorkloadPattern struct{ text string }

// UnmarshalText parses a pattern. Errors say what is wrong with it.
func (p *WorkloadPattern) UnmarshalText(b []byte) error {
	text := string(b)
	switch {
	case text == "" || !isVisible(text):
		return errors.New("an identity has no spaces and no control characters, and is not empty")
	case strings.HasPrefix(text, spiffePrefix) && strings.ContainsAny(firstPart(text[len(spiffePrefix):]), "*{"):
		return errors.New("the trust domain is written out")
	}
	for _, part := range strings.FieldsFunc(text, isSeparator) {
		if part != "*" && part != "{tenant}" && strings.ContainsAny(part, "*{}") {
			return errors.New(`a placeholder, "*" or "{tenant}", is a whole part between slashes or colons`)
		}
	}
	if strings.Trim(text, "*/:") == "" {
		return errors.New("it names nobody: a part at least is written out")
	}
	p.text = text
	return nil
}

// String returns the pattern as written.
func (p WorkloadPattern) String() string { return p.text }

const spiffePrefix = "spiffe://"

func firstPart(s string) string {
	part, _, _ := strings.Cut(s, "/")
	return part
}

func isSeparator(r rune) bool { return r == '/' || r == ':' }

// Match reports whether the pattern covers an identity that speaks for a caller of that tenant, "" if the caller has none.
func (p WorkloadPattern) Match(id, tenant string) bool {
	if p.text == "" || id == "" {
		return false
	}
	pattern := p.text
	for {
		want, wantSep, wantRest := cutPart(pattern)
		got, gotSep, gotRest := cutPart(id)
		switch {
		case wantSep != gotSep:
			return false
		case want == "*":
			if got == "" {
				return false
			}
		case want == "{tenant}":
			if tenant == "" || got != tenant {
				return false
			}
		case want != got:
			return false
		}
		if wantSep == 0 {
			return true
		}
		pattern, id = wantRest, gotRest
	}
}

// cutPart cuts s at its first separator, which is 0 if there is none.
func cutPart(s string) (part string, separator byte, rest string) {
	i := strings.IndexFunc(s, isSeparator)
	if i < 0 {
		return s, 0, ""
	}
	return s[:i], s[i], s[i+1:]
}

// VerifyCertificate verifies the chain that a workload showed in a TLS handshake, its own certificate first, at a time, and returns
// its identities: its SPIFFE ID (X.509-SVID, section 2), else its DNS names with "dns:" before them. Errors: ErrNoWorkload,
// *InvalidError.
func VerifyCertificate(chain []*x509.Certificate, roots *x509.CertPool, at time.Time) ([]string, error) {
	ids, _, err := verifyCertificate(chain, roots, at)
	return ids, err
}

// verifyCertificate also returns the way from the certificate to a root by which it is believed.
func verifyCertificate(chain []*x509.Certificate, roots *x509.CertPool, at time.Time) (ids []string, by []*x509.Certificate, err error) {
	if len(chain) == 0 {
		return nil, nil, ErrNoWorkload
	}
	if roots == nil { // x509 would take the system's
		return nil, nil, invalid("issuer")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	ways, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	var bad x509.CertificateInvalidError
	switch {
	case errors.As(err, &bad) && bad.Reason == x509.Expired && at.Before(leaf.NotBefore):
		return nil, nil, invalid("not_yet_valid")
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return nil, nil, invalid("expired")
	case errors.As(err, &bad) && bad.Reason == x509.IncompatibleUsage:
		return nil, nil, invalid("type")
	case err != nil:
		return nil, nil, invalid("issuer")
	case leaf.IsCA: // a signing certificate is nobody's (X.509-SVID, section 4.1)
		return nil, nil, invalid("type")
	}
	ids, err = certificateNames(leaf)
	return ids, ways[0], err
}

func certificateNames(leaf *x509.Certificate) ([]string, error) {
	switch len(leaf.URIs) {
	case 0:
	case 1:
		if id := leaf.URIs[0].String(); strings.HasPrefix(id, spiffePrefix) && isVisible(id) {
			return []string{id}, nil
		}
		return nil, invalid("claim")
	default: // an X.509-SVID has exactly one (section 2)
		return nil, invalid("claim")
	}
	var names []string
	for _, name := range leaf.DNSNames {
		names = append(names, "dns:"+strings.ToLower(name))
	}
	if len(names) == 0 {
		return nil, invalid("claim")
	}
	return names, nil
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
