//go:build linux

package main

import (
	"context"
	"os/exec"
	"slices"
	"strings"
)

// peer is one way from the load generator to the upstream.
type peer struct {
	name    string
	about   string // for the report
	rows    string // in which it takes part, separated by spaces
	program string // of Debian; empty: a part of this module
	extra   bool   // measured only when asked for: it answers a single question
	start   func(ctx context.Context, l *lab, uid int) (*proxy, error)
}

func (p *peer) id() string { return p.name }

// proxy is a running peer.
type proxy struct {
	child   *child
	addr    string         // "127.0.0.1:port"; empty: no CONNECT
	fixed   *upstreamHello // ports of its own that lead to the upstream's; nil: it is reached by its own address
	auth    string         // value of Proxy-Authorization; empty: none
	metrics string         // URL of its Go metrics; empty: it is no Go program
}

const (
	direct  = "direct"
	relayed = "keepalive connect bulk bulk-idle idle "
	opaque  = relayed + "keepalive-tls latency "
	seen    = "intercept-h1 intercept-h2 "
	called  = "call-h1 call-h2 "
)

var allPeers = []*peer{
	{name: direct, about: "no proxy: the physical limit of this machine and load generator", rows: "keepalive keepalive-tls connect bulk latency " + seen,
		start: func(context.Context, *lab, int) (*proxy, error) { return &proxy{}, nil }},
	{name: "splice", about: "a TCP relay of 40 lines in this module: accept, dial the one target, `io.Copy` both ways, which Linux splices. No CONNECT, no policy, no record",
		rows: relayed + "latency", start: startRelay("splice")},
	{name: "haproxy", about: "HAProxy as a TCP relay with `option splice-auto`. No CONNECT, no policy, no record", rows: relayed, program: "haproxy", start: startHAProxy},
	{name: "goproxy", about: "elazarl/goproxy as it comes, `OkConnect` for every tunnel: no policy, no record", rows: opaque, start: hosted("goproxy")},
	{name: "smokescreen", about: "stripe/smokescreen with an open default ACL rule; it formats its records as JSON and drops them", rows: opaque + "crowd", start: hosted("smokescreen")},
	{name: "smokescreen-nolog", about: "the same with its log level at error", rows: opaque + "crowd", start: hosted("smokescreen-nolog"), extra: true},
	{name: "squid", about: "Squid with an allowlist (`dstdomain`), no cache; it formats its records and writes them to /dev/null", rows: relayed, program: "squid", start: startSquid},
	{name: "tinyproxy", about: "tinyproxy with an allowlist (`Filter`, default deny); it writes its log to /dev/null", rows: relayed, program: "tinyproxy", start: startTinyproxy},
	{name: "toolgate", about: "this tree's sidecar, enforcing a manifest; it formats and chains its records and drops them; callers are optional",
		rows: opaque + "crowd decision verify binary", start: startToolgate(sidecarKind{})},
	{name: "toolgate+identity", about: "the same; each CONNECT carries a bearer token (ES256) that must verify", rows: opaque + "crowd", start: startToolgate(sidecarKind{identity: true})},
	{name: "gateway-sidecar", about: "as toolgate, with an egress gateway behind it in a process of its own; the sidecar is measured", rows: relayed + "latency",
		extra: true, start: startGateway(false)},
	{name: "gateway", about: "the same; the gateway is measured", rows: relayed + "latency", extra: true, start: startGateway(true)},
	{name: "floor", about: "TLS terminated and encrypted anew by crypto/tls with `io.Copy` between, in this module. No CONNECT, no HTTP, no policy, no record", rows: "intercept-h1", start: startRelay("floor")},
	{name: "nginx", about: "nginx as `proxy_pass https://` with kept connections, verifying the upstream: what an operator may use in place of interception. No CONNECT; HTTP/1.1 to the upstream; its access log goes to /dev/null",
		rows: seen, program: "nginx", start: startNginx},
	{name: "goproxy-mitm", about: "elazarl/goproxy's own interception with `AllowHTTP2`, a P-256 CA, leaves kept, the upstream verified, and 64 idle connections to it kept; HTTP/1.1 to the upstream. No policy, no record",
		rows: seen, start: hostedWithCA("goproxy-mitm")},
	{name: "goproxy-mitm-2", about: "the same with the two idle connections that its transport keeps as it comes, so that most requests dial", rows: "intercept-h2", start: hostedWithCA("goproxy-mitm-2")},
	{name: "toolgate-intercept", about: "as toolgate, with the target intercepted", rows: seen + called + "leaf", start: startToolgate(sidecarKind{intercept: true})},
	{name: payloadLogging, about: "as toolgate-intercept, with `log.payloads`: headers and body of each request and response are redacted and written to a pipe", rows: called,
		extra: true, start: startToolgate(sidecarKind{intercept: true, payloads: true})},
	{name: "toolgate-intercept+identity", about: "the same; each CONNECT carries a token, which is verified for each request in it", rows: seen, start: startToolgate(sidecarKind{intercept: true, identity: true})},
	{name: brokering, about: "as toolgate-intercept+identity, with a binding: each request carries a credential by token exchange, from the cache but for the first", rows: seen + "broker",
		extra: true, start: startToolgate(sidecarKind{intercept: true, identity: true, broker: true})},
}

// in reports whether p takes part in a row.
func (p *peer) in(row *row) bool { return slices.Contains(strings.Fields(p.rows), row.name) }

// in returns the chosen peers that take part in a row.
func (o *options) in(row *row) []*peer {
	return slices.DeleteFunc(slices.Clone(o.peers), func(p *peer) bool { return !p.in(row) })
}

// find returns the path of a peer's program, or "". Debian puts daemons where an ordinary PATH does not look.
func (p *peer) find() string {
	for _, name := range []string{p.program, "/usr/sbin/" + p.program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// hosted starts a peer that is a library, in a process of this program.
func hosted(role string, args ...string) func(context.Context, *lab, int) (*proxy, error) {
	return func(ctx context.Context, l *lab, uid int) (*proxy, error) {
		var hello peerHello
		c, err := spawnSelf(ctx, uid, l.self, role, &hello, args...)
		if err != nil {
			return nil, err
		}
		return &proxy{child: c, addr: hello.Addr, metrics: hello.Metrics}, nil
	}
}

// hostedWithCA is hosted for a peer that verifies the upstream.
func hostedWithCA(role string) func(context.Context, *lab, int) (*proxy, error) {
	return func(ctx context.Context, l *lab, uid int) (*proxy, error) { return hosted(role, l.caFile)(ctx, l, uid) }
}

// startRelay starts a relay of this program, which has its own ports for the upstream's.
func startRelay(role string) func(context.Context, *lab, int) (*proxy, error) {
	return func(ctx context.Context, l *lab, uid int) (*proxy, error) {
		var hello relayHello
		c, err := spawnSelf(ctx, uid, l.self, role, &hello, l.upstream.Plain, l.upstream.TLS, l.caFile)
		if err != nil {
			return nil, err
		}
		return &proxy{child: c, fixed: &upstreamHello{Plain: hello.Plain, TLS: hello.TLS}, metrics: hello.Metrics}, nil
	}
}
