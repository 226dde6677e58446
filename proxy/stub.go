package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/toolgate/toolgate/egress"
)

// stub answers a tool's DNS queries without asking anybody, so that names are no way out: a query for an allowed name under a
// wildcard could carry data to whoever serves that domain. An allowed name gets one address of the documentation's range
// (RFC 5737), which is enough where every connection is redirected to a transparent listener: the name is resolved, and
// judged, when the connection names it. Any other name does not exist.
type stub struct {
	proxy    *Proxy
	listener string
}

const (
	stubTTL     = 30 // seconds
	stubTimeout = 2 * time.Second
	maxStubTCP  = 64 // connections at a time
)

// serve answers on the listener's port, over TCP and UDP, until the listener is closed.
func (s *stub) serve(ln net.Listener) error {
	packets, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", ln.Addr().String())
	if err != nil {
		return err
	}
	tcp := &dns.Server{Listener: ln, Handler: s, ReadTimeout: stubTimeout, WriteTimeout: stubTimeout, MaxTCPQueries: maxStubTCP}
	udp := &dns.Server{PacketConn: packets, Handler: s, UDPSize: dns.MinMsgSize}
	ended := make(chan error, 2)
	go func() { ended <- udp.ActivateAndServe() }()
	go func() { ended <- tcp.ActivateAndServe() }()
	err = <-ended
	_, _ = packets.Close(), ln.Close()
	<-ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ServeDNS answers one query.
func (s *stub) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	m.Rcode = s.answer(m, q)
	s.count(m.Rcode)
	_ = w.WriteMsg(m)
}

func (s *stub) count(rcode int) {
	m := s.proxy.metrics
	m.names.WithLabelValues(m.tool(s.proxy.gates.Load().listener(s.listener).Tool), dns.RcodeToString[rcode]).Inc()
}

// answer fills in the reply and returns its code. Types other than A exist and are empty: no HTTPS record, with which a client
// would encrypt the name that it asks for.
func (s *stub) answer(m, q *dns.Msg) int {
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 {
		return dns.RcodeNotImplemented
	}
	if s.proxy.fence.InForce() != nil { // nobody vouches that it is this tool that asks
		return dns.RcodeServerFailure
	}
	question := q.Question[0]
	if question.Qclass != dns.ClassINET || !s.allowed(question.Name) {
		s.proxy.log.LogAttrs(context.Background(), slog.LevelDebug, "name not answered", slog.String("listener", s.listener))
		return dns.RcodeNameError
	}
	if question.Qtype == dns.TypeA {
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: stubTTL},
			A:   egress.Placeholder.AsSlice(),
		}}
	}
	return dns.RcodeSuccess
}

// allowed reports whether the tool may reach the name at any port.
func (s *stub) allowed(name string) bool {
	g := s.proxy.gates.Load()
	tool := g.snapshot.Tools[g.listener(s.listener).Tool]
	host, err := egress.ParseHost(name)
	return err == nil && tool != nil && !egress.IsAddress(host) && tool.Policy.Names(host)
}
