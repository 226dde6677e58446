package egress

import (
	"slices"
	"strings"
	"testing"
)

// splices are what the mutations of a name insert.
var splices = []string{
	".", "..", "-", "_", ":", ":443", ":80", ":0", ":00443", ":+443", ":443:443", ":4294967739", "@", "u:p@", "[", "]", "[::1]", "%", "%2e", "%00", "%25", "%eth0",
	"\x00", "\r\n", "\r", "\n", "\t", " ", "\v", "/", "//", `\`, `\\`, "?", "#", ";", ",", "*", "*.", "xn--", "xn--a", "\u200b", "\u00ad", "\ufeff", "。", "．", "ｔ", "\u212a", "\u0130",
	"\u017f", "é", "\xff", "\xc0\xae", "evil.test", ".evil.test", "evil.test.", "wild.test", "api.ok.test", "1", "0x7f", "127.0.0.1", "http://", "a.",
}

// mutate changes a text by the script: each three bytes insert, replace, delete, repeat or change the case at some place.
func mutate(text string, script []byte) string {
	for ; len(script) >= 3 && len(text) < 1000; script = script[3:] {
		at := 0
		if len(text) > 0 {
			at = int(script[1]) % (len(text) + 1)
		}
		end := min(at+1, len(text))
		switch splice := splices[int(script[2])%len(splices)]; script[0] % 8 {
		case 0, 1, 2:
			text = text[:at] + splice + text[at:]
		case 3:
			text = text[:at] + splice + text[end:]
		case 4:
			text = text[:at] + text[end:]
		case 5:
			text = text[:at] + strings.ToUpper(text[at:])
		case 6:
			text = splice + text
		case 7:
			text += splice
		}
	}
	return text
}

// bases are texts that the policy of allowList allows, or that are near them.
var bases = []string{
	"api.ok.test:443", "api.ok.test", "a.wild.test:443", "a.b.wild.test", "xn--bcher-kva.test:443", "8.8.4.4:443", "[2001:4860:4860::8844]:443", "wild.test:443", "evil.test:443",
	"api.ok.test:80", "api.ok.test.:443", "API.OK.TEST:443",
}

func allowList(t testing.TB) *Policy {
	t.Helper()
	var allowed []Pattern
	for _, entry := range []string{"api.ok.test:443", "*.wild.test:443", "xn--bcher-kva.test:443", "8.8.4.4:443", "[2001:4860:4860::8844]:443"} {
		var p Pattern
		if err := p.UnmarshalText([]byte(entry)); err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, p)
	}
	return NewPolicy(allowed, nil)
}

// meansAllowed is allowList told in another way: the text without its port, in lower case and without one trailing dot is one of
// the names. The IPv6 address alone has more spellings.
func meansAllowed(text string) bool {
	name, hadPort := strings.CutSuffix(text, ":443")
	if strings.HasPrefix(name, "[") {
		return strings.HasSuffix(name, "]") && strings.Trim(strings.ToLower(name), "[]0123456789abcdef:.") == "" &&
			strings.Count(name, "[") == 1 && strings.Contains(strings.ToLower(name), "8844")
	}
	if !hadPort && strings.Contains(name, ":") {
		return false
	}
	lower := []byte(name)
	for i, c := range lower { // ASCII only: strings.ToLower folds the Kelvin sign
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	if string(lower) == "8.8.4.4" {
		return true
	}
	canonical := strings.TrimSuffix(string(lower), ".")
	if slices.Contains([]string{"api.ok.test", "xn--bcher-kva.test"}, canonical) {
		return true
	}
	below, found := strings.CutSuffix(canonical, ".wild.test")
	return found && below != "" && strings.Trim(below, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" &&
		!strings.Contains(below, "..") && below[0] != '.' && below[len(below)-1] != '.'
}

// FuzzAllowsNoMore: what is allowed is, letter case and one trailing dot aside, what the allowlist says, however it was mutated.
func FuzzAllowsNoMore(f *testing.F) {
	for i := range splices {
		for j := range bases {
			f.Add(byte(j), []byte{byte(i + j), byte(i * 5), byte(i)})
		}
	}
	policy := allowList(f)
	for _, base := range bases[:7] { // or the property would be empty
		host, port, err := ParseAuthority(base, 443)
		if err != nil || policy.Decide(Target{Host: host, Port: port}).Verdict != Allow {
			f.Fatalf("%q is not allowed", base)
		}
	}
	f.Fuzz(func(t *testing.T, base byte, script []byte) {
		text := mutate(bases[int(base)%len(bases)], script)
		checkNoAddress(t, text)
		host, port, err := ParseAuthority(text, 443)
		if err != nil {
			return
		}
		target := Target{Host: host, Port: port}
		if policy.Decide(target).Verdict == Allow && !meansAllowed(text) {
			t.Fatalf("%q is allowed, as %q", text, target.HostPort())
		}
	})
}
