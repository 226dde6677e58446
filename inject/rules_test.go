package inject

import (
	"net/netip"
	"strings"
	"testing"
)

// TestRules is the whole of a small plan, in the language of nft.
func TestRules(t *testing.T) {
	p := Plan{
		Proxy: 1337,
		Tools: []Tool{
			{UID: 2001, Listener: netip.MustParseAddrPort("127.0.0.1:15001"), Transparent: true, DNS: 15053},
			{UID: 2002, Listener: netip.MustParseAddrPort("127.0.0.1:3128"), DNS: 15054},
		},
		Paths:  []Path{{From: 2003, To: 2004, Port: 8000}},
		Ports:  []uint16{15020, 3128},
		Probes: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.254:15091"), netip.MustParseAddrPort("[2001:db8::fffe]:15091")},
	}
	const want = `
redirect: meta skuid 1337 ip daddr 192.0.2.254 tcp dport 15091 redirect to :15091
redirect: meta skuid 1337 ip6 daddr 2001:db8::fffe tcp dport 15091 redirect to :15091
redirect: meta skuid 2001 udp dport 53 redirect to :15053
redirect: meta skuid 2001 tcp dport 53 redirect to :15053
redirect: meta skuid 2001 ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :15001
redirect: meta skuid 2002 udp dport 53 redirect to :15054
redirect: meta skuid 2002 tcp dport 53 redirect to :15054
fence: meta skuid 1337 tcp flags & syn != 0 ct direction reply ct mark 1337 accept
fence: tcp flags & syn != 0 ct direction reply ct mark 1337 drop
fence: meta skuid 1337 meta l4proto udp ct direction reply ct mark 1337 accept
fence: meta l4proto udp ct direction reply ct mark 1337 drop
fence: meta skuid 2001 tcp flags & syn != 0 ct direction reply ct mark 2001 accept
fence: tcp flags & syn != 0 ct direction reply ct mark 2001 drop
fence: meta skuid 2002 tcp flags & syn != 0 ct direction reply ct mark 2002 accept
fence: tcp flags & syn != 0 ct direction reply ct mark 2002 drop
fence: meta skuid 2004 tcp flags & syn != 0 ct direction reply ct mark 2004 accept
fence: tcp flags & syn != 0 ct direction reply ct mark 2004 drop
fence: ip daddr != 127.0.0.0/8 meta l4proto udp ct state established ct direction reply accept
fence: meta skuid 1337 ip daddr != 127.0.0.0/8 meta l4proto udp ct state established accept
fence: ip daddr != 127.0.0.0/8 meta l4proto udp ct state established reject with icmpx admin-prohibited
fence: ip daddr != 127.0.0.0/8 tcp flags & syn != 0 ct state established ct direction reply accept
fence: meta skuid 1337 ip daddr != 127.0.0.0/8 tcp flags & syn != 0 ct state established accept
fence: ip daddr != 127.0.0.0/8 tcp flags & syn != 0 ct state established reject with tcp reset
fence: ct state established accept
fence: meta nfproto ipv4 meta l4proto icmp ct state related accept
fence: meta nfproto ipv6 meta l4proto icmpv6 ct state related accept
fence: tcp flags & rst != 0 ct state related accept
fence: meta skuid 1337 ip daddr 127.0.0.1 tcp dport 15091 ct status dnat ct mark set 1337 accept
fence: meta skuid 1337 ip6 daddr ::1 tcp dport 15091 ct status dnat ct mark set 1337 accept
fence: meta skuid 1337 ip daddr != 127.0.0.0/8 accept
fence: meta skuid 2001 ip daddr 127.0.0.1 tcp dport 15001 ct status dnat ct mark set 1337 accept
fence: meta skuid 2001 ip daddr 127.0.0.1 udp dport 15053 ct status dnat ct mark set 1337 accept
fence: meta skuid 2001 ip daddr 127.0.0.1 tcp dport 15053 ct status dnat ct mark set 1337 accept
fence: meta skuid 2002 ip daddr 127.0.0.1 tcp dport 3128 ct mark set 1337 accept
fence: meta skuid 2002 ip daddr 127.0.0.1 udp dport 15054 ct status dnat ct mark set 1337 accept
fence: meta skuid 2002 ip daddr 127.0.0.1 tcp dport 15054 ct status dnat ct mark set 1337 accept
fence: tcp dport 15001 reject with tcp reset
fence: tcp dport 15053 reject with tcp reset
fence: tcp dport 3128 reject with tcp reset
fence: tcp dport 15054 reject with tcp reset
fence: tcp dport 15020 reject with tcp reset
fence: tcp dport 15091 reject with tcp reset
fence: meta skuid 2003 ip daddr 127.0.0.0/8 tcp dport 8000 ct mark set 2004 accept
fence: meta skuid 2001 ip daddr 127.0.0.0/8 meta l4proto tcp ct mark set 2001 accept
fence: meta skuid 2002 ip daddr 127.0.0.0/8 meta l4proto tcp ct mark set 2002 accept
fence: meta l4proto tcp reject with tcp reset
fence: reject with icmpx admin-prohibited
exit: oif lo accept
exit: ip daddr != 127.0.0.0/8 accept
`
	var got strings.Builder
	got.WriteByte('\n')
	for _, r := range Rules(p) {
		got.WriteString(string(r.Chain) + ": " + r.String() + "\n")
	}
	if got.String() != want {
		t.Errorf("found%s\nexpected%s", got.String(), want)
	}
}

// TestRulesHaveNames: a chain has no two rules of one name, by which Check knows them, and none that the kernel cannot store.
func TestRulesHaveNames(t *testing.T) {
	p := Plan{Proxy: 1337, IPv6: true, Ports: []uint16{15001, 15001, 15020, 15053}}
	for i := range MaxTools {
		p.Paths = append(p.Paths, Path{From: 1<<32 - 100 + uint32(i), To: 1<<32 - 2 - uint32(i), Port: 65535})
		p.Tools = append(p.Tools, Tool{UID: 1<<32 - 100 + uint32(i), Listener: netip.MustParseAddrPort("[::]:15001"), Transparent: i%2 == 0, DNS: 15053})
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range Rules(p) {
		key := string(r.Chain) + ":" + r.Name
		if r.Name == "" || len(r.Name) > 127 || seen[key] {
			t.Errorf("rule %q: no name, one too long, or a second time", key)
		}
		seen[key] = true
	}
}

// TestValidate: each of these would open the fence, or close it to somebody by mistake.
func TestValidate(t *testing.T) {
	good := func() Plan {
		return Plan{Proxy: 1337, Tools: []Tool{{UID: 2001, Listener: netip.MustParseAddrPort("127.0.0.1:15001"), Transparent: true}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want   string
		change func(*Plan)
	}{
		{"found probes", func(p *Plan) { p.Probes = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:15091")} }},
		{"found probes", func(p *Plan) { p.Probes = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.254:0")} }},
		{"found probes", func(p *Plan) {
			p.Probes = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.254:1"), netip.MustParseAddrPort("192.0.2.253:1")}
		}},
		{"the proxy: found uid 0", func(p *Plan) { p.Proxy = 0 }},
		{"the proxy: found uid 4294967295", func(p *Plan) { p.Proxy = 1<<32 - 1 }},
		{"a tool: found uid 0", func(p *Plan) { p.Tools[0].UID = 0 }},
		{"for a tool and for the proxy", func(p *Plan) { p.Tools[0].UID = 1337 }},
		{"found uid 2001 twice", func(p *Plan) { p.Tools = append(p.Tools, p.Tools[0]) }},
		{"found no tool", func(p *Plan) { p.Tools = nil }},
		{"expected at most 32", func(p *Plan) { p.Tools = make([]Tool, 33) }},
		{"fixed port", func(p *Plan) { p.Tools[0].Listener = netip.MustParseAddrPort("127.0.0.1:0") }},
		{"fixed port", func(p *Plan) { p.Tools[0].Listener = netip.AddrPort{} }},
		{"redirected connections arrive there", func(p *Plan) { p.Tools[0].Listener = netip.MustParseAddrPort("127.0.0.2:1") }},
		{"redirected connections arrive there", func(p *Plan) { p.Tools[0].Listener = netip.MustParseAddrPort("192.0.2.2:1") }},
		{"on a loopback address", func(p *Plan) {
			p.Tools[0] = Tool{UID: 2001, Listener: netip.MustParseAddrPort("192.0.2.2:1")}
		}},
		{"on a loopback address", func(p *Plan) {
			p.Tools[0] = Tool{UID: 2001, Listener: netip.MustParseAddrPort("[::ffff:127.0.0.1]:1")}
		}},
		{"a path over loopback: found uid 0", func(p *Plan) { p.Paths = []Path{{0, 2001, 8000}} }},
		{"a path over loopback: found uid 0", func(p *Plan) { p.Paths = []Path{{2002, 0, 8000}} }},
		{"expected one that is not the sidecar's", func(p *Plan) { p.Paths = []Path{{2002, 1337, 8000}} }},
		{"expected one that is not the sidecar's", func(p *Plan) { p.Paths = []Path{{2002, 2001, 15001}} }},
		{"expected one that is not the sidecar's", func(p *Plan) { p.Paths, p.Ports = []Path{{2002, 2001, 15020}}, []uint16{15020} }},
		{"expected one that is not the sidecar's", func(p *Plan) { p.Paths = []Path{{2002, 2001, 0}} }},
		{"expected at most 32", func(p *Plan) { p.Paths = make([]Path, 33) }},
		{"found port 0", func(p *Plan) { p.Ports = []uint16{0} }},
	} {
		p := good()
		test.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("found %v, expected an error with %q", err, test.want)
		}
	}
}
