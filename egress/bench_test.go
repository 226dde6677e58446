package egress

import (
	"net/netip"
	"testing"
)

var decideTargets = []struct {
	name string
	Target
}{
	{"rule", request("GET", "api-4242.svc.example", "/v1/orders/42/lines")},
	{"exact", tunnel("api-9998.svc.example", 443)},
	{"wildcard", tunnel("a.b.c.cdn-9999.example", 443)},
	{"denied", tunnel("a.b.c.d.e.attacker.test", 443)},
}

func BenchmarkDecide(b *testing.B) {
	p := bigPolicy(b)
	for _, target := range decideTargets {
		b.Run(target.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(target.Target)
			}
		})
	}
}

func BenchmarkJudge(b *testing.B) {
	a := Addresses{
		Exempt:  []Exemption{exempt("10.0.0.5/32", []uint16{443}, "t")},
		Cluster: []netip.Prefix{netip.MustParsePrefix("34.118.224.0/20")},
		Own:     []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:15001")},
	}
	for name, text := range map[string]string{
		"public4": "8.8.8.8:443", "public6": "[2606:4700:4700::1111]:443", "exempt": "10.0.0.5:443", "denied": "169.254.169.254:80",
	} {
		ap := netip.MustParseAddrPort(text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = a.Judge("t", ap)
			}
		})
	}
}

func BenchmarkParseHost(b *testing.B) {
	for name, text := range map[string]string{
		"name": "api.orders.example", "upper": "API.Orders.Example.", "alabel": "xn--bcher-kva.example", "ipv4": "198.51.100.7", "ipv6": "2001:db8::1",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = ParseHost(text)
			}
		})
	}
}
