package console_test

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

const markup = `"'><evil onevil=1 href=javascript:evil()>&lt;evil&gt;</title></textarea><!--<script>evil()</script>`

// TestMarkup: texts of others, which sidecars, tokens and entries carry, stay texts on every page.
func TestMarkup(t *testing.T) {
	s := newSite(t, options{
		service: func(o *central.Options) { o.SecondPerson.Restore = true },
		people:  map[string]central.Principal{markup: responder(), "half": responder(markup)},
	})
	s.pod(markup, []bus.Running{{Tool: markup, Tenant: markup, Calls: 1}}, markup)
	sel := ledger.Selector{Tool: []string{markup}, Tenant: []string{markup}, Subject: []string{markup}}
	s.revoke(markup, markup, sel, markup)
	b := s.login(markup)
	q := url.QueryEscape(markup)
	if a := b.post("/restore", url.Values{"id": {markup}, "reason": {markup}}); a.location != "/revisions/2" {
		t.Fatal(a.status, a.body)
	}
	pages := map[string]answer{"login": (&browser{site: s}).get("/login?next=" + url.QueryEscape("/?"+q))}
	for _, path := range []string{
		"/", "/sidecars", "/history", "/history?id=" + q, "/revisions/1", "/revisions/2", "/search?q=" + q, "/restore?id=" + q, "/proposal?revision=2",
		"/stop?preview=1&tool=" + q + "&tenant=" + q + "&agent=" + q + "&reason=" + q + "&id=" + q, "/drill?reason=" + q, "/restore?id=none" + q,
		"/stop?preview=1&risk=" + q, "/history?before=" + q, "/nowhere" + q,
	} {
		pages[path] = b.get(path)
	}
	pages["wrong"] = b.post("/stop", url.Values{"tool": {markup}, "reason": {markup}, "expires": {markup}, "confirm": {markup + "x"}})
	pages["taken"] = b.post("/stop", url.Values{"id": {markup}, "tool": {markup + "x"}, "reason": {markup}, "confirm": {markup + "x"}})
	pages["own tenant"] = s.login("half").get("/")
	for name, a := range pages {
		tree, err := html.Parse(strings.NewReader(a.body))
		check(t, err)
		for n := range tree.Descendants() {
			look(t, name, n)
		}
	}
	for _, path := range []string{"/", "/sidecars", "/history", "/revisions/1"} {
		if !strings.Contains(pages[path].body, html.EscapeString("<evil onevil=1")) {
			t.Errorf("%s does not show the text at all", path)
		}
	}
}

// look fails for what no template of ours has.
func look(t *testing.T, page string, n *html.Node) {
	t.Helper()
	if n.Type == html.CommentNode {
		t.Errorf("%s: a comment", page)
	}
	if n.Type != html.ElementNode {
		return
	}
	src := ""
	for _, a := range n.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
			t.Errorf("%s: <%s %s=%q>", page, n.Data, a.Key, a.Val)
		}
		if a.Key == "src" {
			src = a.Val
		}
	}
	if n.Data == "evil" || n.Data == "style" || n.Data == "script" && !strings.HasPrefix(src, "/static/console.js") {
		t.Errorf("%s: <%s>", page, n.Data)
	}
}
