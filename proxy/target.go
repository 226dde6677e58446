package proxy

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/egress"
)

// ask is what a client asks for, before any gate has looked at it. It is read from the request once, so that what is
// decided on and what is sent cannot differ.
type ask struct {
	tunnel    bool   // a CONNECT, or a captured connection
	gateway   bool   // a CONNECT of a sidecar to a gateway
	captured  bool   // no CONNECT: nothing is to be said before the client's bytes are answered
	scheme    string // "http" or "https" of a request
	authority string // as the client wrote it
	method    string
	path      string         // escaped, without query
	within    *egress.Target // the tunnel that the request came through; of a captured one without TLS the port alone is known
	overrides []string       // methods that the upstream may take for method
	malformed error          // found while reading

	proxyAuthorization    []string
	proxyCredentials      *proxyCredentials // what it says, if that has been read
	toolgateAuthorization []string
	traceparent           string

	// Of a sidecar that comes to a gateway.
	peer      []*x509.Certificate // what it showed in the handshake, unverified
	workload  string              // its token
	decision  string              // the id of its call, as it says
	explained string              // in place of what it would show, where a decision is explained
}

var (
	errNotProxyRequest = errors.New("the request names no absolute URL; this port is a proxy")
	errScheme          = errors.New("only http and https targets are carried")
	errUserInfo        = errors.New("the URL carries user info")
	errOpaque          = errors.New("the URL has no authority")
	errNestedConnect   = errors.New("CONNECT inside a tunnel")
	errPath            = errors.New("the path neither begins with a slash nor is the * of OPTIONS")
	errSchemeInside    = errors.New("the request names another scheme than its tunnel")
)

// connectAsk reads a CONNECT. The target is taken from the request line itself: net/http also accepts, and rewrites,
// forms that are no authority (a path, a URL).
func connectAsk(r *http.Request) *ask {
	a := &ask{tunnel: true, authority: r.RequestURI, method: http.MethodConnect}
	a.headers(r)
	return a
}

// plainAsk reads an absolute-form request (RFC 9112, section 3.2.2). The URL is what counts; net/http has replaced the Host
// header with its authority.
func plainAsk(r *http.Request) *ask {
	a := &ask{scheme: r.URL.Scheme, authority: r.URL.Host, method: r.Method, path: r.URL.EscapedPath()}
	a.headers(r)
	switch {
	case !r.URL.IsAbs():
		a.malformed = errNotProxyRequest
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		a.malformed = errScheme
	case r.URL.User != nil:
		a.malformed = errUserInfo
	case r.URL.Opaque != "" || r.URL.Host == "":
		a.malformed = errOpaque
	case r.Method == http.MethodConnect:
		a.malformed = errNestedConnect
	}
	return a
}

// innerAsk reads a request that came through an intercepted tunnel.
func innerAsk(r *http.Request, t *tunnel, scheme string) *ask {
	a := &ask{scheme: scheme, authority: r.Host, method: r.Method, path: r.URL.EscapedPath(), within: &t.target}
	a.headers(r)
	a.proxyAuthorization, a.proxyCredentials = t.proxyAuthorization, t.proxyCredentials // never from inside: the tunnel's word counts
	switch {
	case r.Method == http.MethodConnect:
		a.malformed = errNestedConnect
	case r.URL.User != nil:
		a.malformed = errUserInfo
	case r.URL.Opaque != "" || r.URL.IsAbs() && r.URL.Host == "":
		a.malformed = errOpaque
	case r.URL.IsAbs() && r.URL.Scheme != scheme:
		a.malformed = errSchemeInside
	}
	return a
}

func (a *ask) headers(r *http.Request) {
	a.proxyAuthorization = r.Header["Proxy-Authorization"]
	a.toolgateAuthorization = r.Header["Toolgate-Authorization"]
	a.traceparent = r.Header.Get("Traceparent")
	if !a.tunnel {
		a.overrides = overridden(r.Header)
	}
}

// target is gate 1: one canonical host per request, agreed on by every place that names one.
func (a *ask) target() (egress.Target, *Denial) {
	if a.malformed != nil {
		return egress.Target{}, deny(BadTarget, "Malformed target: "+a.malformed.Error()+".", a.malformed)
	}
	host, port, err := egress.ParseAuthority(a.authority, a.defaultPort())
	if err != nil {
		return egress.Target{}, deny(BadTarget, "Malformed target: "+err.Error()+".", err)
	}
	t := egress.Target{Host: host, Port: port}
	if a.tunnel {
		return t, nil
	}
	t.Scheme, t.Method, t.Path = a.scheme, a.method, a.path
	switch {
	case t.Path == "":
		t.Path = "/"
	case t.Path == "*" && t.Method == http.MethodOptions: // the host as a whole (RFC 9112, section 3.2.4), which no path pattern covers
	case !strings.HasPrefix(t.Path, "/"):
		return t, deny(BadTarget, "Malformed target: "+errPath.Error()+".", errPath)
	}
	if a.within != nil && (a.within.Host != host && a.within.Host != "" || a.within.Port != port) {
		return t, deny(TargetMismatch, "The request's host is not the one that its tunnel was opened to.", nil)
	}
	return t, nil
}

// defaultPort is 0 for a CONNECT, whose target must name one.
func (a *ask) defaultPort() uint16 {
	if a.tunnel {
		return 0
	}
	return schemePort(a.scheme)
}

func schemePort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}
