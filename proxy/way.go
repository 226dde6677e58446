package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/redact"
)

// The header fields by which a sidecar and a gateway speak to each other, beside Proxy-Authorization and Toolgate-Denial.
const (
	workloadHeader = "Toolgate-Workload" // a token of the sidecar's own
	decisionHeader = "Toolgate-Decision" // the id of the record on the side that speaks
)

// way is the way out through an egress gateway. The gateway decides for a caller, so a connection that it made serves the requests of
// that caller alone: each has pools of its own.
type way struct {
	dialer egress.GatewayDialer
	pair   *keyPair            // of the workload; nil: a token
	token  *identity.TokenFile // of the workload; nil: a certificate
	roots  *x509.CertPool      // of upstreams
	limits config.Limits
	verify tls.Config // but for the workload's certificate; not changed after newWay

	mu      sync.Mutex
	conf    *tls.Config // with the certificate that shown is
	shown   *tls.Certificate
	callers map[callerKey]*callerWay
	tidied  int64 // as clock tells it
	retired bool
}

// callerKey tells callers apart by their tokens, of which it keeps a hash.
type callerKey struct {
	tool  string
	token [sha256.Size]byte
}

type callerWay struct {
	*upstream
	used int64 // as clock tells it
}

// maxCallers bounds the callers whose pools are kept; without them a call costs a tunnel of its own.
const maxCallers = 1024

func newWay(g *config.GatewayWay, direct *egress.Dialer, roots *x509.CertPool, limits config.Limits) (*way, error) {
	w := &way{roots: roots, limits: limits, callers: map[callerKey]*callerWay{}}
	w.dialer = egress.GatewayDialer{Dialer: direct, Host: g.Host, Port: g.Port, TLS: w.tls}
	w.verify = tls.Config{RootCAs: g.Roots, ServerName: g.ServerName, MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true}
	if g.CertFile == "" {
		w.token = &identity.TokenFile{Path: g.TokenFile}
		return w, nil
	}
	w.pair = &keyPair{certFile: g.CertFile, keyFile: g.KeyFile}
	if _, err := w.pair.get(); err != nil {
		return nil, fmt.Errorf("egress.gateway: %w", err)
	}
	return w, nil
}

// place is host:port of the gateway.
func (w *way) place() string {
	return egress.Target{Host: w.dialer.Host, Port: w.dialer.Port}.HostPort()
}

// tls is what the gateway is verified by and shown. A new certificate begins new sessions: one that is resumed shows the old one.
func (w *way) tls() (*tls.Config, error) {
	var shown *tls.Certificate
	if w.pair != nil {
		var err error
		if shown, err = w.pair.get(); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conf == nil || w.shown != shown {
		w.conf, w.shown = w.verify.Clone(), shown
		w.conf.ClientSessionCache = new(sessions)
		if shown != nil {
			w.conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
		}
	}
	return w.conf, nil
}

// sessions keeps TLS sessions with the gateway, each for one resumption (RFC 8446, appendix C.4). The cache of crypto/tls keeps one
// for a server, so that of tunnels that are opened at once all but one would begin anew.
type sessions struct {
	mu   sync.Mutex
	kept []*tls.ClientSessionState // the newest is the last
}

const maxSessions = 64

// Get takes the newest session.
func (s *sessions) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.kept)
	if n == 0 {
		return nil, false
	}
	newest := s.kept[n-1]
	s.kept = slices.Delete(s.kept, n-1, n)
	return newest, true
}

// Put keeps a session; nil, which says that the one taken is of no use, keeps nothing.
func (s *sessions) Put(_ string, session *tls.ClientSessionState) {
	if session == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == maxSessions {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, session)
}

// upstream returns the pools of one caller of a tool.
func (w *way) upstream(tool string, token redact.Secret) *upstream {
	key := callerKey{tool: tool, token: sha256.Sum256([]byte(token.Reveal()))}
	now := clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := w.callers[key]; u != nil {
		u.used = now
		return u.upstream
	}
	w.tidy(now)
	u := newUpstream(tool, &wayDialer{w, token}, w.roots, w.limits)
	if w.retired { // the call goes on under gates that were replaced; nothing is kept for another
		u.retire()
		return u
	}
	w.callers[key] = &callerWay{u, now}
	return u
}

// tidy drops the pools of callers who have not been heard of for as long as a connection may idle.
func (w *way) tidy(now int64) {
	full := len(w.callers) >= maxCallers
	if !full && now-w.tidied < int64(idleTime/3) {
		return
	}
	w.tidied = now
	w.drop(func(u *callerWay) bool { return full || now-u.used > int64(idleTime) })
}

// drop closes the pools for which which is true, on a goroutine of its own: closing a connection may take a moment.
func (w *way) drop(which func(*callerWay) bool) {
	var old []*callerWay
	for key, u := range w.callers {
		if which(u) {
			old = append(old, u)
			delete(w.callers, key)
		}
	}
	if len(old) > 0 {
		go func() {
			for _, u := range old {
				u.retire()
			}
		}()
	}
}

// each calls f with the pools of each caller, without holding the lock. A nil way has none.
func (w *way) each(f func(tool string, u *upstream)) {
	if w == nil {
		return
	}
	w.mu.Lock()
	all := maps.Clone(w.callers)
	w.mu.Unlock()
	for key, u := range all {
		f(key.tool, u.upstream)
	}
}

// retire closes what idles. A nil way has nothing.
func (w *way) retire() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = true
	w.drop(func(*callerWay) bool { return true })
}

// wayDialer connects for one caller.
type wayDialer struct {
	way   *way
	token redact.Secret
}

// Dial has the gateway connect.
func (d *wayDialer) Dial(ctx context.Context, tool, host string, port uint16, at *egress.Attempts) (duplex, error) {
	conn, err := d.way.dialer.Dial(ctx, tool, host, port, at, func(b []byte) ([]byte, error) { return d.ask(b, tool, at) })
	if err != nil {
		return nil, err // not conn: a nil *egress.GatewayConn is no nil duplex
	}
	return conn, nil
}

// Check judges as Dial does, and contacts nobody.
func (d *wayDialer) Check(ctx context.Context, tool, host string, port uint16) error {
	return d.way.dialer.Check(ctx, tool, host, port)
}

// ask appends who calls, by whom, and why.
func (d *wayDialer) ask(b []byte, tool string, at *egress.Attempts) ([]byte, error) {
	b = append(b, "\r\nProxy-Authorization: Basic "...)
	b = base64.StdEncoding.AppendEncode(b, []byte(tool+":"+d.token.Reveal()))
	if d.way.token != nil {
		token, err := d.way.token.Token()
		if err != nil {
			return nil, err
		}
		if !isPlainValue([]byte(token)) {
			return nil, errWorkloadToken
		}
		b = append(append(b, "\r\n"+workloadHeader+": "...), token...)
	}
	if at == nil {
		return b, nil
	}
	if egress.IsDecisionID(at.ID) {
		b = append(append(b, "\r\n"+decisionHeader+": "...), at.ID...)
	}
	if _, _, ok := audit.ParseTraceparent(at.Traceparent); ok && isPlainValue([]byte(at.Traceparent)) {
		b = append(append(b, "\r\nTraceparent: "...), at.Traceparent...)
	}
	return b, nil
}

// dialer returns what connects for the call.
func (c *call) dialer() dialer {
	if w := c.gates.way; w != nil {
		return &wayDialer{w, c.token}
	}
	return c.gates.upstreams[c.tool.Name].dialer
}

// upstream returns the pools for the call, by its credential; nil: none.
func (c *call) upstream(cred *broker.Credential) *upstream {
	u := c.pools()
	if cred == nil || cred.Certificate() == nil {
		return u
	}
	return u.certified.pool(cred.Ref().Binding, cred.Certificate())
}

func (c *call) pools() *upstream {
	if w := c.gates.way; w != nil {
		return w.upstream(c.tool.Name, c.token)
	}
	return c.gates.upstreams[c.tool.Name]
}

// passed notes the gateway's decision by which a connection was made, if one was asked.
func (c *call) passed(conn net.Conn) {
	for c.gates.way != nil && conn != nil {
		if g, ok := conn.(*egress.GatewayConn); ok {
			c.rec.GatewayDecisionID = g.ID
			return
		}
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = inner.NetConn()
	}
}

// sameGateway reports whether what one asked for may stay under the other.
func sameGateway(a, b config.GatewayWay) bool {
	return a.Host == b.Host && a.Port == b.Port && a.ServerName == b.ServerName
}

// gatewayFailure is failure for a connection that the egress gateway did not give. What it denies is denied here in its words; the rest is
// between it and the sidecar.
func (c *call) gatewayFailure(err *egress.ProxyError) *Denial {
	c.rec.GatewayDecisionID, c.rec.ErrorClass = err.ID, "gateway"
	code := Code(err.Code)
	m, known := meanings[code]
	switch {
	case code == BadTarget, code == BadRequest, code == HeaderTooLarge: // it does not understand the sidecar; the tool is not to blame
	case known:
		d := deny(code, "The egress gateway: "+m.title+".", err)
		d.RetryAfter = min(err.RetryAfter, time.Minute)
		return d
	case isTimeout(err.Err):
		return deny(UpstreamTimeout, "The egress gateway did not connect to the host in time.", err)
	case err.Reason == egress.ProxyCredentials:
		c.rec.ErrorClass = "gateway_workload"
		return deny(UpstreamUnreachable, "The sidecar has nothing to show to the egress gateway.", err)
	case err.Reason == egress.ProxyTLS:
		c.rec.ErrorClass = "gateway_tls"
		return deny(UpstreamUnreachable, "The TLS handshake with the egress gateway failed.", err)
	}
	return deny(UpstreamUnreachable, "The egress gateway did not connect to the host.", err)
}
