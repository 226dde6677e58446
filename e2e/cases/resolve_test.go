//go:build linux

package cases

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func dnsCases() []replay {
	return []replay{
		{"DNS-01", "lobu-ai/lobu#252; Osmantic/ODS#2211",
			"200 CONNECTs to a name that is public and loopback in turns", "one look-up a dial, and loopback is never dialled", rebinding},
		{"DNS-02", "CVE-2026-58442 (gitea)",
			"CONNECT to a name with a public address that refuses and a private one", "403, nothing dialled", mixedAnswer},
		{"DNS-04", "CNAME chains",
			"an alias of the metadata service; an alias of itself; a chain of 20 given one at a time; one of 20 in one answer with a private end",
			"403; 502; 502; 403; each at once, nothing private dialled", aliases},
		{"DNS-05", "kubernetes/kubernetes#60534",
			"a search list in resolv.conf that makes a name of the cluster of an allowed name", "only absolute names are asked for", searchList},
		{"DNS-08", "name server outage",
			"100 calls while the name server is silent", "502 or 504 within its timeout where a name is needed, what is open goes on, calls work again at once, goroutines go", outage},
		{"DNS-09", "cilium/cilium#28427",
			"a name with 500 addresses, without and with a private one", "200 by a few dials; 403 and none", manyAddresses},
		{"DNS-10", "stale resolution",
			"a name that moves; a name that appears", "new connections go to the new address; the name is found", moving},
		{"DNS-13", "mapping of resolver errors",
			"names that do not exist, fail, are refused", "502 with one code, and nothing of the resolver in the answer", resolverErrors},
	}
}

func rebinding(t *testing.T, w *world) {
	w.dns.setFunc("reb.wild.test", func(n int) reply { return at([]string{addrU2, "127.0.0.1"}[n%2]) })
	for i := range 200 {
		before := len(w.dns.questions())
		want := []int{http.StatusOK, http.StatusForbidden}[i%2]
		w.connect(t, "reb.wild.test:443").is(t, fmt.Sprint("try ", i), want)
		if n := len(w.dns.questions()) - before; n != 2 { // A and AAAA
			t.Fatalf("try %d asked %d questions", i, n)
		}
	}
}

func mixedAnswer(t *testing.T, w *world) {
	const port = ":8443" // where nobody listens
	mixed := w.lab.world(t, allowing("mix.wild.test"+port))
	w.dns.set("mix.wild.test", at(addrU3, "10.0.0.5"))
	mixed.connect(t, "mix.wild.test"+port).is(t, "public first", http.StatusForbidden)
	w.dns.set("mix.wild.test", at("10.0.0.5", addrU3))
	mixed.connect(t, "mix.wild.test"+port).is(t, "private first", http.StatusForbidden)
	w.dns.set("mix.wild.test", at(addrU3, "fd00:ec2::254"))
	mixed.connect(t, "mix.wild.test"+port).is(t, "private in IPv6", http.StatusForbidden)
	w.silent(t)
	w.dns.set("mix.wild.test", at(addrU3))
	mixed.connect(t, "mix.wild.test"+port).is(t, "public alone", http.StatusBadGateway)
}

func aliases(t *testing.T, w *world) {
	chain := make([]string, 20)
	for i := range chain {
		chain[i] = fmt.Sprintf("hop%d.chain.test", i)
		w.dns.set(chain[i], reply{aliases: []string{fmt.Sprintf("hop%d.chain.test", i+1)}})
	}
	alias := func(to ...string) reply { return reply{aliases: to} }
	private := alias(chain...)
	private.addrs = at("10.0.0.5").addrs
	metadata := alias("metadata.google.internal")
	metadata.addrs = at("169.254.169.254").addrs
	for _, tt := range []struct {
		what   string
		r      reply
		status int
	}{
		{"metadata", metadata, http.StatusForbidden}, {"loop", alias("case.wild.test"), http.StatusBadGateway},
		{"one at a time", alias(chain[0]), http.StatusBadGateway}, {"private end", private, http.StatusForbidden},
	} {
		w.dns.set("case.wild.test", tt.r)
		began := time.Now()
		w.connect(t, "case.wild.test:443").is(t, tt.what, tt.status)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%s took %s", tt.what, d)
		}
	}
	w.silent(t)
}

func searchList(t *testing.T, w *world) {
	system := w.lab.world(t, func(s *settings) { s.resolver = "" })
	for _, pinned := range []*world{system, w} {
		w.dns.set("*.svc.cluster.local", at("10.0.0.9"))
		w.dns.set("*.cluster.local", at("10.0.0.9"))
		w.dns.set("gone.wild.test", reply{code: dnsmessage.RCodeNameError})
		pinned.get(t, "http://api.ok.test/").is(t, "a name that is there", http.StatusOK)
		pinned.connect(t, "gone.wild.test:443").is(t, "a name that is not", http.StatusBadGateway)
	}
	for _, q := range w.dns.questions() {
		if !strings.HasSuffix(q.name, ".test") {
			t.Errorf("the name server was asked for %s", q.name)
		}
	}
}

func outage(t *testing.T, w *world) {
	open := w.inside(t, "a.wild.test:443")
	w.get(t, "http://api.ok.test/").is(t, "request", http.StatusOK)
	before := w.goroutines(t)
	w.dns.hush(true)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range 100 {
		wg.Go(func() {
			if i%2 == 0 {
				w.connect(t, "b.wild.test:443").is(t, "tunnel", http.StatusBadGateway, http.StatusGatewayTimeout)
			} else {
				w.get(t, "http://api.ok.test/").is(t, "request on a kept connection", http.StatusOK)
			}
		})
	}
	wg.Wait()
	if d := time.Since(began); d > 7*time.Second {
		t.Errorf("the calls took %s", d)
	}
	open.send(t, "GET / HTTP/1.1\r\nHost: a.wild.test\r\n\r\n")
	open.read(t, "GET").is(t, "the open tunnel", http.StatusOK)
	w.dns.hush(false)
	began = time.Now()
	w.connect(t, "b.wild.test:443").is(t, "after it", http.StatusOK)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("recovery took %s", d)
	}
	eventually(t, "goroutines are back", func() bool { return w.goroutines(t) <= before+10 })
}

func manyAddresses(t *testing.T, w *world) {
	var all reply
	for i := range 500 {
		addr := fmt.Sprintf("93.184.%d.%d", 220+i/250, 1+i%250)
		all.addrs = append(all.addrs, at(addr).addrs...)
		w.mean(addr)
	}
	w.dns.set("many.wild.test", all)
	w.connect(t, "many.wild.test:443").is(t, "all public", http.StatusOK)
	if n := len(w.wire.dials()); n < 1 || n > 8 {
		t.Errorf("%d dials", n)
	}
	w.wire.forget()
	all.addrs = append(slices.Clone(all.addrs[:250]), append(at("10.0.0.5").addrs, all.addrs[250:]...)...)
	w.dns.set("many.wild.test", all)
	w.connect(t, "many.wild.test:443").is(t, "one private", http.StatusForbidden)
	w.silent(t)
}

func moving(t *testing.T, w *world) {
	w.dns.set("move.wild.test", at(addrU1))
	w.connect(t, "move.wild.test:443").is(t, "before", http.StatusOK)
	w.dns.set("move.wild.test", at(addrU3))
	w.connect(t, "move.wild.test:443").is(t, "after", http.StatusOK)
	if !w.dialled(addrU3 + ":443") {
		t.Error("the new address was not dialled")
	}
	w.dns.set("late.wild.test", reply{code: dnsmessage.RCodeNameError})
	w.connect(t, "late.wild.test:443").is(t, "a name that is not there", http.StatusBadGateway)
	w.dns.set("late.wild.test", at(addrU2))
	w.connect(t, "late.wild.test:443").is(t, "the name when it is", http.StatusOK)

	// An intercepted host has connections that are kept. Once the old address has closed them, the new one is used.
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Connection", "close")
		_, _ = io.WriteString(rw, "bye")
	})
	w.get(t, "http://api.ok.test/").is(t, "request before", http.StatusOK)
	w.dns.set("api.ok.test", at(addrU3))
	w.get(t, "http://api.ok.test/").is(t, "request after", http.StatusOK)
	a := w.up.arrivals()
	if got := a[len(a)-1].at.Addr().Unmap().String(); got != addrU3 {
		t.Errorf("the request went to %s", got)
	}
}

func resolverErrors(t *testing.T, w *world) {
	for _, code := range []dnsmessage.RCode{dnsmessage.RCodeNameError, dnsmessage.RCodeServerFailure, dnsmessage.RCodeRefused} {
		w.dns.set("case.wild.test", reply{code: code})
		got := w.connect(t, "case.wild.test:443")
		got.is(t, code.String(), http.StatusBadGateway)
		if got.code != "upstream_unreachable" {
			t.Errorf("%s: code %q", code, got.code)
		}
		for _, word := range []string{"127.0.0.1", ":53", "cluster.local", "lookup", "server misbehaving"} {
			if strings.Contains(got.body, word) {
				t.Errorf("%s: the answer says %q: %s", code, word, got.body)
			}
		}
	}
	w.silent(t)
}
