package redact

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const testJWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"

func TestText(t *testing.T) {
	const c, u = "[REDACTED:credential]", "[REDACTED:url]"
	for in, want := range map[string]string{
		// Ordinary text stays.
		"":                                   "",
		"reloaded 3 manifests in 12ms":       "reloaded 3 manifests in 12ms",
		"listening on 127.0.0.1:15001":       "listening on 127.0.0.1:15001",
		"12:30:45 dial tcp: timeout":         "12:30:45 dial tcp: timeout",
		"GET https://api.example/v1/orders":  "GET https://api.example/v1/orders",
		"spin: 3, tokens: 5, basic ideas":    "spin: 3, tokens: 5, basic ideas",
		"Bearer token missing":               "Bearer token missing",
		`Bearer realm="x"`:                   `Bearer realm="x"`,
		"prénom: Zoë":                        "prénom: Zoë",
		"-----":                              "-----",
		"eyJ":                                "eyJ",
		"a forbearer basically bears a name": "a forbearer basically bears a name",
		// URLs.
		"GET https://u:pw@h.example:8443/p?a=1&b=%20x&flag#frag failed": "GET https://h.example:8443/p?a=" + u + "&b=" + u + "&" + u + "#" + u + " failed",
		`dial "postgres://app:pw@db/x?sslmode=on": no`:                  `dial "postgres://db/x?sslmode=` + u + `": no`,
		"redis://:pw@h/0, next":                                         "redis://h/0, next",
		"two http://a/?x=1 and http://b/?y=2":                           "two http://a/?x=" + u + " and http://b/?y=" + u,
		// Tokens.
		"Authorization: Bearer abc.def-ghi": "Authorization: Bearer " + c,
		"bearer x":                          "bearer " + c,
		"BEARER  x y":                       "BEARER  " + c + " y",
		"Basic dXNlcjpwYXNz":                "Basic " + c,
		"basic dXNlcjpwYXNz":                "basic " + c,
		"Bearer%20abc":                      "Bearer%20" + c,
		"token " + testJWT + " refused":     "token " + c + " refused",
		"cut " + testJWT[:30]:               "cut " + c,
		"unsigned " + testJWT[:42] + ".":    "unsigned " + c,
		"x" + testJWT:                       "x" + c,
		// PEM.
		"key -----BEGIN RSA PRIVATE KEY-----\nMII\nabc\n-----END RSA PRIVATE KEY-----\nend": "key " + c + `\nend`,
		"-----BEGIN PRIVATE KEY-----\nMII cut here":                                         c,
		`{"k":"-----BEGIN EC PRIVATE KEY-----\nMII\n-----END EC PRIVATE KEY-----\n"}`:       `{"k":"` + c + `\n"}`,
		// Names.
		"password=hunter2 user=bob":                        "password=" + c + " user=bob",
		"Password: hunter2":                                "Password: " + c,
		"db_password=x&db=y":                               "db_password=" + c + "&db=y",
		"Server=h;Password=p;Database=d":                   "Server=h;Password=" + c + ";Database=d",
		"client-secret => s3cret":                          "client-secret => " + c,
		"X-Vault-Token: s.abc":                             "X-Vault-Token: " + c,
		"api key: abc":                                     "api key: " + c,
		`{"access_token":"abc","n":1}`:                     `{"access_token":"` + c + `","n":1}`,
		`{\"password\":\"a\\\"b\",\"n\":1}`:                `{\"password\":\"` + c + `\",\"n\":1}`,
		`password='two words' x`:                           `password='` + c + `' x`,
		`password="a\"b" x`:                                `password="` + c + `" x`,
		`password="never closed`:                           `password="` + c,
		`p%61ssword=x`:                                     `p%61ssword=` + c,
		`p\u0061ssword: x`:                                 `password: ` + c,
		"{User:bob Password:hunter2}":                      "{User:bob Password:" + c + "}",
		"Cookie: a=b; c=d":                                 "Cookie: " + c,
		"Set-Cookie: sid=abc; Path=/\r\nX: y":              "Set-Cookie: " + c + `\r\nX: y`,
		`Authorization: Digest username="u", response="r"`: "Authorization: Digest " + c,
		"Proxy-Authorization: Zm9v":                        "Proxy-Authorization: " + c,
		"token: {a: b, c: d}":                              "token: " + c,
		"password=" + c:                                    "password=" + c,
		"password=" + c + "tail":                           "password=" + c,
		"password=[REDACTED:other]tail x":                  "password=" + c,
		"password= ":                                       "password= ",
		// Control characters.
		"a\r\nb\tc\x1b[31m\x00\x7f": `a\r\nb\tc\x1b[31m\x00\x7f`,
		"\u009b\u202e\u2028\ufeff":  `\u009b\u202e\u2028\ufeff`,
		"\xff\xfe":                  `\xff\xfe`,
	} {
		got := Text(in)
		if got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", in, got, want)
		}
		if again := Text(got); again != got {
			t.Errorf("%q: not idempotent: %q then %q", in, got, again)
		}
	}
}

// A cap on the number of masks would let the real secret through after enough false ones.
func TestTextMasksAll(t *testing.T) {
	s := strings.Repeat("password=decoy12345 ", 500) + "password=" + marker
	if got := Text(s); leaks(got, marker) != "" || strings.Contains(got, "decoy") {
		t.Error("a secret after many others is shown")
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"password=x", "Bearer x", "http://a:b@c?d#e", "-----BEGIN X-----", testJWT, "token:\"a\\\"b\"", "\x00\xff\u2028", "authorization: basic bearer x=", `\u00\u0061=`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Text(a)
		if strings.ContainsFunc(got, func(r rune) bool { return r < 0x20 || r == 0x7f || hidden(r) }) || !utf8.ValidString(got) {
			t.Fatalf("%q: control characters in %q", a, got)
		}
		for _, s := range []string{a + " https://u:" + marker + "@h/?q=" + marker + "#" + marker + " " + b, a + "\nBearer " + marker + "\n" + b,
			a + " eyJ" + marker + "." + marker + "." + marker + "\n" + b} {
			if leaks(a+b, marker) == "" && leaks(Text(s), marker) != "" {
				t.Fatalf("%q shows the marker: %q", s, Text(s))
			}
		}
	})
}

func BenchmarkText(b *testing.B) {
	for name, s := range map[string]string{
		"plain":  "call finished after the upstream answered with a redirect",
		"colons": "dial tcp 10.0.0.1:443: connect: connection refused",
		"secret": "GET https://api.example/v1?token=abc failed with Bearer abc.def.ghi",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Text(s)
			}
		})
	}
}
