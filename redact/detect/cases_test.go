package detect

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// The cases of this project's own. What is to be found stands between « and »; the class is that of all of it. No secret is anybody's,
// and each that has a known form is put together here, so that no scanner of sources reports it.
var cases = []struct{ class, text string }{
	// Vendors' tokens.
	{Token, `pushed with «gh` + `p_16C7e42F292c6912E7710c838347Ae178B4a» yesterday`},
	{Token, `{"key":"«AK` + `IAQYLPMN5HNXW2VQ7T»"}`},
	{Token, `url gitlab «gl` + `pat-4xT9_Kq2LmW7vZ3bN8rY» # gitleaks:allow`},
	{Token, `facebook_app_secret = "«` + `d41d8cd98f00b204e9800998ecf8427e»"`},
	{Token, `see https://hooks.slack.com «https://hooks.slack.com/serv` + `ices/T0ABC12345/B0DEF67890/aBcDeFgHiJkLmNoPqRsTuVwX»`},
	{Token, `twilio «S` + `K0123456789abcdef0123456789abcdeF» [REDACTED:token]`},
	{"", `the keyword facebook and a hash da39a3ee5e6b4b0d3255bfef95601890afd80709`},
	{Token, `<add key="Password" value="«four words of secret»" />`},
	{"", `AKIAIOSFODNN7EXAMPLE`},
	{"", `gh` + `p_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`},
	{"", `cache_auth = "server-endpoint-9f8e7d6c"`},
	{"", `charset_key = "abcdefghijklmnopqrstuvwxyz0123"`},
	{Token, `charset_key = "«bcdefghijklm4nopqrstuvwxyz0123»"`},
	{"", `github.com/foo/bar, glpat-xxxxxxxx, sk-learn, secretary, tokenizer, keyboard = something`},

	// JSON Web Tokens.
	{JWT, `token «ey` + `JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXNpZ25hdHVyZQ», then`},
	{JWT, `unsigned «ey` + `JhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.»`},
	{JWT, `encrypted «ey` + `JhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..aXZpdml2aXY.Y2lwaGVy.dGFn» end`},
	{"", `eyJhbGciOiJIUzI1NiJ9 alone`},

	// Private keys.
	{PrivateKey, "x\n«-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----»\ny"},
	{PrivateKey, "«-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END CERTIFICATE-----\nMIIEpAIBAAKCAQEA\n-----END PRIVATE KEY-----» y"},
	{PrivateKey, "cut «-----BEGIN EC PRIVATE KEY-----\nMIIEpAIBAAKCAQEA"},
	{PrivateKey, `"«-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5v\n-----END OPENSSH PRIVATE KEY-----»\n"`},
	{"", "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA\n-----END CERTIFICATE-----\n"},

	// URLs.
	{Userinfo, `postgres://«app:s3cr,et!»@db.example.org:5432/x`},
	{Userinfo, `redis://«:p4ss»@cache.example.org`},
	{Userinfo, `https://«x-oauth-basic-8f3a1c»@git.example.org/r.git`},
	{"", `ssh://git@git.example.org/r.git and http://example.org/@user`},
	{SignedURL, `GET /o/k?X-Amz-Expires=60&X-Amz-Signature=«fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024»&x=1`},
	{Credential, `https://h.example/cb#access_token=«2YotnFZFEjr1zCsicMWpAA»&token_type=example`},
	{SignedURL, `https://h.example/cb?code=«SplxlOBeZQQYbYS6WxSbIA»&x=y`},
	{SignedURL, `https://acct.blob.example/c?sv=2020&sig=«aBcD%2Fef%3D»`},
	{"", `/issues?state=open&code=200&key=name&page_token=7`},

	// Authorization and pairs.
	{Credential, `Authorization: Bearer «mF_9.B5f-4.1JqM»`},
	{Credential, `curl -H "Authorization: Basic «dXNlcjpwYXNzd29yZA==»" https://h.example`},
	{Credential, `Authorization: Digest «username="Mufasa", response="6629fae49393a05397450978507c4ef1"»`},
	{Credential, `{"authorization":"ApiKey «a1b2c3d4e5f6»"}`},
	{Credential, `sent bearer «0123456789abcdef» along`},
	{"", `a bearer of bad news, and basic authentication is used`},
	{Credential, `password=«hunter2!»`},
	{Credential, `db_password: «S3cr3t-value»`},
	{Credential, `{"client_secret": "«correct horse 4 battery»", "x": 1}`},
	{Credential, `{\"apiToken\":\"«ab12cd34ef»\"}`},
	{Credential, `API key = «zx81spectrum48k»`},
	{"", `password=$PASSWORD token: ${TOKEN} secret={{ secret }} pwd=<your password>`},
	{"", `{"key":"[REDACTED:token]":"A2b3C4d5e6"}`},
	{"", `next_page_token=abc123def csrf_token: 1234abcd`},
	{"", `the password is required. token: string, secret: optional`},

	// What stands in a secret's place in documentation.
	{"", `secret_access_key: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY and Authorization: Bearer XXXXXXXXXXXX`},
	{"", `--token="sha256~XXXXXXXXXX_PUT_YOUR_TOKEN_HERE_XXXXXXXXXXXX" api_key=YOUR-API-KEY-2`},
	{"", `Authorization: basic {base64(email:password[\n])}`},
	{"", `import { chain_Anvil1_Key, chain_Anvil2_Key } from './consts'; --mount=type=secret,id=jfrog_secret`},
	{Credential, `password=«your2ndChance» token=«EXAMPLE-7f31» secret: «xxx-9f-kqz7»`},
	{Credential, `token: "«abcDEF123:»", token=«x1y2z3xxxx_Key»`},
	{Token, `charset_key = "«bcd1f_4nop9rstu_vw2xyz0_k3y»"`},

	// Personal data.
	{Card, `card «4111 1111 1111 1111», thanks`},
	{Card, `«5555-5555-5555-4444»`},
	{Card, `{"pan":"«378282246310005»"}`},
	{"", `1748503543012 and 4111111111111112 and order 41111111111111110000`},
	{"", `RS35 2600 0560 1001 6113 70`},
	{Card, `RS3 «4111 1111 1111 1111» 70, XX35 «4111 1111 1111 1111» 70, RS35 «4111 1111 1111 1111»`},
	{IBAN, `to «DE89 3704 0044 0532 0130 00» now`},
	{IBAN, `«GB29NWBK60161331926819»`},
	{"", `DE89 3704 0044 0532 0130 01`},
	{Email, `mail «alice.smith+tag@mail.example.org», please`},
	{"", `alice@localhost and @mention and user@`},
	{Phone, `call «(415) 555-0132» or`},
	{Phone, `«+49 30 1234567»`},
	{Phone, `«+1 415-555-0132»`},
	{"", `version 1.415.2 of 2025-01-01, 123-456-7890`},
	{SSN, `ssn «219-09-9999»`},
	{SSN, `SSN: «219099999»`},
	{"", `219099999 and 000-12-3456 and 2190-99-9999`},
	{IP, `from «203.0.113.7»:443 at 12:34:56`},
	{IP, `[«2001:db8::1»]:80`},
	{"", `1.2.3.4.5 and 256.1.1.1 and std::string and v1.2.3`},
	{MAC, `eth0 «00:1A:2b:3C:4D:5e» up`},
	{Wallet, `pay «1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa» 1`},
	{"", `1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb`},
	{NationalID, `pesel «44051401458».`},
	{NationalID, `NI number «AA 12 34 56 B»`},
	{NationalID, `aadhaar «3123 4567 8909»`},
	{"", `44051401459`},
}

// split takes the marks out.
func split(marked string) (text string, spans []Span) {
	for {
		before, rest, ok := strings.Cut(marked, "«")
		text += before
		if !ok {
			return text, spans
		}
		secret, after, ok := strings.Cut(rest, "»")
		spans = append(spans, Span{Start: len(text), End: len(text) + len(secret)})
		text += secret
		if !ok {
			return text, spans
		}
		marked = after
	}
}

func TestCases(t *testing.T) {
	set := allOf(t)
	for _, c := range cases {
		text, want := split(c.text)
		got := set.Scan(nil, []byte(text), "")
		same := len(got) == len(want)
		for i := 0; same && i < len(got); i++ {
			same = got[i].Start == want[i].Start && got[i].End == want[i].End && got[i].Class == c.class
		}
		if !same {
			t.Errorf("%s\n  got      %v %s\n  expected %v %s", text, got, maskAll(set, text, ""), want, c.class)
		}
	}
}

// With no class named, no personal data is looked for, and secrets are.
func TestOptions(t *testing.T) {
	none, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	personal := map[string]bool{}
	for _, p := range PII {
		personal[p] = true
		one, err := New(Options{PII: []string{p}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			text, want := split(c.text)
			if got := one.Scan(nil, []byte(text), ""); c.class == p && len(got) != len(want) {
				t.Errorf("only %s: %s: %v", p, text, got)
			}
		}
	}
	for _, c := range cases {
		text, want := split(c.text)
		if personal[c.class] {
			want = nil
		}
		if got := none.Scan(nil, []byte(text), ""); len(got) != len(want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, err := New(Options{PII: []string{"shoe_size"}}); err == nil {
		t.Error("an unknown class was taken")
	}
}

// A name tells what its value is, as it does in a text.
func TestNames(t *testing.T) {
	set := allOf(t)
	long := fake{rand.New(rand.NewPCG(8, 8))}.letters(4000, alnum)
	for _, c := range []struct{ name, value, want string }{
		{"password", "abc", "[REDACTED:credential]"},
		{"dbPassword", "two words", "[REDACTED:credential]"},
		{"X-Vault-Token", "x", "[REDACTED:credential]"},
		{"password", "", ""},
		{"password", "${PASSWORD}", "${PASSWORD}"},
		{"password", "[REDACTED:field]", "[REDACTED:field]"},
		{"password", "[REDACTED:field]hunter2", "[REDACTED:credential]"},
		{"next_page_token", "abc", "abc"},
		{"message", "abc", "abc"},
		{"datadog", strings.Repeat("a1b2", 10), "[REDACTED:token]"},
		{"message", strings.Repeat("a1b2", 10), strings.Repeat("a1b2", 10)},
		{"auth", long, "[REDACTED:token]"},
		{"twitter_handle", "someone", "someone"},
		{strings.Repeat("password", 100), "abc", "abc"},
		{"to", "DE89 3704 0044 0532 0130 00", "[REDACTED:iban]"},
	} {
		if got := maskAll(set, c.value, c.name); got != c.want {
			t.Errorf("%.30s: %.40q: %.60q, expected %q", c.name, c.value, got, c.want)
		}
	}
}

// Every rule of the data compiles, both ways, and is found by some word.
func TestRules(t *testing.T) {
	rs := loaded()
	found := map[*rule]bool{}
	for _, w := range rs.words {
		for _, u := range w.rules {
			found[u.rule] = true
		}
	}
	for _, r := range rs.rules {
		r.pattern()
		r.slow()
		for _, a := range r.allow {
			a.exprs()
		}
		if !found[r] {
			t.Errorf("%s is found by no word", r.id)
		}
	}
	rs.allow()
	if len(rs.rules) < 200 || !strings.HasPrefix(rs.source, "github.com/zricethezav/gitleaks/v8 v8.") || !strings.Contains(string(ruleData), "Copyright (c) 2019 Zachary Rice") {
		t.Errorf("%d rules of %q", len(rs.rules), rs.source)
	}
}

// TestSwitchedOff: what a text says about its secrets changes nothing.
func TestSwitchedOff(t *testing.T) {
	set := allOf(t)
	secret := "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
	for _, around := range [][2]string{{"", " # gitleaks:allow"}, {"[REDACTED:token]", ""}, {"[REDACTED:", "]"}, {"--mount=type=secret, ", ""},
		{"import { x } from 'y'; ", ""}, {"-----BEGIN CERTIFICATE----- ", ""}, {"[unparsed 3 bytes]", ""}} {
		if got := maskAll(set, around[0]+secret+around[1], ""); strings.Contains(got, secret[8:30]) {
			t.Errorf("%q: %q", around, got)
		}
	}
}

// Where the small matcher gives up, package regexp finds the same.
func TestSlowly(t *testing.T) {
	set := allOf(t)
	for _, c := range cases {
		text, want := split(c.text)
		for _, r := range set.rules {
			fast := &scanner{Set: set, tried: map[*rule]int{}, slow: map[*rule]int{}}
			fast.begin([]byte(text))
			fast.window(r, 0)
			slow := &scanner{Set: set, tried: map[*rule]int{}, slow: map[*rule]int{}}
			slow.begin([]byte(text))
			slow.slowly(r, 0)
			if f, s := merge(fast.spans), merge(slow.spans); c.class == Token && len(want) == 1 && len(f) != len(s) {
				t.Errorf("%s in %s: %v, and slowly %v", r.id, text, f, s)
			}
			if slow.try(r, 0); len(merge(slow.spans)) > 1 {
				t.Errorf("%s is tried again", r.id)
			}
		}
	}
}

// TestGaveUp: what makes the small matcher give up is looked at all the same.
func TestGaveUp(t *testing.T) {
	set := allOf(t)
	r := &rule{id: "slow", expr: `(?:a|aa|aaa)*(?:a|aa)*b(secret)`, group: firstGroup}
	r.lazy()
	c := &scanner{Set: set, tried: map[*rule]int{}, slow: map[*rule]int{}}
	c.begin([]byte(strings.Repeat("a", 60) + " absecret"))
	if c.try(r, 0); len(c.spans) != 1 || c.spans[0] != (Span{63, 69, Token}) {
		t.Errorf("%v", c.spans)
	}
}

func TestConcurrent(t *testing.T) {
	set := allOf(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, c := range cases {
				text, want := split(c.text)
				if got := set.Scan(nil, []byte(text), ""); len(got) != len(want) {
					t.Errorf("%s: %v", text, got)
				}
			}
		})
	}
	wg.Wait()
}
