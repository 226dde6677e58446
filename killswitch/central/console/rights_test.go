package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// TestRoles: who may look changes nothing, and is shown no button.
func TestRoles(t *testing.T) {
	s := newSite(t, options{service: func(o *central.Options) { o.SecondPerson.Restore = true }})
	s.pod("p", nil, "x")
	s.revoke("alice", "x", ledger.Selector{Tool: []string{"x"}}, "r")
	alice, b := s.login("alice"), s.login("viewer")
	alice.post("/restore", url.Values{"id": {"x"}, "reason": {"r"}})
	all := forms(alice)
	all["/approve"].Set("revision", "2")
	all["/decline"].Set("revision", "2")
	delete(all, "/logout")
	for path, form := range all {
		if a := b.post(path, form); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if n := len(s.entries()); n != 2 {
		t.Errorf("%d entries", n)
	}
	for _, path := range []string{"/", "/stop?preview=1&tool=x", "/restore?id=x", "/proposal?revision=2", "/drill", "/search?q=x"} {
		a := b.get(path)
		b.want(a, 200)
		for _, button := range []string{`method="post"`, `href="/stop`} {
			if strings.Contains(strings.ReplaceAll(a.body, `action="/logout" method="post"`, ""), button) {
				t.Errorf("%s shows %s to a viewer", path, button)
			}
		}
	}
}

// TestTenants: who is limited to tenants sees and does nothing of others'.
func TestTenants(t *testing.T) {
	s := newSite(t, options{service: func(o *central.Options) { o.SecondPerson.Restore = true }})
	s.pod("p", []bus.Running{{Tool: "t-mine", Tenant: "acme", Calls: 3}, {Tool: "t-globex", Tenant: "globex", Calls: 4}}, "t-mine", "t-globex")
	s.deaf("silent", []bus.Running{{Tool: "t-mine", Tenant: "acme", Calls: 7}, {Tool: "t-globex", Tenant: "globex", Calls: 8}}, "t-mine", "t-globex")
	mine, others := ledger.Selector{Tool: []string{"t-mine"}, Tenant: []string{"acme"}}, ledger.Selector{Tool: []string{"t"}, Tenant: []string{"globex"}}
	s.revoke("alice", "r-globex", others, "globex")
	s.revoke("alice", "r-mine", mine, "mine")
	alice, b := s.login("alice"), s.login("acme")
	alice.post("/restore", url.Values{"id": {"r-globex"}, "reason": {"globex"}})
	alice.post("/restore", url.Values{"id": {"r-mine"}, "reason": {"done"}})
	for path, status := range map[string]int{
		"/": 200, "/history": 200, "/search?q=glo": 200, "/search?q=mine": 200, "/revisions/2": 200, "/proposal?revision=4": 200, "/restore?id=r-mine": 200,
		"/revisions/1": 404, "/revisions/3": 404, "/proposal?revision=3": 404, "/restore?id=r-glo": 404, "/sidecars": 403,
		"/stop?preview=1&tool=t-mine": 403, "/stop?preview=1&all=true": 403, "/stop?preview=1&tenant=acme&tenant=other": 403,
	} {
		a := b.get(path)
		if a.status != status || strings.Contains(a.body, "globex") {
			t.Errorf("%s: %d, want %d\n%s", path, a.status, status, a.body)
		}
	}
	b.want(b.get("/revisions/2"), 200, "shop/silent", "7 <bdi>t-mine</bdi> for <bdi>acme</bdi>")
	b.want(b.get("/"), 200, "t-mine", "mine", "/proposal?revision=4")
	for path, form := range map[string]url.Values{
		"/stop": {"tool": {"t"}, "reason": {"r"}, "confirm": {"t"}}, "/restore": {"id": {"r-globex"}, "reason": {"r"}}, "/drill": {"reason": {"r"}},
		"/approve": {"revision": {"3"}}, "/decline": {"revision": {"3"}, "reason": {"r"}},
	} {
		if a := b.post(path, form); a.status != http.StatusForbidden || strings.Contains(a.body, "globex") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if n := len(s.entries()); n != 4 {
		t.Fatalf("%d entries", n)
	}
	form := b.form("tool=t-mine&tenant=acme", url.Values{"reason": {"r"}, "confirm": {"t-mine"}})
	if a := b.post("/stop", form); a.location != "/revisions/5" {
		t.Errorf("their own: %d %s", a.status, a.body)
	}
}
