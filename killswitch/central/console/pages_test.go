package console_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func insecure(u string) *tls.Config {
	if strings.HasPrefix(u, "https:") {
		return &tls.Config{InsecureSkipVerify: true} // the test's own server
	}
	return nil
}

// TestRevokeAndRestore goes the way that a browser without script goes.
func TestRevokeAndRestore(t *testing.T) {
	s := newSite(t, options{})
	s.pod("refunds-1", []bus.Running{{Tool: "refunds", Tenant: "acme", Calls: 5}}, "refunds", "mail")
	s.pod("mail-1", nil, "mail")
	b := s.login("alice")
	b.want(b.get("/"), 200, "Nothing is stopped", "<bdi>refunds</bdi>", "<bdi>acme</bdi>", "sidecars: <b>2</b> live")
	b.want(b.get("/search?q=refund"), 200, "/stop?preview=1&amp;tool=refunds", "shop/refunds-1")
	a := b.get("/stop?preview=1&tool=refunds")
	b.want(a, 200, "<b>1 sidecar</b> of 2", "<b>5 calls</b>", "shop/refunds-1", `type <b class="word">refunds</b>`)

	form := b.form("tool=refunds&tenant=", url.Values{"reason": {"leak"}, "ticket": {"SEC-1"}, "expires": {"1h"}, "confirm": {"refund"}})
	b.want(b.post("/stop", form), 400, "nothing was stopped", `value="leak"`, `value="SEC-1"`, `value="1h" selected`)
	form.Set("confirm", "refunds")
	form.Set("reason", " ")
	b.want(b.post("/stop", form), 400, "the reason is missing")
	form.Set("reason", "leak")
	form.Set("expires", "99h")
	b.want(b.post("/stop", form), 400, "times to choose from")
	if n := len(s.entries()); n != 0 {
		t.Fatalf("%d entries before anything was confirmed", n)
	}
	form.Set("expires", "1h")
	for range 2 { // a form that is sent twice counts once
		if a := b.post("/stop", form); a.status != 303 || a.location != "/revisions/1" {
			t.Fatal(a.status, a.location, a.body)
		}
	}
	e := s.entries()
	if len(e) != 1 || e[0].By != "alice" || e[0].Reason != "leak" || e[0].Ticket != "SEC-1" || time.Until(e[0].Expires) < 50*time.Minute {
		t.Fatalf("%+v", e[0])
	}
	eventually(t, "both have acknowledged", func() bool { return strings.Contains(b.get("/revisions/1").body, ">2/2</b>") })
	b.want(b.get("/revisions/1"), 200, "4 running calls", "Done.", "shop/refunds-1", "shop/mail-1", "/restore?id="+e[0].ID)
	b.want(b.get("/"), 200, "leak", "until "+e[0].Expires.Format("2006-01-02 15:04:05"))
	b.want(b.get("/restore?id="+e[0].ID), 200, "leak")
	b.want(b.post("/restore", url.Values{"id": {e[0].ID}}), 400, "the reason is missing")
	if a := b.post("/restore", url.Values{"id": {e[0].ID}, "reason": {"fixed"}}); a.location != "/revisions/2" {
		t.Fatal(a.status, a.body)
	}
	b.want(b.get("/history"), 200, "fixed", "leak", "restore")
	b.want(b.get("/restore?id="+e[0].ID), 404, "nothing of this id is stopped")
	b.want(b.post("/drill", url.Values{}), 400, "the reason is missing")
	if a := b.post("/drill", url.Values{"reason": {"monday"}}); a.location != "/revisions/3" {
		t.Fatal(a.status, a.body)
	}
}

// TestAnotherFormUnderTheSameID is not taken for the one that was sent before.
func TestAnotherFormUnderTheSameID(t *testing.T) {
	s := newSite(t, options{})
	b := s.login("alice")
	form := b.form("tool=x", url.Values{"reason": {"r"}, "confirm": {"x"}})
	b.post("/stop", form)
	form.Set("tool", "y")
	form.Set("confirm", "y")
	b.want(b.post("/stop", form), 409, "was used for something else")
	other := s.login("bob")
	form.Set("tool", "x")
	form.Set("confirm", "x")
	other.want(other.post("/stop", form), 409, "was used for something else")
}

// TestSecondPerson: who proposes does not approve.
func TestSecondPerson(t *testing.T) {
	s := newSite(t, options{service: func(o *central.Options) { o.SecondPerson.Restore, o.SecondPerson.All = true, true }})
	alice, bob := s.login("alice"), s.login("bob")
	form := alice.form("all=true", url.Values{"reason": {"worm"}, "confirm": {"everything"}})
	alice.want(alice.get("/stop?preview=1&all=true"), 200, "Propose to stop everything")
	if a := alice.post("/stop", form); a.location != "/revisions/1" {
		t.Fatal(a.status, a.body)
	}
	alice.want(alice.get("/"), 200, "Wait for a second person", "worm", "Nothing is stopped")
	alice.want(alice.get("/proposal?revision=1"), 200, "somebody else must approve")
	alice.want(alice.post("/approve", url.Values{"revision": {"1"}}), 403, "somebody else must approve")
	if a := bob.post("/approve", url.Values{"revision": {"1"}, "reason": {"seen <it> too"}}); a.location != "/revisions/2" {
		t.Fatal(a.status, a.body)
	}
	bob.want(bob.get("/revisions/2"), 200, "approved by <bdi>bob</bdi>", "seen &lt;it&gt; too", "everything")
	id := s.entries()[0].ID
	alice.want(alice.get("/restore?id="+id), 200, "Propose to restore it")
	alice.post("/restore", url.Values{"id": {id}, "reason": {"over"}})
	bob.want(bob.post("/decline", url.Values{"revision": {"3"}}), 400, "the reason is missing")
	if a := bob.post("/decline", url.Values{"revision": {"3"}, "reason": {"not yet"}}); a.status != 303 {
		t.Fatal(a.status, a.body)
	}
	if e := s.entries()[0]; e.Op != ledger.Decline || e.By != "bob" || e.Reason != "not yet" {
		t.Fatalf("%+v", e)
	}
}

// TestWatch: events come to who is logged in, for as long as the session lasts.
func TestWatch(t *testing.T) {
	s := newSite(t, options{life: time.Second})
	b := s.login("viewer")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/watch", nil)
	check(t, err)
	req.Header.Set("Cookie", b.cookie)
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	s.revoke("alice", "x", ledger.Selector{Tool: []string{"x"}}, "r")
	seen := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() { // ends with the session
		seen = seen || lines.Text() == "event: entry"
	}
	if !seen || lines.Err() != nil {
		t.Errorf("entry seen: %v; %v", seen, lines.Err())
	}
	eventually(t, "the session has ended", func() bool { return b.get("/").status == http.StatusSeeOther })
	if a := b.get("/watch"); a.status != http.StatusUnauthorized {
		t.Error(a.status)
	}
}

// TestHeaders: nothing of a page comes from elsewhere, and nothing frames it.
func TestHeaders(t *testing.T) {
	s := newSite(t, options{})
	b := s.login("alice")
	for _, path := range []string{"/", "/login", "/nowhere", "/stop", "/static/none"} {
		h := b.get(path).header
		csp := h.Get("Content-Security-Policy")
		for _, need := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(csp, need) {
				t.Errorf("%s: %q lacks %s", path, csp, need)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" ||
			h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}
