package redact

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// secretNames are key names, normalised, whose value is a credential whatever a manifest says.
var secretNames = map[string]bool{
	"password": true, "passwd": true, "secret": true, "clientsecret": true, "token": true, "accesstoken": true,
	"refreshtoken": true, "idtoken": true, "subjecttoken": true, "actortoken": true, "apikey": true,
	"authorization": true, "privatekey": true, "cookie": true, "setcookie": true, "session": true, "otp": true,
	"pin": true, "cvv": true, "clientassertion": true, "assertion": true,
	"samlresponse": true, "samlrequest": true,
}

// secretSuffixes end the names that free text and log attributes use: db_password, X-Vault-Token, Proxy-Authorization.
// Payload keys are compared exactly, since next_page_token and its like are what a reader of a payload looks for.
var secretSuffixes = []string{"password", "passwd", "secret", "token", "apikey", "privatekey", "authorization", "cookie", "assertion"}

// maxName bounds a name worth comparing; a longer one is no field's name.
const maxName = 256

// normalise returns the spelling in which names are compared: NFKC, lower case, without "_", "-", "." and spaces, so that
// camel, snake, kebab and header spellings are one. Bytes that are not UTF-8 are dropped, as lenient parsers do.
func normalise(name string) string {
	var buf [64]byte
	return string(appendNormal(buf[:0], name))
}

func appendNormal(b []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= 0x80:
			return appendNormalUnicode(b[:0], name)
		case c == '_' || c == '-' || c == '.' || c == ' ':
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		default:
			b = append(b, c)
		}
	}
	return b
}

func appendNormalUnicode(b []byte, name string) []byte {
	name = strings.ToLower(norm.NFKC.String(strings.ToValidUTF8(name, "")))
	for _, r := range name {
		switch {
		case r == '_', r == '-', r == '.', r == ' ', r == '\uFFFD', hidden(r):
		default:
			b = append(b, string(r)...)
		}
	}
	return b
}

// secretName reports whether a log attribute or a word before "=" or ":" names a credential.
func secretName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	var buf [64]byte
	return secretNormal(appendNormal(buf[:0], name))
}

func secretNormal(n []byte) bool {
	if secretNames[string(n)] {
		return true
	}
	for _, suffix := range secretSuffixes {
		if strings.HasSuffix(string(n), suffix) {
			return true
		}
	}
	return false
}

// nameEnds are the bytes with which a secret's name ends, and those of which normalised names have no trace or another.
var nameEnds = func() (t [256]bool) {
	add := func(name string) {
		c := name[len(name)-1]
		t[c], t[c-'a'+'A'] = true, true
	}
	for name := range secretNames {
		add(name)
	}
	for _, name := range secretSuffixes {
		add(name)
	}
	add("bearer")
	add("basic")
	for _, c := range "_-.%" {
		t[c] = true
	}
	return t
}()
