package proxy

import (
	"errors"
	"time"

	"github.com/toolgate/toolgate/egress"
)

var (
	errNoSNI = errors.New("the ClientHello names no host")
	errECH   = errors.New("the ClientHello carries an encrypted name")
)

// misnamed reports whether a relayed tunnel was ended because its TLS says, or hides, another name than its CONNECT.
func misnamed(cause error) bool {
	return errors.Is(cause, errSNI) || errors.Is(cause, errNoSNI) || errors.Is(cause, errECH) || errors.Is(cause, errHelloMalformed) ||
		errors.Is(cause, errHelloLarge) || errors.Is(cause, errHelloSlow)
}

var errHelloSlow = errors.New("the ClientHello did not come to its end in time")

// sniGuard holds the client's first bytes of a relayed tunnel back until they tell whose name they carry. TLS must name the
// host that was decided on, or a server with many names would serve any of them. What is not TLS is let through: its
// host is the one that was dialled.
type sniGuard struct {
	host     string
	named    bool // the host is a name, not an address
	allowECH bool
	limit    time.Duration // for a ClientHello that has begun
	held     []byte
}

func newSNIGuard(host string, allowECH bool, limit time.Duration) sniGuard {
	return sniGuard{host: host, named: !egress.IsAddress(host), allowECH: allowECH, limit: limit}
}

// feed takes the next bytes and returns what may go on: nothing while the message is not complete, then all of it. done says
// that nothing more need be fed.
func (g *sniGuard) feed(b []byte) (pass []byte, done bool, err error) {
	if len(g.held) > 0 {
		g.held = append(g.held, b...)
		b = g.held
	}
	if b[0] != recordHandshake {
		return b, true, nil
	}
	h, err := parseHello(b)
	if errors.Is(err, errHelloShort) {
		if len(g.held) == 0 {
			g.held = append(g.held, b...)
		}
		return nil, false, nil
	}
	if err == nil {
		err = g.judge(h)
	}
	if err != nil {
		return nil, true, err
	}
	return b, true, nil
}

func (g *sniGuard) judge(h hello) error {
	switch {
	case h.ech && !g.allowECH:
		return errECH
	case h.serverName == "" && g.named:
		return errNoSNI
	case h.serverName == "":
		return nil
	}
	if host, err := egress.ParseHost(h.serverName); err != nil || host != g.host {
		return errSNI
	}
	return nil
}
