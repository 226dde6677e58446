//go:build linux

package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"
	"github.com/stripe/smokescreen/pkg/smokescreen"
	acl "github.com/stripe/smokescreen/pkg/smokescreen/acl/v1"
)

// peer is one way from the load generator to the upstream.
type peer struct {
	name  string
	about string // for the report
	start func(ctx context.Context, l *lab) (*proxy, error)
}

func (p *peer) id() string { return p.name }

// proxy is a running peer.
type proxy struct {
	child   *child
	addr    string // "127.0.0.1:port"; empty: no proxy
	auth    string // value of Proxy-Authorization; empty: none
	metrics string // URL of its Go metrics
}

// peerHello is the first line of a peer that this program hosts.
type peerHello struct{ Addr, Metrics string }

const direct = "direct"

var allPeers = []*peer{
	{direct, "no proxy: the physical limit of this machine and load generator", func(context.Context, *lab) (*proxy, error) { return &proxy{}, nil }},
	{"goproxy", "elazarl/goproxy as it comes, `OkConnect` for every tunnel: no policy, no record", hosted("goproxy")},
	{"smokescreen", "stripe/smokescreen with an open default ACL rule; it formats its records as JSON and drops them", hosted("smokescreen")},
	{"smokescreen-nolog", "the same with its log level at error", hosted("smokescreen-nolog")},
	{"toolgate", "this tree's sidecar, enforcing a manifest; it formats and chains its records and drops them; callers are optional", startToolgate},
	{"toolgate+identity", "the same; each CONNECT carries a bearer token (ES256) that must verify", startToolgateIdentity},
}

// hosted starts a peer that is a library, in a process of this program.
func hosted(role string) func(context.Context, *lab) (*proxy, error) {
	return func(ctx context.Context, l *lab) (*proxy, error) {
		var hello peerHello
		c, err := spawnSelf(ctx, l.opt.uid, l.self, role, &hello)
		if err != nil {
			return nil, err
		}
		return &proxy{child: c, addr: hello.Addr, metrics: hello.Metrics}, nil
	}
}

func goproxyMain() error {
	p := goproxy.NewProxyHttpServer()
	p.Logger = log.New(io.Discard, "", 0)
	p.OnRequest().HandleConnectFunc(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		return goproxy.OkConnect, host
	})
	ln, err := openPeer()
	if err != nil {
		return err
	}
	return http.Serve(ln, p)
}

func smokescreenMain() error { return smokescreenServe(true) }

// smokescreenServe runs smokescreen with an ACL that lets everybody through, so that it takes its decision as in use.
// It refuses loopback targets however it is configured, save for an allowed range.
func smokescreenServe(logging bool) error {
	conf := smokescreen.NewConfig()
	conf.Log.Out = io.Discard
	conf.Log.Formatter = &logrus.JSONFormatter{}
	if !logging {
		conf.Log.Level = logrus.ErrorLevel
	}
	log.SetOutput(io.Discard)
	conf.AllowMissingRole = true
	conf.UnsafeAllowPrivateRanges = true
	if err := conf.SetAllowRanges([]string{"127.0.0.1/32"}); err != nil {
		return err
	}
	conf.EgressACL = &acl.ACL{Rules: map[string]acl.Rule{}, DefaultRule: &acl.Rule{Project: "bench", Policy: acl.Open}, Logger: conf.Log}
	ln, err := openPeer()
	if err != nil {
		return err
	}
	conf.Listener = ln
	conf.Ip, conf.Port = "127.0.0.1", uint16(ln.Addr().(*net.TCPAddr).Port)
	smokescreen.StartWithConfig(conf, nil)
	return nil
}

// openPeer opens a peer's port and its metrics page and announces both.
func openPeer() (net.Listener, error) {
	addr, ln, err := listen()
	if err != nil {
		return nil, err
	}
	metrics, err := serveGoStats()
	if err != nil {
		return nil, err
	}
	return ln, sayHello(peerHello{Addr: addr, Metrics: metrics})
}
