package redact

import (
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/redact/detect"
)

// place is a place in a text of some language where a secret stands without "=" or ":" before it. The last group of the expression is the secret.
type place struct {
	words []string // of which one is in the text, in lower case
	expr  *regexp.Regexp
	mixed bool // the secret has digits and letters: words of prose may stand there
}

var namedWords = []string{"passw", "secret", "token", "api"}

const secretWord = `[\w:.-]*(?:password|passwd|secret|token|api[_-]?key)`

var places = []place{
	{words: []string{"</"}, expr: regexp.MustCompile(`(?i)<` + secretWord + `(?:\s[^<>]*)?>\s*([^<>\s][^<>]{3,}?)\s*</`)},
	{words: namedWords, mixed: true, expr: regexp.MustCompile(`(?i)(?:^|\s)(?:--?` + secretWord + `|login\s+\S+\s+password|(?:ENV|ARG)\s+` + secretWord + `)[ \t]+["']?([^\s"'|&;-][^\s"'|&;]{5,})`)},
	{words: []string{"identified", "password '"}, expr: regexp.MustCompile(`(?i)(?:\bidentified\s+(?:with\s+\S+\s+)?by|\bpassword)\s+'([^'\n]{4,})'`)},
	{words: namedWords, expr: regexp.MustCompile(`(?im)^[ \t-]*["']?` + secretWord + `["']?:[ \t]*[|>][-+\d]*[ \t]*\r?\n[ \t]+(\S.*(?:\n[ \t]+\S.*)*)`)},
	{words: []string{"cookie:"}, expr: regexp.MustCompile(`(?im)^(?:set-)?cookie:[ \t]*([^\r\n]+)`)},
	{words: []string{"jdbc:oracle"}, expr: regexp.MustCompile(`(?i)jdbc:oracle:\w+:([^/\s@]+/[^@\s]+)@`)},
	{words: []string{"://"}, mixed: true, expr: regexp.MustCompile(`(?i)/(?:reset|reset-password|password-reset|confirm|confirm-email|verify|verify-email|activate|invite|invitation|magic|magic-link|login-link)/([\w~.=-]{8,})`)},
}

// places masks what stands in such a place, and the literals of a GraphQL document. Only payloads are looked at.
func (p *pass) places(s, name string) string {
	if !p.body || len(s) < 16 {
		return s
	}
	if strings.IndexByte(s, '"') >= 0 && strings.IndexByte(s, '{') >= 0 && (name == "query" && graphqlBegin.MatchString(s) || graphqlNamed.MatchString(s)) {
		return graphqlLiteral.ReplaceAllStringFunc(s, func(literal string) string {
			if text := strings.Trim(literal, `"`); text == "" || placeholderLen(text) == len(text) {
				return literal
			}
			return `"` + p.count(maskField) + `"`
		})
	}
	low := ""
	for i := range places {
		if low == "" {
			low = strings.ToLower(s)
		}
		if places[i].in(low) {
			s = p.spans(s, places[i].find)
		}
	}
	return s
}

var (
	graphqlBegin   = regexp.MustCompile(`^\s*(?:\{\s*\w|query\b|mutation\b|subscription\b|fragment\b)`)
	graphqlNamed   = regexp.MustCompile(`^\s*(?:query|mutation|subscription)\b[^{}"]*\{`)
	graphqlLiteral = regexp.MustCompile(`"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"`)
)

func (l *place) in(low string) bool {
	for _, w := range l.words {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

func (l *place) find(dst []detect.Span, text []byte) []detect.Span {
	for _, m := range l.expr.FindAllSubmatchIndex(text, -1) {
		value := string(text[m[len(m)-2]:m[len(m)-1]])
		if strings.IndexByte("$<{%[", value[0]) >= 0 || l.mixed && !(strings.ContainsAny(value, "0123456789") && strings.Trim(value, "0123456789-_.=~") != "") {
			continue
		}
		dst = append(dst, detect.Span{Start: m[len(m)-2], End: m[len(m)-1], Class: detect.Credential})
	}
	return dst
}
