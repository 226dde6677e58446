package redact

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// marks are the masks of one payload in place of which stand-ins are to come. While the payload is being read each is a placeholder
// with a number, so that masking goes as it does without stand-ins.
type marks struct{ all []mark }

type mark struct {
	class, value string
	json         bool // value is a JSON value other than a string
	form         bool // it stands where text is form-encoded
}

// markNonce keeps a payload from holding a mark of its own. It lives as long as the process, and no mark leaves that.
var markNonce = sync.OnceValue(func() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
})

const maskUnparsed = "[REDACTED:unparsed]"

// put counts a mask and returns what is written in place of value.
func (p *pass) put(mask, value string) string {
	p.count(mask)
	if p.marks == nil {
		return mask
	}
	return p.marks.add(mark{class: classOf(mask), value: value})
}

// putForm is put in a place where text is form-encoded; raw is the value as it came.
func (p *pass) putForm(mask, raw string) string {
	p.count(mask)
	if p.marks == nil {
		return mask
	}
	value, err := url.QueryUnescape(raw)
	if err != nil {
		value = raw
	}
	return p.marks.add(mark{class: classOf(mask), value: value, form: true})
}

func classOf(mask string) string {
	return strings.TrimSuffix(strings.TrimPrefix(mask, "[REDACTED:"), "]")
}

func (m *marks) add(k mark) string {
	k.value = m.expand(k.value)
	m.all = append(m.all, k)
	return markText(k.class, len(m.all)-1)
}

func markText(class string, index int) string {
	return "[REDACTED:" + class + "." + markNonce() + "-" + strconv.Itoa(index) + "]"
}

// expand writes the values of marks in s in their place, so that a value has one stand-in however much of it was masked before.
func (m *marks) expand(s string) string {
	return m.replace(s, func(index int, _, _ string) (string, int, int) { return m.all[index].value, 0, 0 })
}

// markLen returns the length of the mark that s begins with, and its index; or 0. levels says how often the mark is percent-encoded.
func markLen(s string, levels int) (n, index int) {
	percent := "%" + strings.Repeat("25", levels-min(levels, 1))
	open, colon, end := "[", ":", "]"
	if levels > 0 {
		open, colon, end = percent+"5B", percent+"3A", percent+"5D"
	}
	rest, ok := strings.CutPrefix(s, open+"REDACTED"+colon)
	if !ok {
		return 0, 0
	}
	class := strings.IndexByte(rest, '.')
	if class < 0 || class > 32 || strings.Trim(rest[:class], "abcdefghijklmnopqrstuvwxyz_") != "" {
		return 0, 0
	}
	rest, ok = strings.CutPrefix(rest[class+1:], markNonce()+"-")
	if !ok {
		return 0, 0
	}
	digits := 0
	for digits < len(rest) && digits < 9 && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	index, err := strconv.Atoi(rest[:digits])
	if err != nil || !strings.HasPrefix(rest[digits:], end) {
		return 0, 0
	}
	return len(s) - len(rest) + digits + len(end), index
}

// maxPercent is how often a mark may have been percent-encoded.
const maxPercent = 3

// replace calls f for each mark, with the text before and behind it, and writes what it returns, percent-encoded as the mark was. f also
// says how much of the text before and behind goes with the mark.
func (m *marks) replace(s string, f func(index int, before, after string) (text string, less, more int)) string {
	if m == nil || !strings.Contains(s, "REDACTED") {
		return s
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '[' && s[i] != '%' {
			continue
		}
		for levels := range maxPercent + 1 {
			n, index := markLen(s[i:], levels)
			if n == 0 || index >= len(m.all) {
				continue
			}
			text, less, more := f(index, s[done:i], s[i+n:])
			for range levels {
				text = url.QueryEscape(text)
			}
			b.WriteString(s[done : i-less])
			b.WriteString(text)
			done = i + n + more
			i = done - 1
			break
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// quotes returns how often the JSON string is nested that a mark, between before and after, is the whole of; -1: it is not.
func quotes(before, after string) (nested, length int) {
	before, ok := strings.CutSuffix(before, `"`)
	if !ok {
		return -1, 0
	}
	slashes := len(before) - len(strings.TrimRight(before, `\`))
	length = slashes + 1
	if !strings.HasPrefix(after, strings.Repeat(`\`, slashes)+`"`) {
		return -1, 0
	}
	for nested = 0; nested <= maxNesting; nested++ {
		if slashes == 1<<nested-1 {
			return nested, length
		}
	}
	return -1, 0
}

// asString writes a text as it stands within a JSON string.
func asString(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b[1:len(b)-1]), "\n")
}
