package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/killswitch/central/api"
)

// TestNoSessionIsTakenOver: a login makes a new cookie, whatever the browser had; nothing but what was sealed here counts.
func TestNoSessionIsTakenOver(t *testing.T) {
	s := newSite(t, options{})
	b := s.login("viewer")
	planted := b.cookie
	b.post("/login", url.Values{"token": {s.known["alice"]}})
	if b.cookie == planted {
		t.Error("the login kept the cookie that was there")
	}
	name, value, _ := strings.Cut(b.cookie, "=")
	again := s.login("alice").cookie
	if again == b.cookie {
		t.Error("two logins have the same cookie")
	}
	for what, cookie := range map[string]string{
		"a bit changed": name + "=" + flip(value), "empty": name + "=", "a guess": name + "=alice", "twice": b.cookie + "; " + planted,
		"another name": "toolgate-killswitch-login=" + value, "cut": b.cookie[:len(b.cookie)-4],
	} {
		if a := (&browser{site: s, cookie: cookie}).get("/"); a.status != http.StatusSeeOther {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	if a := b.get("/"); a.status != http.StatusOK {
		t.Fatal(a.status)
	}
	clear(s.tokens) // as after a start with other tokens
	if a := b.get("/"); a.status != http.StatusSeeOther {
		t.Errorf("the session outlives its token: %d", a.status)
	}
}

func flip(value string) string {
	c := byte('A')
	if value[20] == 'A' {
		c = 'B'
	}
	return value[:20] + string(c) + value[21:]
}

// TestCookie: scripts do not read it, other sites do not send it with forms, and with TLS no neighbour sets it.
func TestCookie(t *testing.T) {
	for _, tls := range []bool{false, true} {
		s := newSite(t, options{tls: tls})
		b := &browser{site: s}
		a := b.post("/login", url.Values{"token": {s.known["alice"]}})
		c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
		check(t, err)
		if !c.HttpOnly || c.Secure != tls || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode || strings.HasPrefix(c.Name, "__Host-") != tls ||
			c.MaxAge != 3600 {
			t.Errorf("TLS %v: %s", tls, c)
		}
		b.want(b.get("/"), 200, "alice")
		if a := b.post("/logout", nil); a.status != http.StatusSeeOther || b.cookie != "" {
			t.Errorf("logout: %d %s", a.status, b.cookie)
		}
	}
}

// TestUnknownToken is said in words.
func TestUnknownToken(t *testing.T) {
	s := newSite(t, options{})
	b := &browser{site: s}
	for _, token := range []string{"", "x", s.known["alice"] + "x"} {
		b.want(b.post("/login", url.Values{"token": {token}}), 403, "unknown_token", "this token is not known")
	}
	if b.cookie != "" {
		t.Error("a cookie is set")
	}
	var nobody api.Tokens
	if _, err := nobody.Authenticate(&http.Request{}); err == nil {
		t.Error("no tokens know somebody")
	}
}
