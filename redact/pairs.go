package redact

import (
	"encoding/hex"
	"net/url"
	"strings"
)

// pairs masks the value after the name of a secret: password=…, "token": "…", Authorization: ….
// It is lenient: the text may be a piece of JSON, YAML, a form, a header block or a Go struct.
func (p *pass) pairs(s string) string {
	s = unescapeNames(s)
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); i++ {
		if s[i] != ':' && s[i] != '=' {
			continue
		}
		mask, line := p.named(s[done:i])
		if mask == "" {
			continue
		}
		start, end := pairValue(s, i+1, line)
		if end <= start {
			continue
		}
		b.WriteString(s[done:start])
		b.WriteString(p.put(mask, s[start:end]))
		done, i = end, end-1
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// unescapeNames writes the letters that a piece of JSON has as \u00XX, so that no name hides behind them.
func unescapeNames(s string) string {
	if !strings.Contains(s, `\u00`) {
		return s
	}
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, `\u00`)
		if !ok || len(after) < 2 {
			b.WriteString(s)
			return b.String()
		}
		c, err := hex.DecodeString(after[:2])
		if err == nil && (alnum(c[0]) || strings.IndexByte("_-. ", c[0]) >= 0) {
			b.WriteString(strings.TrimRight(before, `\`))
			b.WriteByte(c[0])
		} else {
			b.WriteString(before + `\u00` + after[:2])
		}
		s = after[2:]
	}
}

// named returns the placeholder if the text ends with the name of a secret, and whether its value reaches to the end
// of the line.
func (p *pass) named(before string) (mask string, line bool) {
	end := len(before)
	for end > 0 && strings.IndexByte(" \t\"'`\\]", before[end-1]) >= 0 {
		end--
	}
	start := wordStart(before, end)
	if start == end {
		return "", false
	}
	quoted := end < len(before) && strings.IndexByte("\"'\\", before[end]) >= 0
	if mask, line := p.nameMask(before[start:end], quoted); mask != "" {
		return mask, line
	}
	// Two words: "api key: …".
	if start > 1 && before[start-1] == ' ' {
		if two := wordStart(before, start-1); two < start-1 {
			return p.nameMask(before[two:end], quoted)
		}
	}
	return "", false
}

func wordStart(s string, end int) int {
	start := end
	for start > 0 && end-start < maxName && (alnum(s[start-1]) || s[start-1] >= 0x80 || strings.IndexByte("_-.%+$", s[start-1]) >= 0) {
		start--
	}
	return start
}

// nameMask returns the placeholder for the value of a name. In a payload, what is a secret by a name of its own list must be quoted, as it is
// in a piece of JSON: for other spellings package detect looks at the value too, and leaves code and templates as they are.
func (p *pass) nameMask(name string, quoted bool) (mask string, line bool) {
	if strings.IndexByte(name, '%') >= 0 {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	if len(name) > maxName {
		return "", false
	}
	var buf [64]byte
	n := appendNormal(buf[:0], name)
	if p.s != nil && (p.s.fields[string(n)] || p.s.fields[normalise(name[strings.LastIndexByte(name, '.')+1:])]) {
		return maskField, p.body
	}
	if !secretNormal(n) || p.body && !quoted {
		return "", false
	}
	return maskCredential, strings.HasSuffix(string(n), "authorization") || strings.HasSuffix(string(n), "cookie")
}

// pairValue finds the value that begins at or after i. With line it reaches to the end of the line. An empty range means
// that there is nothing to mask.
func pairValue(s string, i int, line bool) (start, end int) {
	for i < len(s) && strings.IndexByte(":=> \t", s[i]) >= 0 {
		i++
	}
	slashes := 0
	for i < len(s) && s[i] == '\\' {
		i, slashes = i+1, slashes+1
	}
	if i == len(s) {
		return 0, 0
	}
	if isMask(s[i:]) {
		return 0, 0
	}
	switch s[i] {
	case '"', '\'', '`':
		return quoted(s, i, slashes)
	case '{', '[', '(':
		return i, len(s) // a structure: where it ends is anyone's guess
	}
	stop := " \t\r\n\"'`&;"
	if line {
		i = afterScheme(s, i)
		if i == len(s) || isMask(s[i:]) {
			return 0, 0
		}
		stop = "\r\n"
	}
	end = strings.IndexAny(s[i:], stop)
	if end < 0 {
		end = len(s)
	} else {
		end += i
	}
	// What closes the text around the pair is no part of the value.
	for n := 0; n < 3 && end-1 > i && strings.IndexByte(")]},.:", s[end-1]) >= 0; n++ {
		end--
	}
	return i, end
}

// isMask reports whether s begins with a placeholder and what follows it is no part of the same value. A value that
// merely imitates the beginning of one is masked like any other.
func isMask(s string) bool {
	n := placeholderLen(s)
	return n > 0 && (n == len(s) || strings.IndexByte(" \t\r\n\"'`&;,)]}\\", s[n]) >= 0)
}

// quoted returns what stands between the quote at i, which slashes backslashes precede, and the next quote that is
// escaped no deeper; or all the rest.
func quoted(s string, i, slashes int) (start, end int) {
	quote := s[i]
	start = i + 1
	if isMask(s[start:]) {
		return 0, 0
	}
	run := 0
	for end = start; end < len(s); end++ {
		switch {
		case s[end] == '\\':
			run++
			continue
		case s[end] == quote && (run <= slashes && (slashes > 0 || run == 0) || slashes == 0 && run%2 == 0):
			return start, end - min(run, slashes)
		}
		run = 0
	}
	return start, len(s)
}

// afterScheme skips the scheme of an Authorization value, which is worth keeping.
func afterScheme(s string, i int) int {
	for _, scheme := range authSchemes {
		if n := len(scheme); hasPrefixFold(s[i:], scheme) && len(s) > i+n && s[i+n] == ' ' {
			return i + n + 1
		}
	}
	return i
}

// authSchemes may be shown, in lower case (the IANA registry's common ones and two of wide use).
var authSchemes = []string{"basic", "bearer", "digest", "dpop", "hoba", "mutual", "negotiate", "ntlm", "token", "aws4-hmac-sha256"}
