package egress

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/idna"
)

func TestParseHostAccepts(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := strings.Repeat(label63+".", 3) + strings.Repeat("b", 61)
	for in, want := range map[string]string{
		"api.ok.test":                   "api.ok.test",
		"bad.wild.test.":                "bad.wild.test", // one trailing dot is the same name
		"BaD.WILD.test":                 "bad.wild.test",
		"localhost":                     "localhost",
		"my_bucket.s3.example":          "my_bucket.s3.example",
		"r3---sn-4g5e6nez.video.test":   "r3---sn-4g5e6nez.video.test",
		"XN--Bcher-KVA.test":            "xn--bcher-kva.test",
		"3com.test":                     "3com.test",
		"1.2.3.4.test":                  "1.2.3.4.test",
		"0x7f.test":                     "0x7f.test",
		"a.0xyz":                        "a.0xyz",
		label63 + ".test":               label63 + ".test",
		name253:                         name253,
		name253 + ".":                   name253,
		"198.51.100.7":                  "198.51.100.7",
		"2001:db8::1":                   "2001:db8::1",
		"[2001:db8::1]":                 "2001:db8::1",
		"[2001:DB8:0:0:0:0:0:1]":        "2001:db8::1",
		"[::ffff:10.0.0.1]":             "10.0.0.1",
		"::ffff:7f00:1":                 "127.0.0.1",
		"[::10.0.0.1]":                  "::a00:1",
		"[64:ff9b::a9fe:a9fe]":          "64:ff9b::a9fe:a9fe",
		"0:0:0:0:0:ffff:255.255.255.25": "255.255.255.25",
	} {
		if got, err := ParseHost(in); err != nil || got != want {
			t.Errorf("ParseHost(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseHostRefuses(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	for in, want := range map[string]HostError{
		"":                              hostEmpty,
		".":                             hostEmptyLabel,
		"..":                            hostEmptyLabel,
		"a..ok.test":                    hostEmptyLabel,
		".ok.test":                      hostEmptyLabel,
		"ok.test..":                     hostEmptyLabel,
		"a" + label63 + ".test":         hostLongLabel,
		strings.Repeat(label63+".", 4):  hostLongName,
		"api.ok.test@evil.test":         hostUserInfo,
		"u:p@evil.test":                 hostUserInfo,
		"１２７．０．０．１":                     hostNonASCII,
		"127。0。0。1":                     hostNonASCII,
		"\u212a.ok.test":                hostNonASCII, // KELVIN SIGN, which folds to k
		"\u0130.ok.test":                hostNonASCII, // folds to i
		"bücher.test":                   hostNonASCII,
		"example.com。evil":              hostNonASCII,
		"\xff.test":                     hostNonASCII,
		"a b.test":                      hostCharacter,
		" a.test":                       hostCharacter,
		"a.test\x00":                    hostCharacter,
		"a.test\r\n":                    hostCharacter,
		"a%2etest":                      hostCharacter,
		`evil.test\`:                    hostCharacter,
		`evil.test\@api.ok.test`:        hostCharacter,
		"a/b":                           hostCharacter,
		"*.wild.test":                   hostCharacter,
		"-a.test":                       hostLabelEdge,
		"a-.test":                       hostLabelEdge,
		"_a.test":                       hostLabelEdge,
		"a_.test":                       hostLabelEdge,
		"xn--.test":                     hostLabelEdge,
		"xn--a.test":                    hostALabel, // decodes to a control character
		"xn--api-.test":                 hostLabelEdge,
		"xn--zzzzzzzz99999.test":        hostALabel,
		"xn--Bcher-kva.xn--a.test":      hostALabel,
		"xn--fiq228c5hs0.xn--0":         hostALabel,
		"xn--bcher-KVB0.test":           hostALabel,
		"017700000001":                  hostNumber,
		"2130706433":                    hostNumber,
		"0x7f000001":                    hostNumber,
		"0X7F000001":                    hostNumber,
		"127.1":                         hostNumber,
		"0x7f.1":                        hostNumber,
		"127.0.0.0x1":                   hostNumber,
		"0":                             hostNumber,
		"0x":                            hostNumber,
		"425.510.425.510":               hostNumber,
		"7147006462":                    hostNumber,
		"0x41414141A9FEA9FE":            hostNumber,
		"0251.0376.0251.0376":           hostNumber,
		"0251.254.169.254":              hostNumber,
		"2852039166":                    hostNumber,
		"012.0.0.1":                     hostNumber,
		"127.0.0.01":                    hostNumber,
		"127.0.0.1.":                    hostNumber,
		"1.2.3.4.5":                     hostNumber,
		"name.1":                        hostNumber,
		"[api.ok.test]":                 hostBracket,
		"[127.0.0.1]":                   hostBracket,
		"[]":                            hostBracket,
		"[":                             hostBracket,
		"[::1":                          hostBracket,
		"[::1]x":                        hostBracket,
		"::1]":                          hostIPv6,
		"[[::1]]":                       hostIPv6,
		"fe80::1%eth0":                  hostZone,
		"[fe80::1%25eth0]":              hostZone,
		"1::2::3":                       hostIPv6,
		"::ffff:010.0.0.1":              hostIPv6,
		"api.ok.test:443":               hostIPv6,
		strings.Repeat("1:", 40) + ":1": hostIPv6,
	} {
		got, err := ParseHost(in)
		if got != "" || !errors.Is(err, want) {
			t.Errorf("ParseHost(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestHostErrorsHideTheInput(t *testing.T) {
	for _, in := range []string{"user:s3cret@host.test", "s3cret@host.test:443", "s3cret\x00.test", "[fe80::1%s3cret]"} {
		if _, _, err := ParseAuthority(in, 443); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseAuthority(%q): %v", in, err)
		}
	}
}

func TestParseAuthority(t *testing.T) {
	tests := []struct {
		in          string
		defaultPort uint16
		host        string
		port        uint16
		err         error
	}{
		{"api.ok.test:443", 0, "api.ok.test", 443, nil},
		{"API.ok.test.:1", 0, "api.ok.test", 1, nil},
		{"api.ok.test:65535", 80, "api.ok.test", 65535, nil},
		{"api.ok.test", 443, "api.ok.test", 443, nil},
		{"[2001:db8::1]:8443", 0, "2001:db8::1", 8443, nil},
		{"[2001:db8::1]", 80, "2001:db8::1", 80, nil},
		{"[::ffff:10.0.0.1]:443", 0, "10.0.0.1", 443, nil},
		{"127.0.0.1:15020", 0, "127.0.0.1", 15020, nil},

		{"api.ok.test", 0, "", 0, portMissing},
		{"[2001:db8::1]", 0, "", 0, portMissing},
		{"api.ok.test:0", 443, "", 0, portSpelling},
		{"api.ok.test:", 443, "", 0, portSpelling},
		{"api.ok.test:65536", 443, "", 0, portSpelling},
		{"api.ok.test:-1", 443, "", 0, portSpelling},
		{"api.ok.test:+443", 443, "", 0, portSpelling},
		{"api.ok.test:0x1bb", 443, "", 0, portSpelling},
		{"api.ok.test:00443", 443, "", 0, portSpelling},
		{"api.ok.test:4294967739", 443, "", 0, portSpelling},
		{"api.ok.test: 443", 443, "", 0, portSpelling},
		{"api.ok.test:443 ", 443, "", 0, portSpelling},
		{"api.ok.test:https", 443, "", 0, portSpelling},
		{"api.ok.test:４４３", 443, "", 0, portSpelling},
		{"api.ok.test:443/evil", 443, "", 0, portSpelling},
		{"api.ok.test:443:80", 443, "", 0, hostBracket},
		{":", 443, "", 0, hostEmpty},
		{":443", 443, "", 0, hostEmpty},
		{"", 443, "", 0, hostEmpty},
		{"::1", 443, "", 0, hostBracket},
		{"2001:db8::1:443", 443, "", 0, hostBracket},
		{"[::1]443", 443, "", 0, hostBracket},
		{"[::1]:", 443, "", 0, portSpelling},
		{"[fe80::1%eth0]:80", 443, "", 0, hostZone},
		{"[api.ok.test]:443", 443, "", 0, hostBracket},
		{"u@api.ok.test:443", 443, "", 0, hostUserInfo},
		{"http:", 443, "", 0, portSpelling},
		{"http://api.ok.test:443/x", 0, "", 0, hostBracket},
		{"*", 443, "", 0, hostCharacter},
	}
	for _, tt := range tests {
		host, port, err := ParseAuthority(tt.in, tt.defaultPort)
		if host != tt.host || port != tt.port || !errors.Is(err, tt.err) {
			t.Errorf("ParseAuthority(%q, %d) = %q, %d, %v; want %q, %d, %v",
				tt.in, tt.defaultPort, host, port, err, tt.host, tt.port, tt.err)
		}
	}
}

func TestHostPort(t *testing.T) {
	for want, target := range map[string]Target{
		"api.ok.test:443":    {Host: "api.ok.test", Port: 443},
		"10.0.0.1:80":        {Host: "10.0.0.1", Port: 80},
		"[2001:db8::1]:8443": {Host: "2001:db8::1", Port: 8443},
	} {
		if got := target.HostPort(); got != want {
			t.Errorf("HostPort() = %q, want %q", got, want)
		}
	}
}

func TestParseHostDoesNotAllocate(t *testing.T) {
	for _, in := range []string{"api.ok.test", "api.ok.test.", "198.51.100.7", "2001:db8::1", "[2001:db8::1]"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = ParseHost(in) }); n > 0 {
			t.Errorf("ParseHost(%q) allocates %v times", in, n)
		}
	}
}

var (
	canonicalHost = regexp.MustCompile(`^[a-z0-9._:-]+$`)
	hostSeeds     = []string{
		"api.ok.test", "BaD.wild.test.", "xn--bcher-kva.test", "bücher.test", "[::ffff:10.0.0.1]", "2001:DB8::1", "fe80::1%eth0",
		"127.1", "0x7f.1", "012.0.0.1", "198.51.100.7", "a..b", "u@h", "my_host", "[::1]:443", "h:00443", "１２７．０．０．１", "xn--a.0x",
	}
)

func checkCanonical(t *testing.T, in, host string) {
	t.Helper()
	if again, err := ParseHost(host); err != nil || again != host {
		t.Errorf("%q became %q, and that %q, %v", in, host, again, err)
	}
	if !canonicalHost.MatchString(host) {
		t.Errorf("%q became %q, which has other characters", in, host)
	}
	addr, err := netip.ParseAddr(host)
	if err == nil && addr.Unmap().String() != host {
		t.Errorf("%q became %q, whose canonical form is %q", in, host, addr.Unmap())
	}
	// An A-label is the one spelling of what it decodes to, or one host would have two names.
	for label := range strings.SplitSeq(host, ".") {
		if !strings.HasPrefix(label, "xn--") {
			continue
		}
		u, _ := idna.Lookup.ToUnicode(label)
		if a, err := idna.Lookup.ToASCII(u); err != nil || a != label {
			t.Errorf("%q became %q, of which %q decodes to %q and that encodes to %q, %v", in, host, label, u, a, err)
		}
	}
	if isAddress(host) != (err == nil) {
		t.Errorf("%q became %q: address %v, parses as one: %v", in, host, isAddress(host), err)
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range hostSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		host, err := ParseHost(in)
		if err != nil {
			if host != "" {
				t.Errorf("%q: %q beside the error %v", in, host, err)
			}
			return
		}
		checkCanonical(t, in, host)
	})
}

func FuzzParseAuthority(f *testing.F) {
	for _, s := range hostSeeds {
		f.Add(s, uint16(443))
		f.Add(s+":8443", uint16(0))
	}
	f.Fuzz(func(t *testing.T, in string, defaultPort uint16) {
		host, port, err := ParseAuthority(in, defaultPort)
		if err != nil {
			return
		}
		checkCanonical(t, in, host)
		if port == 0 {
			t.Errorf("%q has port 0", in)
		}
		text := Target{Host: host, Port: port}.HostPort()
		if h, p, err := ParseAuthority(text, 0); err != nil || h != host || p != port {
			t.Errorf("%q became %q, and that %q %d, %v", in, text, h, p, err)
		}
	})
}
