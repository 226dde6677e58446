//go:build linux

package cases

import (
	"net/http"
	"strings"
	"testing"
)

func addressCases() []replay {
	return []replay{
		{"ADR-01", "stripe/smokescreen#277",
			"CONNECT to the NAT64 form of the metadata address, which the manifest lists", "403, nothing dialled",
			literals("[64:ff9b::a9fe:a9fe]:80")},
		{"ADR-03", "stripe/smokescreen#277",
			"CONNECT to a name with a 6to4 address around 10.0.0.1", "403, nothing dialled", resolving("2002:0a00:0001::1")},
		{"ADR-04", "stripe/smokescreen#277",
			"CONNECT to a name with a Teredo address", "403, nothing dialled", resolving("2001:0:4136:e378:8000:63bf:3fff:fdd2")},
		{"ADR-06", "CVE-2026-45741 (gotenberg), CVE-2026-44430 (MCP registry)",
			"CONNECT to a name with a site-local address", "403, nothing dialled", resolving("fec0::1")},
		{"ADR-07", "CVE-2026-54452 (doyensec/safeurl)",
			"CONNECT to names in the special ranges of IPv6 and outside of what is assigned", "403 for each, nothing dialled",
			resolving("100::1", "100:0:0:1::1", "2001:2::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1")},
		{"ADR-08", "CVE-2024-24790 (Go net/netip)",
			"IPv4-mapped loopback as an answer of DNS; IPv4-mapped private address in the target", "403, nothing dialled", mappedAddresses},
		{"ADR-10", "stripe/smokescreen#289",
			"an exemption for all IPv4-mapped addresses", "the config is refused; 10.0.0.5 stays out of reach", mappedExemption},
		{"ADR-11", "stripe/smokescreen#265",
			"CONNECT to both ends of the shared address space, and to their neighbours", "403 inside, a dial outside", carrierAddresses},
		{"ADR-12", "CVE-2026-42339 (new-api), CVE-2025-24354 (imgproxy)",
			"CONNECT to the unspecified addresses at a port of loopback", "403, nothing dialled", literals("0.0.0.0:6379", "[::]:6379")},
		{"ADR-14", "Go net/netip: no Is method covers class E",
			"CONNECT to class E and to the broadcast address", "403, nothing dialled", literals("240.0.0.1:443", "255.255.255.255:443")},
		{"ADR-16", "PayloadsAllTheThings, SSRF-Cloud-Instances",
			"GET of the metadata services of Alibaba and Oracle", "403, nothing dialled", otherMetadata},
		{"ADR-17", "PayloadsAllTheThings, SSRF-Cloud-Instances; EKS and GCP documentation",
			"CONNECT to the metadata services of IPv6", "403, nothing dialled",
			literals("[fd00:ec2::254]:80", "[fd00:ec2::23]:80", "[fd20:ce::254]:80")},
		{"ADR-21", "CVE-2024-40632 (linkerd); istio security best practices",
			"the sidecar's own admin port, listed and exempted by mistake, by address and as localhost", "403, nothing dialled", ownPort},
		{"ADR-22", "yamadashy/pdfvision#139; RFC 4291, section 2.5.5.1",
			"CONNECT to IPv4-compatible addresses", "403, nothing dialled", literals("[::7f00:1]:443", "[::10.0.0.1]:443")},
		{"ADR-25", "opensandbox-group/OpenSandbox#1091",
			"CONNECT into the cluster's ranges, one of which is public space", "403, nothing dialled", clusterRanges},
		{"ADR-26", "AikidoSec/firewall-node#555",
			"CONNECT to multicast groups", "403, nothing dialled", literals("239.255.255.250:1900", "[ff02::1]:443", "224.0.0.1:443")},
		{"ADR-28", "boundaries of the IANA registry",
			"CONNECT to the addresses just outside of private ranges", "200, each was dialled", neighbours},
		{"ADR-30", "CVE-2024-47825 (cilium)",
			"exemptions for all of IPv4, and wide ones around metadata and loopback", "the config is refused; both stay out of reach", catchAll},
		{"ADR-32", "CVE-2026-42595 (gotenberg), CVE-2026-58418 (gitea)",
			"a redirect to the metadata address", "the client gets it as it is, nobody follows it, and the client's own try is a 403", redirect},
		{"ADR-33", "GHSA-7rx3-5wx3-5v76 (nebula-mesh)",
			"a manifest that wants private networks where the operator exempts nothing", "403, nothing dialled", manifestAlone},
	}
}

// literals is a case that asks for tunnels to addresses which the manifest lists.
func literals(targets ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		listed := w.lab.world(t, allowing(targets...))
		for _, target := range targets {
			got := listed.connect(t, target)
			got.is(t, target, http.StatusForbidden)
			if got.code != "private_network" {
				t.Errorf("%s: code %q", target, got.code)
			}
		}
		w.silent(t)
	}
}

// resolving is a case that asks for tunnels to an allowed name with each of these addresses.
func resolving(addrs ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		for _, addr := range addrs {
			w.dns.set("case.wild.test", at(addr))
			got := w.connect(t, "case.wild.test:443")
			got.is(t, addr, http.StatusForbidden)
			if got.code != "private_network" {
				t.Errorf("%s: code %q", addr, got.code)
			}
		}
		w.silent(t)
	}
}

// reaching asks for tunnels that must come about.
func reaching(t *testing.T, w *world, targets ...string) {
	t.Helper()
	for _, target := range targets {
		w.connect(t, target).is(t, target, http.StatusOK)
		if !w.dialled(target) {
			t.Errorf("%s was not dialled", target)
		}
	}
}

func mappedAddresses(t *testing.T, w *world) {
	resolving("::ffff:127.0.0.1")(t, w)
	literals("[::ffff:10.0.0.1]:443")(t, w)
}

func mappedExemption(t *testing.T, w *world) {
	w.files(t, egressLines("  allowPrivate: [{prefix: \"::ffff:0:0/96\", ports: [443], tools: [t1]}]\n"),
		manifestLines("  allowPrivateNetwork: true\n")).refusedAtLoad(t, "::ffff:0:0/96")
	literals("10.0.0.5:443")(t, w)
}

func carrierAddresses(t *testing.T, w *world) {
	literals("100.64.0.1:443", "100.127.255.254:443")(t, w)
	neighboursOf(t, w, "100.63.255.255", "100.128.0.0")
}

func neighbours(t *testing.T, w *world) {
	neighboursOf(t, w, "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"2606:2800:220:1::1")
}

func neighboursOf(t *testing.T, w *world, hosts ...string) {
	t.Helper()
	w.mean(hosts...)
	targets := withPort("443", hosts...)
	reaching(t, w.lab.world(t, allowing(targets...)), targets...)
}

func otherMetadata(t *testing.T, w *world) {
	listed := w.lab.world(t, allowing("100.100.100.200", "192.0.0.192"))
	for _, u := range []string{"http://100.100.100.200/latest/meta-data/", "http://192.0.0.192/latest/"} {
		listed.get(t, u).is(t, u, http.StatusForbidden)
	}
	w.silent(t)
}

func ownPort(t *testing.T, w *world) {
	const admin = "127.0.0.1:15020"
	own := w.lab.world(t, func(s *settings) { s.admin = admin }, allowing(admin, "own.wild.test:15020"), manifestLines("  allowPrivateNetwork: true\n"),
		egressLines("  allowPrivate: [{prefix: 127.0.0.1/32, ports: [15020], tools: [t1]}]\n"))
	w.dns.set("own.wild.test", at("127.0.0.1"))
	w.wire.forget()
	own.get(t, "http://"+admin+"/quit").is(t, "GET", http.StatusForbidden)
	own.connect(t, admin).is(t, "CONNECT", http.StatusForbidden)
	own.connect(t, "own.wild.test:15020").is(t, "CONNECT by name", http.StatusForbidden)
	own.connect(t, "localhost:15020").is(t, "CONNECT localhost", http.StatusForbidden)
	w.silent(t)
	if !own.ready() {
		t.Error("the sidecar is not ready any more")
	}
}

func clusterRanges(t *testing.T, w *world) {
	targets := []string{"10.96.0.1:443", "34.118.224.1:443"}
	cluster := w.lab.world(t, allowing(targets...), egressLines("  clusterCIDRs: [10.96.0.0/12, 34.118.224.0/20]\n"))
	for _, target := range targets {
		cluster.connect(t, target).is(t, target, http.StatusForbidden)
	}
	w.silent(t)
	neighboursOf(t, w, "34.118.223.255") // what the range does not cover is public
}

func catchAll(t *testing.T, w *world) {
	for _, prefix := range []string{"0.0.0.0/0", "169.254.0.0/16", "127.0.0.0/8"} {
		w.files(t, egressLines("  allowPrivate: [{prefix: "+prefix+", ports: [22, 80], tools: [t1]}]\n"),
			manifestLines("  allowPrivateNetwork: true\n")).refusedAtLoad(t, prefix)
	}
	// Half of the space is a prefix as well; it lifts neither.
	targets := []string{"169.254.169.254:80", "127.0.0.1:22"}
	wide := w.lab.world(t, allowing(targets...), manifestLines("  allowPrivateNetwork: true\n"),
		egressLines("  allowPrivate:\n    - {prefix: 0.0.0.0/1, ports: [22, 80], tools: [t1]}\n    - {prefix: 128.0.0.0/1, ports: [22, 80], tools: [t1]}\n"))
	for _, target := range targets {
		wide.connect(t, target).is(t, target, http.StatusForbidden)
	}
	w.silent(t)
}

func redirect(t *testing.T, w *world) {
	const to = "http://169.254.169.254/latest/"
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) })
	got := w.get(t, "http://api.ok.test/redirect")
	got.is(t, "the redirect", http.StatusFound)
	if got.header.Get("Location") != to {
		t.Errorf("Location: %q", got.header.Get("Location"))
	}
	if n := len(w.up.arrivals()); n != 1 {
		t.Errorf("%d requests reached upstreams", n)
	}
	w.get(t, to).is(t, "following it", http.StatusForbidden)
}

func manifestAlone(t *testing.T, w *world) {
	greedy := w.lab.world(t, allowing("10.0.0.1:443", "priv.wild.test:443"), manifestLines("  allowPrivateNetwork: true\n"))
	w.dns.set("priv.wild.test", at("10.0.0.1"))
	for _, target := range []string{"10.0.0.1:443", "priv.wild.test:443"} {
		greedy.connect(t, target).is(t, target, http.StatusForbidden)
	}
	w.silent(t)
	if strings.Contains(greedy.printed(), `"decision":"allow"`) {
		t.Error("a record says that it was allowed")
	}
}
