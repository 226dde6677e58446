package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Ref describes a credential without its value: what a record may say of it.
type Ref struct {
	Binding, Kind, Audience string
	Scopes                  []string  // sorted; shared, not to be changed
	Expires                 time.Time // zero: unknown
	Cached                  bool
}

// Credential can be put on a request. It is immutable.
type Credential struct {
	ref    Ref
	put    placing
	value  redact.Secret   // what an upstream would echo, and an issuer revoke
	echoes []redact.Secret // what else of it an upstream must not hand to the tool
	lease  *lease          // nil: it ends at ref.Expires
	keep   int64           // in ns, until when it may be cached, where ref.Expires does not tell; 0: it does
	hint   *string         // where on a request it goes, for the error of one on which it cannot be put
	within int64           // end of what else it was had for, such as an actor token, in Unix seconds; 0: unknown
	seen   *echoSet        // finds value and echoes; nil: not made yet
	at     *entry          // its place in the cache, taken or not; nil for a kind that is not cached
	x5t    string          // thumbprint of the certificate that the issuer bound it to; empty: none

	cert *ClientCertificate // of the connection; nil: none
}

// newCredential makes one that is a header's value.
func newCredential(ref Ref, header, prefix, value string) *Credential {
	line := prefix + value
	c := &Credential{
		ref:   ref,
		put:   &inHeader{textproto.CanonicalMIMEHeaderKey(header), redact.New(line)},
		value: redact.New(line[len(prefix):]), // the same bytes: there may be many
	}
	return c.watched()
}

// placed returns a copy that knows its place in the cache.
func (c *Credential) placed(at *entry, cached bool) *Credential {
	d := *c
	d.at, d.ref.Cached = at, cached
	return &d
}

// Same reports whether an upstream would see the same value.
func (c *Credential) Same(o *Credential) bool { return c.value.Equal(o.value) }

// After returns c for a request that was sent with old before: neither may be handed to the tool.
func (c *Credential) After(old *Credential) *Credential {
	d := *c
	d.echoes, d.seen = slices.Concat(c.echoes, []redact.Secret{old.value}, old.echoes), new(echoSet)
	return &d
}

// cacheable returns until when it may be cached as far as its issuer knows; zero: not at all.
func (c *Credential) cacheable() time.Time {
	if c.keep != 0 {
		return time.Unix(0, c.keep)
	}
	return c.ref.Expires
}

// alive reports whether its lease, if it has one, is in force.
func (c *Credential) alive(now time.Time) bool { return c.lease == nil || c.lease.alive(now) }

// ended reports whether it is of no use to anybody any more.
func (c *Credential) ended(now time.Time) bool {
	if c.lease != nil {
		return !c.lease.alive(now)
	}
	return over(c.ref.Expires, now)
}

// Ref returns the description.
func (c *Credential) Ref() Ref { return c.ref }

// Format writes the description for every verb and flag.
func (c *Credential) Format(f fmt.State, _ rune) {
	if c == nil {
		_, _ = fmt.Fprint(f, "<nil>")
		return
	}
	_, _ = fmt.Fprintf(f, "credential of binding %q (%s)", c.ref.Binding, c.ref.Kind)
}

// LogValue returns the description.
func (c *Credential) LogValue() slog.Value {
	if c == nil {
		return slog.Value{}
	}
	return slog.GroupValue(slog.String("binding", c.ref.Binding), slog.String("kind", c.ref.Kind))
}

// checkHeaderName refuses names that frame a message, end at the next hop (RFC 9110, section 7.6.1) or belong to this
// proxy: a credential there would be lost, or would change what is sent.
func checkHeaderName(name string) error {
	if name == "" {
		return errors.New("an empty header name")
	}
	for _, c := range []byte(name) {
		if !isTokenChar(c) {
			return fmt.Errorf("header %q is not a header name", name)
		}
	}
	folded := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch folded {
	case "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "content-type", "content-encoding":
		return fmt.Errorf("header %q cannot carry a credential", name)
	}
	if strings.HasPrefix(folded, "proxy-") || strings.HasPrefix(folded, "toolgate-") {
		return fmt.Errorf("header %q cannot carry a credential", name)
	}
	return nil
}

// isTokenChar is tchar of RFC 9110, section 5.6.2.
func isTokenChar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// maxValue bounds what goes into a header; most servers refuse far less.
const maxValue = 32 << 10

// isToken reports whether s can be sent as a bearer token: visible ASCII, no space. Wider than token68 (RFC 9110, section
// 11.2), since issuers use other signs too, but nothing that could end a header.
func isToken(s string) bool {
	if s == "" || len(s) > maxValue {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
