package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of what waits to be heard, for each subscription. What does not fit is lost, and found missing by the next
// heartbeat.
const (
	maxPending      = 4096
	maxPendingBytes = 32 << 20
)

// pause is how long to wait after every server was tried: longer each time, and different for each sidecar, so that a fleet
// does not come back at once.
func pause(attempts int) time.Duration {
	most := min(10*time.Second, 250*time.Millisecond<<min(attempts, 6))
	return most/2 + rand.N(most/2)
}

func (s *Source) connect() (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("toolgate-sidecar " + s.instance),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(pause),
		nats.IgnoreAuthErrorAbort(), // rotated credentials must be found
		nats.ReconnectBufSize(-1),   // what was to be said while nobody listened is out of date
		nats.ConnectHandler(func(c *nats.Conn) { s.connected(c) }),
		nats.ReconnectHandler(func(c *nats.Conn) { s.connected(c) }),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if c.IsClosed() || s.renewing.Load() {
				return // by us
			}
			s.o.Log.Warn("kill switch bus lost; what is revoked stays so", "error", said(err))
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			s.o.Log.Debug("kill switch bus not reached", "error", said(err))
			if s.renewing.Swap(false) {
				s.o.Log.Warn("kill switch bus lost; what is revoked stays so", "error", said(err))
			}
			if s.issued != nil && unauthorized(err) {
				s.issued.refused()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				s.o.Log.Warn("kill switch messages dropped; what is missing will be fetched")
				return
			}
			s.o.Log.Error("kill switch bus", "error", said(err))
		}),
	}
	switch {
	case s.issued != nil:
		options = append(options, s.issued.option())
	case s.o.CredentialsFile != "":
		options = append(options, nats.UserCredentials(s.o.CredentialsFile))
	}
	if s.o.CAFile != "" || s.o.CA != "" {
		options = append(options, roots(s.o.pool))
	}
	conn, err := nats.Connect(strings.Join(s.o.Servers, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("kill switch: NATS: %w", err)
	}
	return conn, nil
}

// roots is nats.RootCAs without its look at the file before the first connection: a file that is late is no reason not to
// start.
func roots(pool func() (*x509.CertPool, error)) nats.Option {
	return func(o *nats.Options) error {
		o.Secure = true
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		o.RootCAsCB = pool
		return nil
	}
}

// option is nats.UserJWT without its look at the JWT before the first connection: there is none yet.
func (i *issued) option() nats.Option {
	return func(o *nats.Options) error {
		o.UserJWT, o.SignatureCB, o.CustomDialer = i.current, i.key.Sign, &dialer{i}
		return nil
	}
}

// dialer dials nobody while there are no credentials: a server would hold the connection open for them.
type dialer struct{ issued *issued }

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if !d.issued.good() {
		return nil, errNoCredentials
	}
	return (&net.Dialer{Timeout: 5 * time.Second}).Dial(network, address)
}

// unauthorized reports whether a server has refused the credentials.
func unauthorized(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// renewed opens the connection again with new credentials, well before the server would close it for the old ones. What is said
// meanwhile is fetched, as after any loss.
func (s *Source) renewed() {
	s.o.Log.Info("kill switch credentials renewed", "user", s.issued.user())
	s.o.Observe(Event{Name: "credentials", Result: "ok"})
	s.renewing.Store(true)
	if err := s.conn.ForceReconnect(); err != nil {
		s.o.Log.Error("kill switch bus", "error", said(err))
	}
}

func (s *Source) notRenewed(failures int, err error) {
	s.o.Observe(Event{Name: "credentials", Result: "error"})
	if failures == 1 {
		s.o.Log.Warn("kill switch credentials not renewed; trying again", "error", said(err))
	}
}

// said is an error for the log; a server's text is other people's, and is cut short.
func said(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%.300s", err)
}

func (s *Source) connected(c *nats.Conn) {
	s.renewing.Store(false)
	s.o.Log.Info("kill switch bus connected", "server", c.ConnectedUrlRedacted())
	s.name()
	select {
	case s.up <- struct{}{}:
	default:
	}
	s.Changed()
}

// subscribe registers what is heard. Subscriptions outlive connections.
func (s *Source) subscribe(ctx context.Context) error {
	for subject, from := range map[string]origin{SubjectLive: live, SubjectHeartbeat: heartbeats, s.inbox + ".*": answers} {
		sub, err := s.conn.Subscribe(subject, func(m *nats.Msg) {
			select {
			case s.in <- received{from, m, time.Now()}:
			case <-ctx.Done():
			}
		})
		if err == nil {
			err = sub.SetPendingLimits(maxPending, maxPendingBytes)
		}
		if err != nil {
			return fmt.Errorf("kill switch: NATS: %w", err)
		}
	}
	_, err := s.conn.Subscribe(SubjectProbe, func(m *nats.Msg) {
		select {
		case s.probes <- m:
		default: // whoever asks this often gets no answer
		}
	})
	return err
}
