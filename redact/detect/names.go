package detect

import "bytes"

// maxName bounds a name; a longer one is no field's.
const maxName = 128

// secretSuffixes end the names of secrets, normalised: db_password, X-Vault-Token, clientSecret.
var secretSuffixes = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "apisecret", "secretkey", "privatekey",
	"accesskey", "accountkey", "credential", "secretaccesskey", "sharedkey", "signingkey", "encryptionkey", "authkey"}

// harmless are names that end so and hold none: what a reader of a payload looks for.
var harmless = []string{"pagetoken", "nexttoken", "csrftoken", "xsrftoken", "publictoken", "synctoken", "continuationtoken", "maxtoken", "cancellationtoken",
	"authenticitytoken", "resumetoken", "changetoken", "cursortoken"}

// secretName reports whether a name, normalised, is a secret's.
func secretName(n []byte) bool {
	for _, s := range secretSuffixes {
		if len(n) >= len(s) && string(n[len(n)-len(s):]) == s {
			for _, h := range harmless {
				if len(n) >= len(h) && string(n[len(n)-len(h):]) == h {
					return false
				}
			}
			return true
		}
	}
	return false
}

// normalise appends the name in lower case, without what spellings differ in.
func normalise[T string | []byte](dst []byte, name T) []byte {
	for i := 0; i < len(name); i++ {
		switch b := name[i]; {
		case in(b, "_-. []"):
		case isUpper(b):
			dst = append(dst, b|0x20)
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// secretValue reports whether a field's name says that its value is a secret, and the value does not say that it is none.
func (c *scanner) secretValue(name string, value []byte) bool {
	var buf [64]byte
	n := normalise(buf[:0], name)
	return secretName(n) && len(bytes.TrimSpace(value)) > 0 && !template(value) && !standIn(value) && !masked(value)
}

// pair finds the value behind a name of which a secret's word stands here: password=…, "token": "…", api key is …. What stands
// for a value, such as ${TOKEN}, and a word of prose are none.
func (c *scanner) pair(at int) {
	if at < c.pairs {
		return
	}
	start := back(c.text, at, maxName, &nameByte)
	end := at + run(c.text[at:min(len(c.text), at+maxName)], 0, &nameByte)
	if end < len(c.text) && c.text[end] == ' ' && foldPrefix(c.text[at:], "api key") {
		end = at + len("api key")
	}
	c.pairs = end
	from, quote := separator(c.text, end)
	if from < 0 {
		return
	}
	var buf [64]byte
	if end-start > maxName || !secretName(normalise(buf[:0], bytes.TrimRight(c.text[start:end], "."))) {
		return
	}
	if bytes.HasSuffix(c.text[:start], []byte(placeholder)) && c.text[end] == ']' {
		return // the class of a placeholder is nobody's name
	}
	to := valueEnd(c.text, from, quote)
	if len(bytes.Trim(c.text[to:min(len(c.text), to+maxName)], closing)) == 0 && len(c.text)-to < maxName || quote != 0 && c.text[to] != quote && len(c.text)-from < maxValue {
		c.touch(from)
	}
	value := plain(c.text[from:to])
	if len(value) < 6 || template(value) || standIn(value) || !varied(value) && (quote == 0 && len(value) < 24 || identifier(value)) || entropy(value) < 2 || prose(value) && !in(c.text[end], "\"'\\") {
		return
	}
	if last := bytes.TrimRight(value, " "); in(last[len(last)-1], "=:") && len(last) < len(value) {
		return // the quote closes what was opened before, and another name stands in between
	}
	c.pairs = to
	c.hide(from, to, Credential)
}

// separator passes over what stands between a name and its value, such as `": "`, and returns the quote that the value stands in.
// from is -1 where there is no value.
func separator(text []byte, at int) (from int, quote byte) {
	for at < len(text) && in(text[at], "\"'`\\]") {
		at++
	}
	at = run(text, at, &blank)
	op := at
	for at < len(text) && at-op < 3 && in(text[at], "=:>|?") {
		at++
	}
	if op == at || string(text[op:at]) == ">" || string(text[op:at]) == "|" || string(text[op:at]) == "?" {
		return -1, 0
	}
	at = run(text, at, &blank)
	if at < len(text) && text[at] == '\\' && at+1 < len(text) {
		at++
	}
	if at < len(text) && in(text[at], "\"'`") {
		return at + 1, text[at]
	}
	return at, 0
}

var (
	blank     = classOf(func(b byte) bool { return b == ' ' || b == '\t' })
	pairValue = classOf(func(b byte) bool { return b > ' ' && b != 0x7f && !in(b, "\"'`<>,;&") })
)

// closing are signs that end a sentence or an object rather than a value.
const closing = ".:\\])}"

// maxValue bounds a value; a longer one is a text.
const maxValue = 4 << 10

// valueEnd returns the end of a value: its closing quote, or the first byte that ends one without quotes.
func valueEnd(text []byte, at int, quote byte) int {
	if quote != 0 {
		for i := at; i < len(text) && i < at+maxValue; i++ {
			if text[i] == '\n' {
				break
			}
			if text[i] == quote {
				if i > at && text[i-1] == '\\' {
					i--
				}
				return i
			}
		}
	}
	end := at + run(text[at:min(len(text), at+maxValue)], 0, &pairValue)
	for end > at && in(text[end-1], closing) {
		end--
	}
	return end
}

// plain returns the longest piece of a value that is outside of placeholders: that is what remains to be judged.
func plain(value []byte) (longest []byte) {
	for {
		i := bytes.Index(value, []byte(placeholder))
		n := 0
		if i >= 0 {
			n = placeholderLen(value[i:])
		}
		if i >= 0 && n == 0 && len(value)-i < len(placeholder)+16 {
			n = len(value) - i // its "]" was taken for the text's
		}
		if n == 0 {
			i = len(value)
		}
		if i > len(longest) {
			longest = value[:i]
		}
		if i+n >= len(value) {
			return longest
		}
		value = value[i+n:]
	}
}

// hide masks a value, but for the placeholders in it: they stay as they are, and so do signs that are left beside them, so that
// masking twice changes nothing.
func (c *scanner) hide(start, end int, class string) {
	for first := true; start < end; first = false {
		i := bytes.Index(c.text[start:end], []byte(placeholder))
		n := 0
		if i >= 0 {
			n = placeholderLen(c.text[start+i:])
		}
		if n == 0 {
			if first || bytes.IndexFunc(c.text[start:end], secretive) >= 0 {
				c.found(start, end, class)
			}
			return
		}
		if bytes.IndexFunc(c.text[start:start+i], secretive) >= 0 {
			c.found(start, start+i, class)
		}
		start += i + n
	}
}

func secretive(r rune) bool { return r >= 0x80 || wordByte[r] }
