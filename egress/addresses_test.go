package egress

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func exempt(prefix string, ports []uint16, tools ...string) Exemption {
	return Exemption{Prefix: netip.MustParsePrefix(prefix), Ports: ports, Tools: tools}
}

func TestJudgeNamesTheReasonAndHidesTheAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1":                    "Loopback",
		"::1":                          "Loopback",
		"::ffff:127.0.0.1":             "Loopback",
		"0.0.0.0":                      "This network",
		"::":                           "Unspecified",
		"10.0.0.5":                     "Private use",
		"::ffff:10.0.0.1":              "Private use",
		"100.64.0.1":                   "Shared address space",
		"100.127.255.254":              "Shared address space",
		"100.100.100.200":              "Cloud metadata",
		"192.0.0.192":                  "Cloud metadata",
		"168.63.129.16":                "Cloud metadata",
		"fd00:ec2::254":                "Cloud metadata",
		"fd00:ec2::23":                 "Cloud metadata",
		"fd20:ce::254":                 "Cloud metadata",
		"169.254.169.254":              "Link local",
		"239.255.255.250":              "Multicast",
		"ff02::1":                      "Multicast",
		"240.0.0.1":                    "Reserved",
		"255.255.255.255":              "Broadcast",
		"64:ff9b::a9fe:a9fe":           "NAT64",
		"64:ff9b::808:808":             "NAT64", // a public address inside does not help
		"2002:a00:1::1":                "6to4",
		"2001:0:4136:e378:8000::":      "Teredo",
		"fec0::1":                      "Site local",
		"100::1":                       "Discard only",
		"100:0:0:1::1":                 "Dummy prefix",
		"2001:2::1":                    "IETF protocol assignments",
		"2001:db8::1":                  "Documentation",
		"3fff::1":                      "Documentation",
		"5f00::1":                      "Segment routing",
		"4000::1":                      "Not global unicast",
		"::7f00:1":                     "IPv4-compatible",
		"2606:4700::5efe:808:808":      "ISATAP",
		"2606:4700::200:5efe:808:808":  "ISATAP",
		"fe80::1%eth0":                 reasonZone,
		"2606:4700:4700::1111%eth0":    reasonZone, // no zone ever, even where the address is public
		"2606:4700:0:0:100:5efe:a00:1": "",
		"8.8.8.8":                      "",
		"::ffff:8.8.8.8":               "",
		"100.63.255.255":               "",
		"100.128.0.0":                  "",
		"34.118.224.1":                 "",
		"2001:4860:4860::8888":         "",
	} {
		var a *Addresses // nil has no exemptions
		ap := netip.AddrPortFrom(netip.MustParseAddr(addr), 443)
		err := a.Judge("t", ap)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v, want allowed", addr, err)
			}
			continue
		}
		var denied *AddressError
		if !errors.As(err, &denied) || denied.Reason != want || denied.Addr != ap {
			t.Errorf("%s: %#v, want reason %q", addr, err, want)
		} else if strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: text %q", addr, err)
		}
	}
}

func TestJudgeRefusesWhatIsNoAddress(t *testing.T) {
	var a Addresses
	if a.Judge("t", netip.AddrPort{}) == nil || a.Judge("t", netip.MustParseAddrPort("8.8.8.8:0")) == nil {
		t.Error("the zero address or port 0 is allowed")
	}
}

func TestJudgeHost(t *testing.T) {
	a := Addresses{Exempt: []Exemption{exempt("10.0.0.5/32", []uint16{8443}, "t1")}}
	tests := []struct {
		tool, host string
		port       uint16
		deny       bool
	}{
		{"t1", "api.ok.test", 443, false},
		{"t1", "metadata.google.internal", 80, false}, // a name; the dial judges it
		{"t1", "8.8.8.8", 443, false},
		{"t1", "10.0.0.5", 8443, false},
		{"t2", "10.0.0.5", 8443, true},
		{"t1", "10.0.0.5", 443, true},
		{"t1", "169.254.169.254", 80, true},
		{"t1", "64:ff9b::a9fe:a9fe", 80, true},
		{"t1", "::ffff:10.0.0.1", 443, true}, // not canonical, and judged all the same
		{"t1", "fe80::1%eth0", 443, true},
		{"t1", "2130706433", 443, true}, // neither a name nor an address
		{"t1", "0x7f.1", 443, true},
		{"t1", "[::1]", 443, true},
	}
	for _, tt := range tests {
		if err := a.JudgeHost(tt.tool, tt.host, tt.port); (err != nil) != tt.deny {
			t.Errorf("JudgeHost(%s, %s, %d) = %v, want denied %v", tt.tool, tt.host, tt.port, err, tt.deny)
		}
	}
}

func TestExemptions(t *testing.T) {
	ports := []uint16{443}
	tests := []struct {
		name   string
		prefix string
		addr   string
		lifted bool
	}{
		{"one private address", "10.0.0.5/32", "10.0.0.5", true},
		{"mapped form of it", "10.0.0.5/32", "::ffff:10.0.0.5", true},
		{"its neighbour", "10.0.0.5/32", "10.0.0.6", false},
		{"a private network", "10.20.0.0/16", "10.20.255.255", true},
		{"beside a private network", "10.20.0.0/16", "10.21.0.0", false},
		{"wider than the row", "10.0.0.0/7", "10.0.0.5", true},
		{"ULA", "fd12::/16", "fd12::1", true},
		{"class E", "240.0.0.0/8", "240.0.0.1", true},
		{"mapped prefix never means IPv4", "::ffff:0:0/96", "10.0.0.5", false},
		{"mapped prefix and mapped address", "::ffff:0:0/96", "::ffff:10.0.0.5", false},
		{"mapped single address", "::ffff:10.0.0.5/128", "10.0.0.5", false},
		{"catch-all and private", "0.0.0.0/0", "10.0.0.5", false},
		{"catch-all and metadata", "0.0.0.0/0", "169.254.169.254", false},
		{"catch-all and loopback", "0.0.0.0/0", "127.0.0.1", false},
		{"IPv6 catch-all", "::/0", "fd12::1", false},
		{"IPv6 catch-all and IPv4", "::/0", "10.0.0.5", false},
		{"half of everything and metadata", "128.0.0.0/1", "169.254.169.254", false},
		{"wide loopback", "127.0.0.0/8", "127.0.0.1", false},
		{"nearly single loopback", "127.0.0.0/31", "127.0.0.1", false},
		{"single loopback", "127.0.0.2/32", "127.0.0.2", true},
		{"single loopback, IPv6", "::1/128", "::1", true},
		{"wide link-local", "169.254.0.0/16", "169.254.169.254", false},
		{"single metadata", "169.254.169.254/32", "169.254.169.254", true},
		{"metadata inside CGNAT", "100.64.0.0/10", "100.100.100.200", false},
		{"CGNAT beside metadata", "100.64.0.0/10", "100.100.100.201", true},
		{"metadata inside ULA", "fd00::/8", "fd00:ec2::254", false},
		{"single ULA metadata", "fd00:ec2::254/128", "fd00:ec2::254", true},
		{"WireServer", "168.63.129.0/24", "168.63.129.16", false},
		{"unspecified", "0.0.0.0/32", "0.0.0.0", false},
		{"unspecified, IPv6", "::/128", "::", false},
		{"multicast", "239.0.0.1/32", "239.0.0.1", false},
		{"broadcast", "255.255.255.255/32", "255.255.255.255", false},
		{"class E and broadcast", "240.0.0.0/4", "255.255.255.255", false},
		{"NAT64", "64:ff9b::a00:5/128", "64:ff9b::a00:5", false},
		{"6to4", "2002::/16", "2002:a00:1::1", false},
		{"Teredo", "2001::/32", "2001::1", false},
		{"ISATAP", "fd12::/16", "fd12::5efe:a00:1", false},
	}
	for _, tt := range tests {
		a := Addresses{Exempt: []Exemption{exempt(tt.prefix, ports, "t1")}}
		ap := netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443)
		if err := a.Judge("t1", ap); (err == nil) != tt.lifted {
			t.Errorf("%s: %v, want lifted %v", tt.name, err, tt.lifted)
		}
		if a.Judge("t2", ap) == nil {
			t.Errorf("%s: lifted for another tool", tt.name)
		}
		if a.Judge("t1", netip.AddrPortFrom(ap.Addr(), 80)) == nil {
			t.Errorf("%s: lifted for another port", tt.name)
		}
	}
}

func TestExemptionWithoutPortsOrToolsLiftsNothing(t *testing.T) {
	for _, e := range []Exemption{
		{}, exempt("10.0.0.5/32", nil, "t1"), exempt("10.0.0.5/32", []uint16{443}), {Ports: []uint16{443}, Tools: []string{"t1"}},
	} {
		a := Addresses{Exempt: []Exemption{e}}
		if a.Judge("t1", netip.MustParseAddrPort("10.0.0.5:443")) == nil {
			t.Errorf("%+v lifts the block", e)
		}
	}
}

func TestExemptionValidate(t *testing.T) {
	ports := []uint16{443}
	tests := []struct {
		e    Exemption
		want string // part of the error; "" for none
	}{
		{exempt("10.20.0.5/32", ports, "t"), ""},
		{exempt("10.0.0.0/8", ports, "t"), ""},
		{exempt("127.0.0.2/32", ports, "t"), ""},
		{exempt("169.254.169.254/32", ports, "t"), ""},
		{exempt("100.64.0.0/10", ports, "t"), ""}, // has metadata inside, but not only
		{exempt("fd00::/8", ports, "t"), ""},
		{exempt("34.118.224.0/20", ports, "t"), ""}, // public, but perhaps the cluster's
		{Exemption{Ports: ports, Tools: []string{"t"}}, "no prefix"},
		{exempt("::ffff:0:0/96", ports, "t"), "write the IPv4 prefix"},
		{exempt("::ffff:10.0.0.5/128", ports, "t"), "write the IPv4 prefix"},
		{exempt("0.0.0.0/0", ports, "t"), "everything"},
		{exempt("::/0", ports, "t"), "everything"},
		{exempt("10.0.0.5/8", ports, "t"), "write 10.0.0.0/8"},
		{exempt("127.0.0.0/8", ports, "t"), "one address at a time"},
		{exempt("127.0.0.0/31", ports, "t"), "one address at a time"},
		{exempt("169.254.0.0/16", ports, "t"), "one address at a time"},
		{exempt("fe80::/10", ports, "t"), "one address at a time"},
		{exempt("fd00:ec2::/64", ports, "t"), "one address at a time"},
		{exempt("224.0.0.0/4", ports, "t"), "never lifted"},
		{exempt("255.255.255.255/32", ports, "t"), "never lifted"},
		{exempt("64:ff9b::/96", ports, "t"), "never lifted"},
		{exempt("2606:4700::5efe:808:808/128", ports, "t"), "never lifted"},
		{exempt("10.0.0.5/32", nil, "t"), "no port"},
		{exempt("10.0.0.5/32", []uint16{0}, "t"), "no port"},
		{exempt("10.0.0.5/32", ports), "no tool"},
		{exempt("10.0.0.5/32", ports, ""), "no tool"},
	}
	for _, tt := range tests {
		err := tt.e.Validate()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.e.Prefix, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.e.Prefix, err, tt.want)
		}
	}
}

func TestClusterRanges(t *testing.T) {
	a := Addresses{
		Cluster: []netip.Prefix{
			netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("34.118.224.0/20"),
			netip.MustParsePrefix("2600:1f18::/32"), netip.MustParsePrefix("::ffff:52.0.0.0/104"),
		},
		Exempt: []Exemption{exempt("34.118.225.0/24", []uint16{443}, "t1")},
	}
	for addr, deny := range map[string]bool{
		"10.96.0.1": true, "34.118.224.1": true, "::ffff:34.118.224.1": true, "34.118.239.255": true, "2600:1f18::1": true,
		"52.1.2.3": true, "34.118.240.0": false, "34.118.223.255": false, "2600:1f19::1": false,
		"34.118.225.9": false, // exempt
	} {
		err := a.Judge("t1", netip.AddrPortFrom(netip.MustParseAddr(addr), 443))
		if (err != nil) != deny {
			t.Errorf("%s: %v, want denied %v", addr, err, deny)
		}
	}
}

func TestOwnListenersAreNeverReachable(t *testing.T) {
	local := netip.MustParseAddr("203.0.114.9") // public, and ours
	a := Addresses{
		Own: []netip.AddrPort{
			netip.MustParseAddrPort("127.0.0.1:15020"), netip.MustParseAddrPort("0.0.0.0:15001"),
			netip.MustParseAddrPort("[::]:15006"), netip.MustParseAddrPort("10.1.2.3:15008"),
		},
		interfaces: func() ([]netip.Addr, error) { return []netip.Addr{local, netip.MustParseAddr("2600::9")}, nil },
	}
	for _, p := range []string{"127.0.0.1/32", "127.0.0.9/32", "::1/128", "10.1.2.3/32", "10.1.2.4/32"} {
		a.Exempt = append(a.Exempt, exempt(p, []uint16{15001, 15006, 15008, 15020, 9999}, "t"))
	}
	for text, deny := range map[string]bool{
		"127.0.0.1:15020":          true,
		"127.0.0.9:15020":          true,
		"[::1]:15020":              true,
		"[::ffff:127.0.0.1]:15020": true,
		"203.0.114.9:15001":        true,
		"[2600::9]:15001":          true,
		"203.0.114.9:15006":        true,
		"127.0.0.1:15006":          true,
		"[2600::9]:15006":          true,
		"10.1.2.3:15008":           true,
		"127.0.0.1:15008":          true,
		"127.0.0.1:9999":           false, // exempt, and nobody of ours listens
		"10.1.2.4:15008":           false,
		"203.0.114.9:443":          false,
		"8.8.8.8:15001":            false,
	} {
		err := a.Judge("t", netip.MustParseAddrPort(text))
		if (err != nil) != deny {
			t.Errorf("%s: %v, want denied %v", text, err, deny)
		}
		var denied *AddressError
		if deny && errors.As(err, &denied) && denied.Reason != reasonOwn {
			t.Errorf("%s: reason %q", text, denied.Reason)
		}
	}
}

func TestOwnListenersWhenInterfacesAreUnknown(t *testing.T) {
	a := Addresses{
		Own:        []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:15001")},
		interfaces: func() ([]netip.Addr, error) { return nil, errors.New("no netlink") },
	}
	if a.Judge("t", netip.MustParseAddrPort("8.8.8.8:15001")) == nil {
		t.Error("an address that may be our own is allowed")
	}
	if err := a.Judge("t", netip.MustParseAddrPort("8.8.8.8:443")); err != nil {
		t.Error(err)
	}
}

func TestHostAddresses(t *testing.T) {
	got, err := hostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(list) {
		t.Errorf("%d addresses of %d interfaces' addresses", len(got), len(list))
	}
	for _, a := range got {
		if a.Is4In6() || !a.IsValid() {
			t.Errorf("%v is not in its plain form", a)
		}
	}
}

func TestJudgeDoesNotAllocate(t *testing.T) {
	a := Addresses{
		Exempt:  []Exemption{exempt("10.0.0.5/32", []uint16{443}, "t")},
		Cluster: []netip.Prefix{netip.MustParsePrefix("34.118.224.0/20")},
		Own:     []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:443")},
	}
	for _, text := range []string{"8.8.8.8:443", "[2606:4700:4700::1111]:443", "[::ffff:10.0.0.5]:443"} {
		ap := netip.MustParseAddrPort(text)
		if n := testing.AllocsPerRun(100, func() {
			if err := a.Judge("t", ap); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("Judge(%s) allocates %v times", text, n)
		}
	}
}
