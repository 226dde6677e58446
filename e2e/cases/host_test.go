//go:build linux

package cases

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func hostCases() []replay {
	return []replay{
		{"HST-01", "CVE-2022-24825 (smokescreen)",
			"CONNECT to a revoked host with a dot at its end", "403, nothing dialled", revokedHost("bad.wild.test.:443")},
		{"HST-02", "CVE-2022-24825 (smokescreen)",
			"CONNECT to a revoked host in other letter case", "403, nothing dialled", revokedHost("BaD.WILD.test:443")},
		{"HST-08", "tinyproxy#627; luongnv89/yt-search-lib#12",
			"CONNECT to names that end in, or begin with, the text of a wildcard", "403, not resolved",
			tunnels(http.StatusForbidden, "notwild.test:443", "evilwild.test:443", "wild.test.evil.test:443")},
		{"HST-09", "tinyproxy#627",
			"the apex and a name two labels below, as a blind tunnel, an intercepted tunnel and a plain request", "403 for the apex, 200 below, in each", wildcardDepth},
		{"HST-11", "Go http.ReadRequest takes user info in targets",
			"an allowed name as user info before another host", "400, not resolved, user info not printed", userInfo},
		{"HST-13", "golang/go#80417",
			"GET of loopback in full-width digits and with ideographic dots", "400, nothing dialled",
			gets(http.StatusBadRequest, "http://１２７．０．０．１:6379/", "http://127。0。0。1:6379/")},
		{"HST-14", "archie-judd/agent-sandbox.nix#106",
			"CONNECT with the Kelvin sign and a dotted capital I in place of letters of listed names", "400, not resolved", foldedLetters},
		{"HST-17", "indutny/node-ip#160, #162; GHSA-r46f-3rpw-hxrv (hugo)",
			"CONNECT to loopback in octal, decimal, hex and short spelling", "400, nothing dialled",
			tunnels(http.StatusBadRequest, "017700000001:6379", "2130706433:6379", "0x7f000001:6379", "127.1:6379", "0x7f.1:6379", "0:6379")},
		{"HST-18", "PayloadsAllTheThings, SSRF-Cloud-Instances",
			"GET of the metadata address in overflowing, dotless and mixed spellings", "400, nothing dialled",
			gets(http.StatusBadRequest, "http://425.510.425.510/", "http://7147006462/", "http://0x41414141A9FEA9FE/", "http://0251.0376.0251.0376/",
				"http://0251.254.169.254/", "http://2852039166/")},
		{"HST-19", "CVE-2026-69192 (ip-address)",
			"CONNECT to an address with a leading zero", "400, nothing dialled", tunnels(http.StatusBadRequest, "012.0.0.1:443")},
		{"HST-21", "table of stripe/smokescreen's hostport tests",
			"CONNECT with odd spellings of the port", "400, not resolved",
			tunnels(http.StatusBadRequest, "api.ok.test:0", "api.ok.test:65536", "api.ok.test:-1", "api.ok.test:+443", "api.ok.test:0x1bb",
				"api.ok.test:443:80", "api.ok.test:", "api.ok.test", "api.ok.test:4294967739", "api.ok.test:0443")},
		{"HST-23", "anthropic-experimental/sandbox-runtime#274",
			"CONNECT to an allowed host at other ports", "403, not resolved", tunnels(http.StatusForbidden, "api.ok.test:22", "api.ok.test:9999")},
		{"HST-24", "CVE-2026-40280 (gotenberg)",
			"GET with an upper-case scheme of a host that is not allowed", "403, not resolved",
			gets(http.StatusForbidden, "HTTP://evil.test/", "hTTpS://evil.test/")},
		{"HST-25", "Go http.ReadRequest takes any scheme",
			"GET of file, ftp and gopher URLs", "400, no file, nothing dialled",
			gets(http.StatusBadRequest, "file:///etc/passwd", "ftp://api.ok.test/", "gopher://127.0.0.1:6379/_INFO")},
		{"HST-26", "Go http.ReadRequest takes URLs and paths in CONNECT",
			"CONNECT with a URL, a path, an asterisk", "400, not resolved", oddConnects},
		{"HST-27", "RFC 1035, section 2.3.4",
			"CONNECT to names that are too long or have empty labels", "400, not resolved",
			tunnels(http.StatusBadRequest, strings.Repeat(strings.Repeat("a", 63)+".", 5)+"wild.test:443", strings.Repeat("a", 64)+".wild.test:443",
				"a..wild.test:443", ".wild.test:443")},
		{"HST-29", "microsoft/vscode#298332",
			"manifests that list a bare wildcard, a public suffix, a URL, a path", "each is refused at load, with the entry named", widePatterns},
		{"HST-30", "stripe/smokescreen#264",
			"a manifest that lists a name in Unicode", "refused at load, with the form to write", unicodePattern},
		{"HST-32", "Go url.Parse and backslashes",
			"GET with a backslash in the authority", "400, not resolved",
			gets(http.StatusBadRequest, `http://evil.test\@api.ok.test/`, `http://api.ok.test\.evil.test/`)},
	}
}

// tunnels is a case of CONNECTs that are refused without asking or dialling anybody.
func tunnels(status int, targets ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		for _, target := range targets {
			w.connect(t, target).is(t, target, status)
		}
		w.unasked(t)
		w.silent(t)
	}
}

// gets is the same of plain requests.
func gets(status int, urls ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		for _, u := range urls {
			got := w.get(t, u)
			got.is(t, u, status)
			if strings.Contains(got.body, "root:") {
				t.Errorf("%s: the answer has a file", u)
			}
		}
		w.unasked(t)
		w.silent(t)
	}
}

// revokedHost: the entry that denies is a revocation, since a manifest only allows.
func revokedHost(target string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		denied := w.lab.world(t, func(s *settings) {
			s.revocations = "\n  - {id: bad, selector: {host: bad.wild.test}, reason: tests, by: tests, at: 2026-01-01T00:00:00Z}"
		})
		got := denied.connect(t, target)
		got.is(t, target, http.StatusForbidden)
		if got.code != "revoked" {
			t.Errorf("code %q", got.code)
		}
		w.unasked(t)
		w.silent(t)
		denied.connect(t, "good.wild.test:443").is(t, "another host", http.StatusOK)
	}
}

func wildcardDepth(t *testing.T, w *world) {
	plain := w.lab.world(t, allowing("*.wild.test:80"))
	seen := w.lab.world(t, intercepting(`"*.wild.test:443"`))
	for host, status := range map[string]int{"wild.test": http.StatusForbidden, "a.b.wild.test": http.StatusOK} {
		w.connect(t, host+":443").is(t, "tunnel to "+host, status)
		plain.get(t, "http://"+host+"/").is(t, "request to "+host, status)
		seen.connect(t, host+":443").is(t, "intercepted tunnel to "+host, status)
	}
}

func userInfo(t *testing.T, w *world) {
	w.get(t, "http://api.ok.test@evil.test/").is(t, "name as user", http.StatusBadRequest)
	w.get(t, "http://api.ok.test:hunter2-in-url@evil.test/").is(t, "name and password", http.StatusBadRequest)
	w.get(t, "http://user:hunter2-in-url@api.ok.test/").is(t, "password for an allowed host", http.StatusBadRequest)
	w.connect(t, "api.ok.test@evil.test:443").is(t, "CONNECT", http.StatusBadRequest)
	w.unasked(t)
	w.silent(t)
	if strings.Contains(w.printed(), "hunter2") {
		t.Error("the user info was printed")
	}
}

func foldedLetters(t *testing.T, w *world) {
	listed := w.lab.world(t, allowing("k.ok.test", "i.ok.test"))
	tunnels(http.StatusBadRequest, "\u212a.ok.test:443", "\u0130.ok.test:443")(t, listed)
}

func oddConnects(t *testing.T, w *world) {
	for _, target := range []string{"http://api.ok.test:443/x", "/x", "*"} {
		w.once(t, "CONNECT", "CONNECT "+target+" HTTP/1.1\r\nHost: api.ok.test:443\r\n"+w.auth()+"\r\n").is(t, target, http.StatusBadRequest)
	}
	w.unasked(t)
	w.silent(t)
}

func widePatterns(t *testing.T, w *world) {
	for _, entry := range []string{"*", "*.com", "https://api.ok.test", "api.ok.test/path"} {
		w.files(t, allowing(entry)).refusedAtLoad(t, `"`+entry+`"`, "t1.yaml:")
	}
}

func unicodePattern(t *testing.T, w *world) {
	w.files(t, allowing("bücher.test")).refusedAtLoad(t, "xn--bcher-kva.test")
	w.dns.set("xn--bcher-kva.test", at(addrU1))
	w.lab.world(t, allowing("xn--bcher-kva.test")).connect(t, "xn--bcher-kva.test:443").is(t, "the A-label", http.StatusOK)
	for _, q := range w.dns.questions() {
		if q.name != "xn--bcher-kva.test" || q.typ != dnsmessage.TypeA && q.typ != dnsmessage.TypeAAAA {
			t.Errorf("the name server was asked for %v", q)
		}
	}
}
