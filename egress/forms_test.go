package egress

import (
	"fmt"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// inetAton reads s as the C library's inet_aton does (inet(3)): one to four parts, decimal, octal or hex, the last one filling
// what the others leave; white space and what follows it is ignored.
func inetAton(s string) (netip.Addr, bool) {
	if i := strings.IndexAny(s, " \t\n\v\f\r"); i >= 0 {
		s = s[:i]
	}
	return fromParts(strings.Split(s, "."))
}

// whatwg reads s as a URL parser does (WHATWG URL, sections 3.5 "host parser" and "IPv4 parser"): escapes are undone, wide forms
// become narrow, a trailing dot is dropped.
func whatwg(s string) (netip.Addr, bool) {
	s = narrow(unescape(s))
	s = strings.TrimSuffix(s, ".")
	return fromParts(strings.Split(s, "."))
}

func fromParts(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	total := new(big.Int)
	for i, part := range parts {
		n, ok := number(part)
		if !ok {
			return netip.Addr{}, false
		}
		bits := uint(8)
		if i == len(parts)-1 {
			bits = uint(8 * (5 - len(parts)))
		}
		if n.BitLen() > int(bits) {
			return netip.Addr{}, false
		}
		total.Add(total.Lsh(total, bits), n)
	}
	var b [4]byte
	return netip.AddrFrom4([4]byte(total.FillBytes(b[:]))), true
}

func number(s string) (*big.Int, bool) {
	base := 10
	switch lower := strings.ToLower(s); {
	case lower == "":
		return nil, false
	case strings.HasPrefix(lower, "0x"):
		if s, base = lower[2:], 16; s == "" {
			return new(big.Int), true // a URL parser takes it for zero
		}
	case len(lower) > 1 && lower[0] == '0':
		s, base = lower[1:], 8
	}
	if strings.ContainsAny(s, "+-_") { // which SetString would take
		return nil, false
	}
	return new(big.Int).SetString(s, base)
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func narrow(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u3002' || r == '\uff0e' || r == '\uff61':
			return '.'
		case r >= '\uff01' && r <= '\uff5e':
			return r - 0xfee0
		}
		return r
	}, s)
}

// TestOracles: the readers that the fuzz targets compare with read what the originals read.
func TestOracles(t *testing.T) {
	for text, want := range map[string]string{
		"127.1": "127.0.0.1", "0x7f.1": "127.0.0.1", "2130706433": "127.0.0.1", "017700000001": "127.0.0.1", "0251.0376.0251.0376": "169.254.169.254",
		"0xA9FEA9FE": "169.254.169.254", "169.16689662": "169.254.169.254", "169.254.43518": "169.254.169.254", "0": "0.0.0.0",
	} {
		for name, read := range map[string]func(string) (netip.Addr, bool){"inet_aton": inetAton, "whatwg": whatwg} {
			if got, ok := read(text); !ok || got.String() != want {
				t.Errorf("%s(%q) = %v %v, want %s", name, text, got, ok, want)
			}
		}
	}
	for text, want := range map[string]string{"１２７．０．０．１": "127.0.0.1", "127。1": "127.0.0.1", "%31%32%37.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "0x": "0.0.0.0"} {
		if got, ok := whatwg(text); !ok || got.String() != want {
			t.Errorf("whatwg(%q) = %v %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "256.0.0.1", "1.2.3.4.5", "api.ok.test", "08", "0x1g", "4294967296", "1..2"} {
		if got, ok := inetAton(text); ok {
			t.Errorf("inet_aton(%q) = %v", text, got)
		}
	}
}

// spell writes an IPv4 address in a way that script chooses: how many parts, the base and padding of each, letter case, wide digits
// and dots, escapes, what stands before and after; or inside an IPv6 address.
func spell(addr [4]byte, script []byte) string {
	next := func() byte {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return b
	}
	if form := next(); form%3 == 2 {
		return spellIPv6(addr, next)
	}
	parts := int(next())%4 + 1
	var b strings.Builder
	for i := range parts {
		n := uint32(addr[i])
		if i == parts-1 {
			for _, more := range addr[i+1:] {
				n = n<<8 | uint32(more)
			}
		}
		if i > 0 {
			b.WriteString([]string{".", ".", ".", "。", "．", "%2e", "｡"}[next()%7])
		}
		digits := fmt.Sprintf([]string{"%d", "%d", "0%o", "0x%x", "0X%X"}[next()%5], n)
		if pad := next() % 8; pad > 4 && digits[0] == '0' && len(digits) > 1 {
			digits = digits[:2] + strings.Repeat("0", int(pad)) + digits[2:]
		}
		b.WriteString(disguise(digits, next()))
	}
	return []string{"", "", "", " ", "\t", "\x00", "u@"}[next()%7] + b.String() + []string{"", "", "", ".", " ", " x", "\r\n", "%00", "#", "/"}[next()%10]
}

// disguise writes digits wide or escaped, or leaves them.
func disguise(digits string, how byte) string {
	switch how % 6 {
	case 4:
		return strings.Map(func(r rune) rune { return r + 0xfee0 }, digits)
	case 5:
		var b strings.Builder
		for i := range len(digits) {
			fmt.Fprintf(&b, "%%%02x", digits[i])
		}
		return b.String()
	}
	return digits
}

func spellIPv6(a [4]byte, next func() byte) string {
	hi, lo := fmt.Sprintf("%02x%02x", a[0], a[1]), fmt.Sprintf("%02x%02x", a[2], a[3])
	dotted := netip.AddrFrom4(a).String()
	text := []string{
		"::ffff:" + dotted, "::ffff:" + hi + ":" + lo, "::" + dotted, "::" + hi + ":" + lo, "0:0:0:0:0:FFFF:" + hi + ":" + lo, "64:ff9b::" + dotted,
		"64:ff9b:1::" + hi + ":" + lo, "2002:" + hi + ":" + lo + "::1", "2001:0:" + hi + ":" + lo + "::", "::ffff:0:" + hi + ":" + lo, "fe80::" + hi + ":" + lo,
	}[next()%11]
	zone := []string{"", "", "%eth0", "%25eth0", "%1"}[next()%5]
	return []string{"[", "[", "[", ""}[next()%4] + text + zone + []string{"]", "]", "]", ""}[next()%4]
}

// denied are IPv4 addresses that no tool may reach.
var denied = [][4]byte{{127, 0, 0, 1}, {169, 254, 169, 254}, {10, 0, 0, 5}, {192, 168, 1, 1}, {0, 0, 0, 0}, {100, 100, 100, 200}, {224, 0, 0, 1}, {255, 255, 255, 255}, {172, 16, 0, 1}, {127, 255, 255, 254}}

// FuzzAddressForms: however a denied address is written, and whatever else is written in the manner of an address, it is refused, or
// it is taken for an address and judged as one. A text that any resolver may read as an address is never taken for a name.
func FuzzAddressForms(f *testing.F) {
	for i := range 400 { // a spread of scripts
		script := make([]byte, 20)
		for j := range script {
			script[j] = byte((i*7919 + j*j*104729 + i*j*31) >> 3)
		}
		f.Add(byte(i), script)
	}
	f.Fuzz(func(t *testing.T, which byte, script []byte) {
		addr := denied[int(which)%len(denied)]
		text := spell(addr, script)
		checkNoAddress(t, text)
		for _, authority := range []string{text, text + ":443", text + ":80"} {
			host, port, err := ParseAuthority(authority, 443)
			if err != nil {
				continue
			}
			if !isAddress(host) {
				t.Fatalf("%q, a form of %v, is taken for the name %q", authority, addr, host)
			}
			var nobody *Addresses
			if nobody.JudgeHost("t", host, port) == nil {
				t.Fatalf("%q, a form of %v, is allowed as %q", authority, addr, host)
			}
		}
	})
}

// checkNoAddress: if text is accepted and some resolver reads it, or what became of it, as an address, so do we, and the same one.
func checkNoAddress(t *testing.T, text string) {
	t.Helper()
	host, err := ParseHost(text)
	if err != nil {
		return
	}
	for _, read := range []func(string) (netip.Addr, bool){inetAton, whatwg} {
		for _, s := range []string{text, host} {
			if addr, ok := read(s); ok && host != addr.String() {
				t.Fatalf("%q became %q, and a resolver reads %v", text, host, addr)
			}
		}
	}
}
