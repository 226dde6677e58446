package egress

import (
	"encoding/csv"
	"net/netip"
	"os"
	"testing"
)

// csvRow is one line of testdata/ranges.csv: what the registries, the providers and the neighbours of their ranges call for.
type csvRow struct {
	prefix netip.Prefix
	name   string
	deny   bool
}

// eitherDenied holds this product's decision on the lines that leave one: global ranges for name-server sinks and relays
// are denied, a provider's service range in public space is the business of Addresses.Cluster, and what lies outside of
// 2000::/3 is denied.
var eitherDenied = map[string]bool{
	"192.31.196.0/24": true, "192.52.193.0/24": true, "192.175.48.0/24": true, "2620:4f:8000::/48": true,
	"2001:1::1/128": true, "2001:1::2/128": true, "2001:1::3/128": true, "2001:3::/32": true, "2001:4:112::/48": true,
	"34.118.224.0/20": false, "64:ff9c::1/128": true,
}

func readRanges(t *testing.T) []csvRow {
	t.Helper()
	f, err := os.Open("testdata/ranges.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []csvRow
	for _, line := range lines[1:] {
		deny := line[3] == "deny"
		if line[3] == "either" {
			decided, ok := eitherDenied[line[0]]
			if !ok {
				t.Fatalf("no decision on %s", line[0])
			}
			deny = decided
		}
		rows = append(rows, csvRow{netip.MustParsePrefix(line[0]), line[1], deny})
	}
	return rows
}

// expectDeny is the meaning of the file, written apart from the code under test: the narrowest line rules, what no line
// names is denied outside of the two public spaces, and an ISATAP interface identifier is denied anywhere.
func expectDeny(rows []csvRow, a netip.Addr) bool {
	a = a.Unmap()
	deny := a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a)
	bits := -1
	for _, r := range rows {
		if r.prefix.Contains(a) && r.prefix.Bits() > bits {
			deny, bits = r.deny, r.prefix.Bits()
		}
	}
	b := a.As16()
	isatap := a.Is6() && (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
	return deny || isatap
}

// edges returns both sides of both ends of a prefix.
func edges(p netip.Prefix) []netip.Addr {
	first, last := p.Addr(), lastAddr(p)
	var out []netip.Addr
	for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
		if a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}

func TestRangesAtEveryBoundary(t *testing.T) {
	rows := readRanges(t)
	if len(rows) < 100 {
		t.Fatalf("only %d lines", len(rows))
	}
	var prefixes []netip.Prefix
	for _, r := range rows {
		prefixes = append(prefixes, r.prefix)
	}
	for _, r := range specialRanges {
		prefixes = append(prefixes, r.prefix)
	}
	var a Addresses
	for _, p := range prefixes {
		for _, addr := range edges(p) {
			want := expectDeny(rows, addr)
			forms := []netip.Addr{addr}
			if addr.Is4() {
				forms = append(forms, netip.AddrFrom16(addr.As16())) // ::ffff:a.b.c.d
			}
			for _, form := range forms {
				err := a.Judge("t", netip.AddrPortFrom(form, 443))
				if (err != nil) != want {
					t.Errorf("%s, at an edge of %s: %v, want denied %v", form, p, err, want)
				}
			}
		}
	}
}

func TestRangeRowsAreWellFormed(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for i, r := range specialRanges {
		if r.prefix != r.prefix.Masked() || r.name == "" || r.source == "" {
			t.Errorf("row %d is incomplete or has host bits: %+v", i, r)
		}
		if seen[r.prefix] {
			t.Errorf("%s stands twice", r.prefix)
		}
		seen[r.prefix] = true
		if i == 0 {
			continue
		}
		before := specialRanges[i-1].prefix
		if c := before.Addr().Compare(r.prefix.Addr()); c > 0 || c == 0 && before.Bits() > r.prefix.Bits() {
			t.Errorf("%s stands before %s", before, r.prefix)
		}
	}
}

func TestLastAddr(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/8": "10.255.255.255", "0.0.0.0/0": "255.255.255.255", "1.2.3.4/32": "1.2.3.4", "192.0.0.170/31": "192.0.0.171",
		"::/3": "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::/32": "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "::1/128": "::1",
	} {
		if got := lastAddr(netip.MustParsePrefix(in)); got != netip.MustParseAddr(want) {
			t.Errorf("lastAddr(%s) = %s, want %s", in, got, want)
		}
	}
}
