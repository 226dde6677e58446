package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// listen returns a listener on any port of a loopback address.
func listen(t *testing.T, ip string) (*net.TCPListener, uint16) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// listenBoth returns listeners on two loopback addresses that share a port.
func listenBoth(t *testing.T, ip, other string) (a, b *net.TCPListener, port uint16) {
	t.Helper()
	for range 20 { // the port that is free on one address may be taken on the other
		a, port = listen(t, ip)
		at := netip.AddrPortFrom(netip.MustParseAddr(other), port)
		if b, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)); err == nil {
			t.Cleanup(func() { _ = b.Close() })
			return a, b, port
		}
	}
	t.Fatalf("no port is free on both %s and %s", ip, other)
	return nil, nil, 0
}

// silent fails the test if anybody has connected to l: the queue's head must be a connection made here and now.
func silent(t *testing.T, l *net.TCPListener) {
	t.Helper()
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Errorf("%s was contacted by %s", l.Addr(), first.RemoteAddr())
	}
}

// dialerTo returns a dialer for tool "t" that asks s and may reach the given addresses on port.
func dialerTo(s *dnsServer, port uint16, exempted ...string) *Dialer {
	a := &Addresses{}
	for _, ip := range exempted {
		a.Exempt = append(a.Exempt, exempt(ip, []uint16{port}, "t"))
	}
	return &Dialer{Addresses: a, Resolver: NewResolver(s.addr), Timeout: 20 * time.Second}
}

func counts(at *Attempts) [3]int32 {
	return [3]int32{at.Resolved.Load(), at.Dialed.Load(), at.Refused.Load()}
}

func fixed(r dnsReply) func(string, dnsmessage.Type) dnsReply {
	return func(string, dnsmessage.Type) dnsReply { return r }
}

func TestDialConnects(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.2")))
	l, port := listen(t, "127.0.0.2")
	d := dialerTo(s, port, "127.0.0.2/32")
	var at Attempts
	conn, err := d.Dial(t.Context(), "t", "api.ok.test", port, &at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if conn.RemoteAddr().String() != l.Addr().String() || counts(&at) != [3]int32{1, 1, 0} {
		t.Errorf("connected to %s, counts %v", conn.RemoteAddr(), counts(&at))
	}
	seen := s.queries()
	slices.SortFunc(seen, func(a, b dnsQuery) int { return int(a.typ) - int(b.typ) })
	want := []dnsQuery{{"api.ok.test.", dnsmessage.TypeA, false}, {"api.ok.test.", dnsmessage.TypeAAAA, false}}
	if !slices.Equal(seen, want) {
		t.Errorf("queries %v", seen)
	}
	if other, err := d.Dial(t.Context(), "other", "api.ok.test", port, nil); err == nil {
		_ = other.Close()
		t.Error("the exemption of one tool serves another")
	}
}

// An answer may change between two look-ups, so there must not be a second one.
func TestDialRebinding(t *testing.T) {
	asked := 0
	s := startDNS(t, func(_ string, typ dnsmessage.Type) dnsReply {
		if typ != dnsmessage.TypeA {
			return dnsReply{}
		}
		asked++
		if asked%2 == 1 {
			return addrs("127.0.0.2")
		}
		return addrs("127.0.0.1")
	})
	_, canary, port := listenBoth(t, "127.0.0.2", "127.0.0.1")
	d := dialerTo(s, port, "127.0.0.2/32")
	for i := range 100 {
		var at Attempts
		conn, err := d.Dial(t.Context(), "t", "reb.wild.test", port, &at)
		if i%2 == 0 {
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		} else if _, ok := errors.AsType[*AddressError](err); !ok || at.Dialed.Load() != 0 {
			t.Fatalf("dial %d: %v, counts %v", i, err, counts(&at))
		}
		if n := len(s.queries()); n != 2 {
			t.Fatalf("dial %d asked %d times", i, n)
		}
	}
	silent(t, canary)
}

func TestDialDeniesTheWholeAnswer(t *testing.T) {
	live, canary, port := listenBoth(t, "127.0.0.2", "127.0.0.1")
	for name, tt := range map[string]struct {
		reply   dnsReply
		refused int32
		reason  string
	}{
		"private beside public":     {addrs("127.0.0.3", "10.0.0.5"), 1, "Private use"},
		"private first":             {addrs("10.0.0.5", "127.0.0.2"), 1, "Private use"},
		"loopback beside live":      {addrs("127.0.0.2", "127.0.0.1"), 1, "Loopback"},
		"both families":             {addrs("127.0.0.2", "::1", "fec0::1"), 2, ""},
		"mapped private":            {addrs("::ffff:10.0.0.1"), 1, "Private use"},
		"mapped loopback":           {addrs("::ffff:127.0.0.1"), 1, "Loopback"},
		"NAT64":                     {addrs("64:ff9b::a9fe:a9fe"), 1, "NAT64"},
		"6to4":                      {addrs("2002:a00:1::1"), 1, "6to4"},
		"Teredo":                    {addrs("2001:0:4136:e378:8000:63bf:3fff:fdd2"), 1, "Teredo"},
		"unspecified":               {addrs("0.0.0.0"), 1, "This network"},
		"alias to metadata":         {dnsReply{alias: "metadata.google.internal.", addrs: addrs("169.254.169.254").addrs}, 1, "Link local"},
		"unallocated, via an alias": {dnsReply{alias: "x.test.", addrs: addrs("4000::1").addrs}, 1, "Not global unicast"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startDNS(t, fixed(tt.reply))
			d := dialerTo(s, port, "127.0.0.2/32", "127.0.0.3/32")
			var at Attempts
			conn, err := d.Dial(t.Context(), "t", "mix.wild.test", port, &at)
			denied, ok := err.(*AddressError)
			if !ok || conn != nil || tt.reason != "" && denied.Reason != tt.reason {
				t.Fatalf("%v, %#v", conn, err)
			}
			if want := [3]int32{int32(len(tt.reply.addrs)), 0, tt.refused}; counts(&at) != want {
				t.Errorf("counts %v, want %v", counts(&at), want)
			}
		})
	}
	silent(t, live)
	silent(t, canary)
}

func TestDialNameErrors(t *testing.T) {
	loop := func(name string, _ dnsmessage.Type) dnsReply {
		return dnsReply{alias: "loop.wild.test."}
	}
	for name, answer := range map[string]func(string, dnsmessage.Type) dnsReply{
		"NXDOMAIN":   fixed(dnsReply{code: dnsmessage.RCodeNameError}),
		"SERVFAIL":   fixed(dnsReply{code: dnsmessage.RCodeServerFailure}),
		"REFUSED":    fixed(dnsReply{code: dnsmessage.RCodeRefused}),
		"no address": fixed(dnsReply{}),
		"alias loop": loop,
	} {
		t.Run(name, func(t *testing.T) {
			s := startDNS(t, answer)
			var at Attempts
			conn, err := dialerTo(s, 443).Dial(t.Context(), "t", "api.ok.test", 443, &at)
			if _, ok := errors.AsType[*net.DNSError](err); !ok || conn != nil {
				t.Errorf("%v, %#v", conn, err)
			}
			if counts(&at) != [3]int32{} {
				t.Errorf("counts %v", counts(&at))
			}
			for _, q := range s.queries() {
				if q.name != "api.ok.test." {
					t.Errorf("asked for %q", q.name) // a search domain, or an alias that was followed
				}
			}
		})
	}
}

// On a machine without search domains no query could show them, hence the spelling itself.
func TestNamesAreAbsolute(t *testing.T) {
	for in, want := range map[string]string{"api.ok.test": "api.ok.test.", "localhost": "localhost.", "a.": "a."} {
		if got := absolute(in); got != want {
			t.Errorf("absolute(%q) = %q", in, got)
		}
	}
	s := startDNS(t, fixed(dnsReply{code: dnsmessage.RCodeNameError}))
	_, _ = dialerTo(s, 443).Dial(t.Context(), "t", "api", 443, nil)
	if seen := s.queries(); len(seen) == 0 || slices.ContainsFunc(seen, func(q dnsQuery) bool { return q.name != "api." }) {
		t.Errorf("queries %v", seen)
	}
}

func TestDialTimeoutCoversTheLookup(t *testing.T) {
	s := startDNS(t, fixed(dnsReply{drop: true}))
	d := dialerTo(s, 443)
	d.Timeout = 100 * time.Millisecond
	began := time.Now()
	_, err := d.Dial(t.Context(), "t", "api.ok.test", 443, nil)
	dnsErr, ok := errors.AsType[*net.DNSError](err)
	if !ok || !dnsErr.IsTimeout {
		t.Errorf("%#v", err)
	}
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestDialCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startDNS(t, func(string, dnsmessage.Type) dnsReply {
		cancel()
		return dnsReply{drop: true}
	})
	if conn, err := dialerTo(s, 443).Dial(ctx, "t", "api.ok.test", 443, nil); err == nil {
		_ = conn.Close()
		t.Error("a cancelled dial connects")
	}
	conn, err := dialerTo(s, 443, "127.0.0.2/32").Dial(ctx, "t", "127.0.0.2", 443, nil)
	if _, ok := errors.AsType[*net.OpError](err); !ok || conn != nil {
		t.Errorf("%v, %#v", conn, err)
	}
}

func manyAddrs(n int) (dnsReply, []string) {
	var texts, prefixes []string
	for i := range n {
		ip := fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200)
		texts = append(texts, ip)
		prefixes = append(prefixes, ip+"/32")
	}
	return addrs(texts...), prefixes
}

func TestDialManyAddresses(t *testing.T) {
	reply, prefixes := manyAddrs(500)
	s := startDNS(t, fixed(reply))
	_, port := listen(t, "127.0.1.1")
	d := dialerTo(s, port, prefixes...)
	var at Attempts
	conn, err := d.Dial(t.Context(), "t", "many.wild.test", port, &at)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if at.Resolved.Load() != 500 || at.Dialed.Load() != 1 {
		t.Errorf("counts %v", counts(&at))
	}
	if !slices.ContainsFunc(s.queries(), func(q dnsQuery) bool { return q.tcp }) {
		t.Error("500 addresses came without TCP")
	}
}

func TestDialManyAddressesOnePrivate(t *testing.T) {
	reply, prefixes := manyAddrs(500)
	reply.addrs[437] = netip.MustParseAddr("10.0.0.5")
	s := startDNS(t, fixed(reply))
	canary, port := listen(t, "127.0.1.1")
	var at Attempts
	_, err := dialerTo(s, port, prefixes...).Dial(t.Context(), "t", "many.wild.test", port, &at)
	if _, ok := err.(*AddressError); !ok || counts(&at) != [3]int32{500, 0, 1} {
		t.Errorf("%v, counts %v", err, counts(&at))
	}
	silent(t, canary)
}

// A name with hundreds of dead addresses must not make the proxy a port scanner.
func TestDialGivesUpAfterAFewAddresses(t *testing.T) {
	reply, prefixes := manyAddrs(100)
	s := startDNS(t, fixed(reply))
	l, port := listen(t, "127.0.0.2") // holds the port, so that nobody listens elsewhere on it
	var at Attempts
	_, err := dialerTo(s, port, prefixes...).Dial(t.Context(), "t", "many.wild.test", port, &at)
	if _, ok := errors.AsType[*net.OpError](err); !ok || counts(&at) != [3]int32{100, maxAttempts, 0} {
		t.Errorf("%v, counts %v", err, counts(&at))
	}
	silent(t, l)
}

func TestDialFallsBack(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.3", "127.0.0.2")))
	live, port := listen(t, "127.0.0.2")
	var at Attempts
	conn, err := dialerTo(s, port, "127.0.0.2/32", "127.0.0.3/32").Dial(t.Context(), "t", "api.ok.test", port, &at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if conn.RemoteAddr().String() != live.Addr().String() || counts(&at) != [3]int32{2, 2, 0} {
		t.Errorf("connected to %s, counts %v", conn.RemoteAddr(), counts(&at))
	}
}

func TestDialLiterals(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.2")))
	_, port := listen(t, "127.0.0.2")
	d := dialerTo(s, port, "127.0.0.2/32")
	conn, err := d.Dial(t.Context(), "t", "127.0.0.2", port, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1%lo", "64:ff9b::7f00:1", "0.0.0.0", "::"} {
		var at Attempts
		_, err := d.Dial(t.Context(), "t", host, port, &at)
		if _, ok := err.(*AddressError); !ok || counts(&at) != [3]int32{1, 0, 1} {
			t.Errorf("%s: %v, counts %v", host, err, counts(&at))
		}
	}
	for _, host := range []string{"", "2130706433", "0x7f.1", "127.1", "0177.0.0.1"} {
		if _, err := d.Dial(t.Context(), "t", host, port, nil); err == nil {
			t.Errorf("%q is dialled", host)
		}
	}
	if seen := s.queries(); len(seen) > 0 {
		t.Errorf("queries %v", seen)
	}
}

func TestDialNeverReachesOwnListeners(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.2")))
	canary, port := listen(t, "127.0.0.2")
	d := dialerTo(s, port, "127.0.0.2/32")
	d.Addresses.Own = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port)}
	if _, err := d.Dial(t.Context(), "t", "admin.wild.test", port, nil); err == nil {
		t.Error("the sidecar's own port is reachable through an exemption")
	}
	silent(t, canary)
}

// The hook between socket and connect must deny on its own, whatever was judged before.
func TestConnectorJudgesWhereTheSocketConnects(t *testing.T) {
	canary, port := listen(t, "127.0.0.1")
	d := &Dialer{Addresses: &Addresses{}}
	var at Attempts
	conn, err := connector(d.judgeFor("t"), &at)(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	if _, ok := errors.AsType[*AddressError](err); !ok || conn != nil {
		t.Fatalf("%v, %v", conn, err)
	}
	if counts(&at) != [3]int32{0, 0, 1} {
		t.Errorf("counts %v", counts(&at))
	}
	silent(t, canary)
}

// A mapped address is the same peer as its plain form, and of the IPv4 family when families take turns.
func TestJudgeAllUnmaps(t *testing.T) {
	found := []netip.Addr{netip.MustParseAddr("::ffff:8.8.8.8"), netip.MustParseAddr("2606:4700::1")}
	peers, err := (&Dialer{}).judgeAll("t", found, 443, new(Attempts))
	want := []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:443"), netip.MustParseAddrPort("[2606:4700::1]:443")}
	if err != nil || !slices.Equal(peers, want) {
		t.Errorf("%v, %v", peers, err)
	}
}

func TestDialWithoutPartsDenies(t *testing.T) {
	if _, err := (&Dialer{}).Dial(t.Context(), "t", "api.ok.test", 443, nil); err == nil {
		t.Error("a dialer without resolver resolves")
	}
	if _, err := (&Dialer{}).Dial(t.Context(), "t", "127.0.0.1", 443, nil); err == nil {
		t.Error("a dialer without addresses reaches loopback")
	}
}

func TestResolverIsHasty(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.Close() }()
	r := NewResolver(pc.LocalAddr().String())
	conn, err := r.Dial(t.Context(), "udp", "192.0.2.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	hasty, ok := conn.(hastyConn)
	if !ok || hasty.patience != retransmitAfter || !r.PreferGo {
		t.Fatalf("%T", conn)
	}
	if _, ok := conn.(net.PacketConn); !ok || conn.RemoteAddr().String() != pc.LocalAddr().String() {
		t.Errorf("%T to %s", conn, conn.RemoteAddr())
	}
	hasty.patience = time.Millisecond
	for _, far := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := hasty.SetDeadline(far); err != nil {
			t.Fatal(err)
		}
		var ne net.Error
		if _, err := hasty.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("deadline %s: %v", far, err)
		}
	}
}
