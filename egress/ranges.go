package egress

import (
	"net/netip"
	"slices"
)

// class says what may lift the denial of a range. The zero class is never lifted.
type class uint8

const (
	never  class = iota // nothing: the range names no single peer, or carries an IPv4 address that would need judging again
	single              // an exemption of this one address: the pod itself, its node, its credentials
	wide                // any exemption that contains the address
)

// rangeRow is one special-purpose range.
type rangeRow struct {
	prefix netip.Prefix
	name   string // the Reason of an AddressError
	source string
	class  class
}

func row(prefix, name, source string, c class) rangeRow {
	return rangeRow{netip.MustParsePrefix(prefix), name, source, c}
}

// specialRanges holds what is not the public internet: the IANA special-purpose registries for IPv4 and IPv6, what lies
// outside of 2000::/3, and the addresses at which cloud providers hand out credentials. The narrowest row rules.
//
// The registries call some ranges globally reachable (AS112, AMT, the anycast addresses of PCP, TURN and SRP). They are
// denied all the same: name-server sinks and relays are no API that a tool calls. A cluster's own ranges are not here,
// even those that a provider takes from public space (34.118.224.0/20): elsewhere they belong to somebody else, so they
// are denied where Addresses.Cluster has them.
var specialRanges = []rangeRow{
	row("0.0.0.0/8", "This network", "RFC 791 section 3.2", never),
	row("10.0.0.0/8", "Private use", "RFC 1918", wide),
	row("100.64.0.0/10", "Shared address space", "RFC 6598", wide),
	row("100.100.100.200/32", "Cloud metadata", "Alibaba Cloud", single),
	row("127.0.0.0/8", "Loopback", "RFC 1122 section 3.2.1.3", single),
	row("168.63.129.16/32", "Cloud metadata", "Azure WireServer, in public space", single),
	row("169.254.0.0/16", "Link local", "RFC 3927; metadata of most clouds", single),
	row("172.16.0.0/12", "Private use", "RFC 1918", wide),
	row("192.0.0.0/24", "IETF protocol assignments", "RFC 6890", wide),
	row("192.0.0.170/31", "NAT64 discovery", "RFC 7050", never),
	row("192.0.0.192/32", "Cloud metadata", "Oracle Cloud", single),
	row("192.0.2.0/24", "Documentation", "RFC 5737", wide),
	row("192.31.196.0/24", "AS112", "RFC 7535", wide),
	row("192.52.193.0/24", "AMT relay", "RFC 7450", wide),
	row("192.88.99.0/24", "6to4 relay", "RFC 7526", never),
	row("192.168.0.0/16", "Private use", "RFC 1918", wide),
	row("192.175.48.0/24", "AS112", "RFC 7534", wide),
	row("198.18.0.0/15", "Benchmarking", "RFC 2544", wide),
	row("198.51.100.0/24", "Documentation", "RFC 5737", wide),
	row("203.0.113.0/24", "Documentation", "RFC 5737", wide),
	row("224.0.0.0/4", "Multicast", "RFC 5771", never),
	row("240.0.0.0/4", "Reserved", "RFC 1112 section 4; some clusters use it for pods", wide),
	row("255.255.255.255/32", "Broadcast", "RFC 919", never),

	row("::/3", "Not global unicast", "IANA IPv6 address space", wide),
	row("::/96", "IPv4-compatible", "RFC 4291 section 2.5.5.1", never),
	row("::/128", "Unspecified", "RFC 4291 section 2.5.2", never),
	row("::1/128", "Loopback", "RFC 4291 section 2.5.3", single),
	row("::ffff:0:0/96", "IPv4-mapped", "RFC 4291 section 2.5.5.2; judged as IPv4 before it comes here", never),
	row("::ffff:0:0:0/96", "IPv4-translated", "RFC 2765", never),
	row("64:ff9b::/96", "NAT64", "RFC 6052", never),
	row("64:ff9b:1::/48", "NAT64", "RFC 8215", never),
	row("100::/64", "Discard only", "RFC 6666", never),
	row("100:0:0:1::/64", "Dummy prefix", "RFC 9780", never),
	row("2001::/23", "IETF protocol assignments", "RFC 2928", wide),
	row("2001::/32", "Teredo", "RFC 4380", never),
	row("2001:db8::/32", "Documentation", "RFC 3849", wide),
	row("2002::/16", "6to4", "RFC 3056", never),
	row("2620:4f:8000::/48", "AS112", "RFC 7534", wide),
	row("3fff::/20", "Documentation", "RFC 9637", wide),
	row("4000::/2", "Not global unicast", "IANA IPv6 address space", wide),
	row("5f00::/16", "Segment routing", "RFC 9602", wide),
	row("8000::/1", "Not global unicast", "IANA IPv6 address space", wide),
	row("fc00::/7", "Unique local", "RFC 4193", wide),
	row("fd00:ec2::/32", "Cloud metadata", "AWS: metadata, resolver and pod identity", single),
	row("fd20:ce::254/128", "Cloud metadata", "Google Cloud", single),
	row("fe80::/10", "Link local", "RFC 4291 section 2.5.6", single),
	row("fec0::/10", "Site local", "RFC 3879", wide),
	row("ff00::/8", "Multicast", "RFC 4291 section 2.7", never),
}

// isatap is the row for interface identifiers that carry an IPv4 address under any prefix, which no prefix can say.
var isatap = rangeRow{name: "ISATAP", source: "RFC 5214 section 6.1", class: never}

// span is a stretch of addresses that one row rules; it ends where the next one begins.
type span struct {
	from netip.Addr
	row  *rangeRow // nil: public
}

// spans is specialRanges cut into stretches in the order of netip.Addr.Compare, IPv4 before IPv6.
var spans = flatten(specialRanges)

func flatten(rows []rangeRow) []span {
	starts := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	for _, r := range rows {
		starts = append(starts, r.prefix.Addr())
		if after := lastAddr(r.prefix).Next(); after.IsValid() {
			starts = append(starts, after)
		}
	}
	slices.SortFunc(starts, netip.Addr.Compare)
	starts = slices.Compact(starts)
	out := make([]span, 0, len(starts))
	for _, from := range starts {
		out = append(out, span{from, narrowest(rows, from)})
	}
	return out
}

func narrowest(rows []rangeRow, a netip.Addr) *rangeRow {
	var found *rangeRow
	for i := range rows {
		if r := &rows[i]; r.prefix.Contains(a) && (found == nil || r.prefix.Bits() > found.prefix.Bits()) {
			found = r
		}
	}
	return found
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// spanOf returns the position in spans of an address without zone that is not IPv4-mapped.
func spanOf(a netip.Addr) int {
	i, found := slices.BinarySearchFunc(spans, a, func(s span, a netip.Addr) int { return s.from.Compare(a) })
	if !found {
		i--
	}
	return i
}

// special returns the row that rules an address without zone that is not IPv4-mapped, or nil if it is public.
func special(a netip.Addr) *rangeRow {
	r := spans[spanOf(a)].row
	if a.Is4() || r != nil && r.class == never {
		return r
	}
	if b := a.As16(); b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return &isatap
	}
	return r
}
