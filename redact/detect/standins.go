package detect

import "bytes"

// standIn reports whether a value is one that documentation puts in a secret's place: AKIAIOSFODNN7EXAMPLE, sha256~XXXXXXXX,
// PUT_YOUR_TOKEN_HERE, {base64(user:password)}.
func standIn(value []byte) bool {
	return documented(value) || filled(value) || fillIn(value) || call(value)
}

// documented reports a value of twenty bytes or more that ends in EXAMPLE or EXAMPLEKEY, as those of the clouds' handbooks do. One of
// a secret's random characters ends so once in many millions of millions.
func documented(value []byte) bool {
	return len(value) >= 20 && (bytes.HasSuffix(value, []byte("EXAMPLE")) || bytes.HasSuffix(value, []byte("EXAMPLEKEY"))) && run(value, 0, &tokenByte) == len(value)
}

// filled reports whether half of a value, behind a prefix, is "x" or "*" and nothing of the rest is a digit.
func filled(value []byte) bool {
	if i := bytes.IndexByte(value, '~'); i >= 0 && i < 10 {
		value = value[i+1:]
	}
	n := 0
	for _, b := range value {
		switch {
		case in(b, "xX*"):
			n++
		case isDigit(b):
			return false
		}
	}
	return n >= 4 && 2*n >= len(value)
}

// fillIn reports whether a value's words, between "_", "-" and other signs, tell that one's own comes here: YOUR_API_KEY, <your-token>.
func fillIn(value []byte) bool {
	own, what := false, false
	for w := range bytes.FieldsFuncSeq(value, func(r rune) bool { return r > 0x7f || !isAlnum(byte(r)) }) {
		switch string(bytes.ToLower(w)) {
		case "your":
			own = true
		case "here", "token", "key", "secret", "password":
			what = true
		}
	}
	return own && what
}

// call reports a function's call in braces: {base64(email:password)}.
func call(value []byte) bool {
	if len(value) < 5 || value[0] != '{' || value[len(value)-1] != '}' || value[len(value)-2] != ')' {
		return false
	}
	i := run(value, 1, &wordByte)
	return i > 1 && value[i] == '('
}

// namesOne reports whether what a rule took for a secret is the name of one: chain_2_Key, id=db_secret. Its last word is a secret's,
// and the others are words, of which a number may end one.
func namesOne(secret []byte) bool {
	if name, value, ok := bytes.Cut(secret, []byte("=")); ok && identifier(name) {
		secret = value
	}
	words := bytes.Split(secret, []byte("_"))
	switch string(bytes.ToLower(words[len(words)-1])) {
	case "key", "secret", "token", "password":
	default:
		return false
	}
	for _, w := range words {
		w = bytes.TrimRight(w, "0123456789")
		if len(w) == 0 || len(w) > 16 {
			return false
		}
		for i, b := range w {
			if !isAlpha(b) || i > 0 && isUpper(b) && isLower(w[0]) {
				return false
			}
		}
	}
	return len(words) > 1
}
