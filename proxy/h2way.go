package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

const (
	// learnedTime is for how long an upstream is taken to lack a protocol that it lacked once.
	learnedTime = 10 * time.Minute
	// maxLearned bounds the upstreams of one tool about which that is known.
	maxLearned = 1024
)

// lacks is what an upstream does not speak over TLS, as its choice of protocol told (ALPN, RFC 7301).
type lacks uint8

const (
	lacksNothing lacks = iota // as far as is known
	lacksH2
	lacksH1
)

// h2Way carries the requests of h2 clients. Most of them lose nothing in HTTP/1.1, whose connections cost much less than
// streams, among whose goroutines each request changes hands; what needs HTTP/2 has it, where the upstream speaks it.
type h2Way struct {
	streams *http.Transport // speaks h2 only
	h1      *h1Pool

	mu      sync.Mutex
	learned map[origin]learned
}

type learned struct {
	lacks lacks
	until int64 // as clock tells it
}

func newH2Way(pool *h1Pool, dial func(context.Context, string, string) (net.Conn, error), roots *x509.CertPool, limits config.Limits) *h2Way {
	w := &h2Way{h1: pool, learned: map[origin]learned{}}
	w.streams = newTransport(dial, roots, limits)
	w.streams.DialTLSContext = w.dial
	w.streams.Protocols.SetHTTP2(true)
	return w
}

// needsH2 reports whether HTTP/1.1 would not do: gRPC, and whoever may read trailers, sends them, or sends a body whose end is
// not known, which may go on while the answer comes. HTTP/1.1 has forms for most of that, of which many servers know nothing.
func needsH2(r *http.Request) bool {
	return r.ContentLength < 0 || len(r.Trailer) > 0 || r.Header["Te"] != nil || isGRPC(r)
}

func (w *h2Way) roundTrip(ctx context.Context, c *call, to *client, out *http.Request, cred *broker.Credential) (*http.Response, error) {
	o := originOf(c, out)
	known := w.knows(o)
	if known == lacksH2 || known == lacksNothing && !needsH2(to.r) {
		res, err := w.h1.roundTrip(ctx, c, to, out, cred, known == lacksNothing)
		if !refusesH1(err) {
			return res, err
		}
		w.learn(o, lacksH1) // nothing of the request was sent
	}
	_, agent := out.Header["User-Agent"]
	keepAgent(out)
	s := &stream{origin: o, attempts: &c.attempts, body: &to.body}
	if out.Body != nil {
		out.Body = s
	}
	res, err := w.streams.RoundTrip(out.WithContext(context.WithValue(c.withTrace(ctx, to, cred), streamKey{}, s)))
	if !s.refused.Load() {
		return res, err
	}
	if out.Body != nil {
		out.Body = &to.body
	}
	if !agent {
		delete(out.Header, "User-Agent") // what keeps the transport quiet would be sent as it stands
	}
	return w.h1.roundTrip(ctx, c, to, out, cred, false)
}

type streamKey struct{}

// stream is a request that asks for a stream of HTTP/2. It is the request's body as the transport sees it.
type stream struct {
	origin   origin
	attempts *egress.Attempts
	body     *requestBody
	refused  atomic.Bool // the upstream lacks HTTP/2
}

// Read is the body's.
func (s *stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// Close is the body's, unless the request is about to be sent in another way.
func (s *stream) Close() error {
	if s.refused.Load() {
		return nil
	}
	return s.body.Close()
}

var errNoH2 = errors.New("the upstream does not speak HTTP/2")

// dial connects for a stream. The upstream chooses the protocol; if that is HTTP/1.1, the connection is for requests of that.
func (w *h2Way) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s, ok := ctx.Value(streamKey{}).(*stream)
	if !ok {
		return nil, errNoH2
	}
	tcp, conn, err := w.h1.connect(ctx, s.origin, s.attempts, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	if t, ok := conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		return conn, nil
	}
	s.refused.Store(true)
	w.learn(s.origin, lacksH2)
	w.h1.put(newH1Conn(s.origin, tcp, conn, w.h1.header))
	return nil, errNoH2
}

// refusesH1 reports whether a handshake failed because the server speaks nothing that was offered (RFC 7301, section 3.2), or went
// on without its choice: crypto/tls, as a server of h2 alone, does that.
func refusesH1(err error) bool {
	var op *net.OpError
	return err == errUnchosen || err != nil && errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == noApplicationProtocol
}

// noApplicationProtocol is alert 120 in the words of crypto/tls, which exports the type of an alert but for QUIC.
var noApplicationProtocol = tls.AlertError(120).Error()

func (w *h2Way) knows(o origin) lacks {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.learned[o]
	if ok && l.until <= clock() {
		delete(w.learned, o)
		return lacksNothing
	}
	return l.lacks
}

func (w *h2Way) learn(o origin, what lacks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.learned) >= maxLearned {
		clear(w.learned)
	}
	w.learned[o] = learned{what, clock() + int64(learnedTime)}
}
