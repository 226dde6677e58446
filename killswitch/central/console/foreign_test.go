package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// forms are requests that change something when alice sends them from the page.
func forms(b *browser) map[string]url.Values {
	return map[string]url.Values{
		"/stop":    b.form("tool=y", url.Values{"reason": {"r"}, "confirm": {"y"}}),
		"/restore": {"id": {"x"}, "reason": {"r"}}, "/drill": {"reason": {"r"}},
		"/approve": {"revision": {"1"}}, "/decline": {"revision": {"1"}, "reason": {"r"}}, "/logout": {},
	}
}

// TestForeignForms: what another site's page makes a browser send, with its cookie, changes nothing.
func TestForeignForms(t *testing.T) {
	s := newSite(t, options{})
	s.revoke("alice", "x", ledger.Selector{Tool: []string{"x"}}, "r")
	b := s.login("alice")
	before := len(s.entries())
	cookie := b.cookie
	for what, header := range map[string]http.Header{
		"another origin":            {"Origin": {"https://evil.example"}},
		"the same host, other port": {"Origin": {"http://127.0.0.1:1"}},
		"the other scheme":          {"Origin": {strings.Replace(s.url, "http:", "https:", 1)}},
		"a name that begins alike":  {"Origin": {s.url + ".evil.example"}},
		"an opaque origin":          {"Origin": {"null"}},
		"no origin":                 {"Origin": nil},
		"fetched cross-site":        {"Sec-Fetch-Site": {"cross-site"}},
		"fetched same-site":         {"Sec-Fetch-Site": {"same-site"}, "Origin": nil},
		"fetched by nobody":         {"Sec-Fetch-Site": {"none"}, "Origin": nil},
	} {
		for path, form := range forms(b) {
			b.header = header
			if a := b.post(path, form); a.status != http.StatusForbidden || len(s.entries()) != before || b.cookie != cookie {
				t.Errorf("%s, %s: %d, %d entries", what, path, a.status, len(s.entries()))
			}
			b.header = nil
		}
		stranger := &browser{site: s, header: header}
		if a := stranger.post("/login", url.Values{"token": {s.known["bob"]}}); a.status != http.StatusForbidden || stranger.cookie != "" {
			t.Errorf("%s: a foreign form logs in: %d", what, a.status)
		}
	}
	for path, form := range forms(b) {
		if path == "/logout" {
			continue
		}
		stranger := &browser{site: s}
		if a := stranger.post(path, form); a.status != http.StatusSeeOther || !strings.HasPrefix(a.location, "/login?next=") {
			t.Errorf("without a session, %s: %d %s", path, a.status, a.location)
		}
		if strings.Contains(stranger.post(path, form).location, "confirm") {
			t.Errorf("%s: the confirmation would come back", path)
		}
		for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
			b.send(method, path+"?"+form.Encode(), form)
		}
	}
	if n := len(s.entries()); n != before {
		t.Errorf("%d entries were written", n-before)
	}
	b.header = http.Header{"Origin": nil, "Sec-Fetch-Site": {"same-origin"}}
	if a := b.post("/drill", url.Values{"reason": {"r"}}); a.status != http.StatusSeeOther {
		t.Errorf("our own form: %d", a.status)
	}
}

// TestLoginLeadsNowhereElse: what stands in next is a path here, however a browser reads it.
func TestLoginLeadsNowhereElse(t *testing.T) {
	s := newSite(t, options{})
	for _, next := range []string{
		"https://evil.example/", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\n/evil.example",
		"javascript:alert(1)", "evil.example", "", "http:/evil.example", "https:evil.example", " //evil.example", "/%0d%0aX-Evil:1\r\nX-Evil: 1",
		"//evil.example/%2f..", "/" + strings.Repeat("a", 3000), "@evil.example", "/..//evil.example",
	} {
		b := &browser{site: s}
		a := b.post("/login", url.Values{"token": {s.known["alice"]}, "next": {next}})
		to, err := url.Parse(s.url)
		check(t, err)
		if to, err = to.Parse(a.location); a.status != http.StatusSeeOther || err != nil || "http://"+to.Host != s.url || a.header.Get("X-Evil") != "" {
			t.Errorf("%q leads to %q", next, a.location)
		}
		if page := b.get("/login?next=" + url.QueryEscape(next)); strings.Contains(page.body, "evil.example") && !strings.Contains(next, "..") {
			t.Errorf("%q stands in the form", next)
		}
	}
	b := &browser{site: s}
	if a := b.post("/login", url.Values{"token": {s.known["alice"]}, "next": {"/stop?preview=1&tool=x"}}); a.location != "/stop?preview=1&tool=x" {
		t.Errorf("a page of ours: %q", a.location)
	}
}
