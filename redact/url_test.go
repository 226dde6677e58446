package redact

import (
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	const u = "[REDACTED:url]"
	for in, want := range map[string]string{
		"":                                     "",
		"https://h.example/p/a?":               "https://h.example/p/a?",
		"https://h.example:8443/p%2Fa":         "https://h.example:8443/p%2Fa",
		"https://user:pw@h.example/":           "https://h.example/",
		"https://tok@h.example":                "https://h.example",
		"https://a@b:c@h.example/":             "https://h.example/",
		"//u:p@h/p":                            "//h/p",
		"/p?code=1&state=2#access_token=3":     "/p?code=" + u + "&state=" + u + "#" + u,
		"/p?X-Amz-Signature=abc;sig=d&empty=":  "/p?X-Amz-Signature=" + u + ";sig=" + u + "&empty=",
		"/p?justavalue":                        "/p?" + u,
		"/p?" + testJWT + "=1":                 "/p?" + u,
		"/p?na me=1":                           "/p?" + u,
		"/p?" + strings.Repeat("n", 65) + "=1": "/p?" + u,
		"/p?a=b=c":                             "/p?a=" + u,
		"/p?a=b?c#d?e#f":                       "/p?a=" + u + "#" + u,
		"mailto:bob@x.example":                 "mailto:" + u,
		"data:text/plain,secret?x=y":           "data:" + u + "?x=" + u,
		"/p%23access_token=1":                  "/p" + u,
		"/p/%3fcode=1/x?b=2":                   "/p/" + u + "?b=" + u,
		"/p/a%252523b":                         "/p/a" + u,
		"/p/%255Fx%2":                          "[unparsed 11 bytes]",
		"https:/u:pw@h/p":                      "https:/" + u + "/p",
		"/verify/" + testJWT + "/x":            "/verify/[REDACTED:credential]/x",
		"https://[2001:db8::1]:443/p":          "https://[2001:db8::1]:443/p",
		"/a%0d%0a{\"level\":\"info\"}":         "/a%0d%0a{\"level\":\"info\"}",
		"https://h/\u202e":                     `https://h/\u202e`,
		"https://h:pw/":                        "[unparsed 13 bytes]",
		"https://h\\@x/":                       "[unparsed 13 bytes]",
		"ht\ntp://h/":                          "[unparsed 10 bytes]",
		"1:2:" + marker:                        "[unparsed 25 bytes]",
		"%zz":                                  "[unparsed 3 bytes]",
	} {
		got := URL(in)
		if got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", in, got, want)
		}
		if again := URL(got); again != got && !strings.HasPrefix(got, "[unparsed") {
			t.Errorf("%q: not idempotent: %q then %q", in, got, again)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://%s@h/p?a=%s#%s", "//%s", "a:%s", "?%s", "https://h/?a;b=%s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, u := range []string{"https://u:" + marker + "@" + in, in + "?q=" + marker, in + "#" + marker, in + "?a=b&" + marker} {
			if got := URL(u); leaks(in, marker) == "" && leaks(got, marker) != "" && !strings.ContainsAny(in, "/?#\\") {
				t.Fatalf("%q became %q", u, got)
			}
		}
	})
}

func TestHeaders(t *testing.T) {
	const c = "[REDACTED:credential]"
	cases := []struct{ name, value, want string }{
		{"Content-Type", "application/json", "application/json"},
		{"User-Agent", "curl/8\x1b[31m", `curl/8\x1b[31m`},
		{"User-Agent", "x Bearer abc", "x Bearer " + c},
		{"Accept", strings.Repeat("a", 300), unparsed([]byte(strings.Repeat("a", 300)))},
		{"Authorization", "Bearer " + marker, "Bearer " + c},
		{"authorization", "Bearer " + marker, "Bearer " + c},
		{"AUTHORIZATION", "dpop " + marker, "dpop " + c},
		{"Authorization", marker + " x", c},
		{"Authorization", marker, c},
		{"Proxy-Authorization", "Basic " + marker, "Basic " + c},
		{"Toolgate-Authorization", "Bearer " + marker, "Bearer " + c},
		{"Cookie", "sid=" + marker + "; theme=" + marker, "sid=" + c + "; theme=" + c},
		{"cookie", marker, c},
		{"Cookie", testJWT + "=x", c},
		{"Set-Cookie", "sid=" + marker + "; Path=/; HttpOnly; x=" + marker, "sid=" + c + "; Path=/; HttpOnly"},
		{"X-Api-Key", marker, "[REDACTED:header]"},
		{"x-auth-token", marker, "[REDACTED:header]"},
		{"X-VAULT-TOKEN", marker, "[REDACTED:header]"},
		{"Anything-Else", marker, "[REDACTED:header]"},
		{"Location", "https://u:p@h/?code=" + marker, "https://h/?code=[REDACTED:url]"},
		{"Referer", "/p#" + marker, "/p#[REDACTED:url]"},
		{"Link", "<https://h/?t=" + marker + ">", "[REDACTED:header]"},
	}
	for _, tc := range cases {
		attrs := Headers(http.Header{tc.name: {tc.value}}).Group()
		if len(attrs) != 1 || attrs[0].Key != tc.name || attrs[0].Value.String() != tc.want {
			t.Errorf("%s: %.40q: got %v, want %s", tc.name, tc.value, attrs, tc.want)
		}
	}
	got := Headers(http.Header{"B": {"1", "2"}, "Accept": {"a", "b"}, "bad name\n": {"x"}, "": {"y"}})
	if want := `[*=[REDACTED:header] Accept=a, b B=[REDACTED:header], [REDACTED:header] *=[REDACTED:header]]`; got.String() != want {
		t.Errorf("got %s", got)
	}
	if v := Headers(nil); v.Kind() != slog.KindGroup || len(v.Group()) != 0 {
		t.Errorf("nil: %v", v)
	}
}

// TestNamesThatAreValues: a name is shown only if it looks like one, whatever case it has come to.
func TestNamesThatAreValues(t *testing.T) {
	token := "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
	held := holdLive(t).Reveal()
	for _, name := range []string{
		token, "X-" + token, "x-0123abcd4567efab89cdd00d", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "X-Abcdefghijklmnopqrstuvwx", "AKIA" + "QYLPMN5HHHFPZAM2", "X-" + held,
	} {
		if got := Headers(http.Header{name: {"1"}, textproto.CanonicalMIMEHeaderKey(name): {"1"}}).String(); strings.Trim(strings.ReplaceAll(got, "*=[REDACTED:header]", ""), "[ ]") != "" {
			t.Errorf("header: %s", got)
		}
		if name = strings.TrimPrefix(name, "X-"); name == token || name == held {
			for what, got := range map[string]string{
				"cookie": Headers(http.Header{"Cookie": {"a=b; " + name + "=1"}}).String(), "set-cookie": Headers(http.Header{"Set-Cookie": {name + "=1; Secure"}}).String(),
				"query": URL("https://a.test/b?x=1&" + url.QueryEscape(name) + "=1&y=1"),
			} {
				if strings.Contains(got, url.QueryEscape(name)) || !strings.Contains(got, "RED") {
					t.Errorf("%s: %s", what, got)
				}
			}
		}
	}
	for _, name := range []string{
		"Access-Control-Allow-Credentials", "Content-Security-Policy-Report-Only", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "X-Amz-Content-Sha256", "Sec-Websocket-Extensions",
		"X-B3-Parentspanid", "Upgrade-Insecure-Requests", "Idempotency-Key", "Anthropic-Dangerous-Direct-Browser-Access", "X-Permitted-Cross-Domain-Policies", "Http2-Settings",
		"X-Goog-Request-Reason", "Authentication-Results", "Openai-Organization", "Mcp-Protocol-Version", "Sec-Ch-Ua-Full-Version-List", "X-Ms-Client-Principal-Idp",
	} {
		if got := Headers(http.Header{name: {"1"}}).Group()[0].Key; got != name {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
}
