package detect

import "net/netip"

// ipv4 finds four numbers up to 255 with dots between.
func (c *scanner) ipv4(at, end int) {
	if at > 0 && (wordByte[c.text[at-1]] || in(c.text[at-1], ".:")) {
		return
	}
	start := at
	for part := 0; ; part++ {
		if end-at > 3 || end == at || number4(c.text[at:end]) > 255 {
			return
		}
		if part == 3 {
			break
		}
		if end >= len(c.text) || c.text[end] != '.' {
			return
		}
		at = end + 1
		end = run(c.text, at, &digitByte)
	}
	if end < len(c.text) && (wordByte[c.text[end]] || c.text[end] == '.' && end+1 < len(c.text) && isDigit(c.text[end+1])) {
		return
	}
	c.found(start, end, IP)
}

func number4(text []byte) (n int) {
	for _, b := range text {
		n = 10*n + int(b-'0')
	}
	return n
}

var (
	hexByte  = classOf(isHex)
	ipv6Byte = classOf(func(b byte) bool { return isHex(b) || b == ':' || b == '.' })
)

// colon finds IPv6 and hardware addresses by the first separator in them.
func (c *scanner) colon(at int) {
	b := c.text[at]
	first := back(c.text, at, 5, &hexByte)
	if c.mac && (at-first == 2 && b != '.' || at-first == 4 && b == '.') {
		c.hardware(first, at-first, b)
	}
	if c.ip && b == ':' && at+1 < len(c.text) && ipv6Byte[c.text[at+1]] && c.text[at+1] != '.' && (at-first <= 4) {
		c.ipv6(first, at)
	}
}

// maxIPv6 is the length of the longest form: eight groups, of which two are written as IPv4.
const maxIPv6 = 45

// ipv6 finds an address as netip reads it, with its zone.
func (c *scanner) ipv6(start, colon int) {
	if start > 0 && (wordByte[c.text[start-1]] || in(c.text[start-1], ":.")) {
		return
	}
	end := run(c.text, start, &ipv6Byte)
	for end > start && (c.text[end-1] == '.' || end > start+1 && c.text[end-1] == ':' && c.text[end-2] != ':') {
		end--
	}
	if end-start > maxIPv6 || end-start < 3 || end < len(c.text) && wordByte[c.text[end]] {
		return
	}
	if double, n := colons(c.text[start:end]); !double && n < 6 {
		return // 12:34:56
	}
	a, err := netip.ParseAddr(string(c.text[start:end]))
	if err != nil || a.IsUnspecified() {
		return
	}
	if end < len(c.text) && c.text[end] == '%' {
		end = run(c.text, end+1, &nameByte)
	}
	c.found(start, end, IP)
}

// colons counts them, and reports whether two stand together.
func colons(text []byte) (double bool, n int) {
	for i, b := range text {
		if b == ':' {
			n++
			double = double || i > 0 && text[i-1] == ':'
		}
	}
	return double, n
}

// hardware finds 00:1A:2B:3C:4D:5E, 00-1A-…, and 001a.2b3c.4d5e, which begins here.
func (c *scanner) hardware(start, group int, sep byte) {
	if start > 0 && (wordByte[c.text[start-1]] || c.text[start-1] == sep) {
		return
	}
	end := start + 12 + 12/group - 1
	if end > len(c.text) || end < len(c.text) && (wordByte[c.text[end]] || c.text[end] == sep && end+1 < len(c.text) && isHex(c.text[end+1])) {
		return
	}
	for i := start; i < end; i++ {
		if (i-start)%(group+1) == group {
			if c.text[i] != sep {
				return
			}
		} else if !isHex(c.text[i]) {
			return
		}
	}
	c.found(start, end, MAC)
}
