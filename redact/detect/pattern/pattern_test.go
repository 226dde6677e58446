package pattern

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Expressions with all that rules are made of.
var exprs = []string{
	`abc`, `(?i)abc`, `a|b|ab`, `(?:a|ab)(?:c|bcd)`, `a{2,4}?b`, `a{2,4}b`, `[a-c]{0,3}[b-d]{0,2}=`, `[a-c]*?d`, `[^"]{2,}"`, `.*x`, `(?s:.){0,4}?x`,
	`\b(ab[a-z]{2,4})\b`, `\Bab`, `^a`, `a$`, `(a{2}-){2}b`, `(?:[ab]{1,2}.*?){1,3}c`, `(a)|(b)|(c)`, `(?:-\d)?x`, `((a|b)c)+d`, `(?m)^a$`,
	`(?i)[\w.-]{0,5}?(?:key|tok)(?:[ \t\w.-]{0,4})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>)[\x60'"\s=]{0,5}([a-c0-2]{3,6}|ab+)(?:[\x60'"\s;]|\\[nr]|$)`,
	`(?:^|[\\'" (])([a-c]{2}\dQ~[a-c.-]{2,3})(?:$|[\\'" )])`, `\b((?:EA|sq0-)[\w-]{2,6})(?:["\s;]|\\[nr]|$)`, `a={0,2}(?:"|$)`, `a={0,2}$`,
}

// alphabet is what texts are made of: enough of each expression's letters that it matches now and then.
const alphabet = "aabbcckeytokQ~012=:>|\"' \n.-_xdEAsq"

// same compares with package regexp, which is told to match at the place by hand: it takes the leftmost match of the rest.
func same(t *testing.T, expr, text string) {
	re := regexp.MustCompile(expr)
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(parsed)
	if err != nil {
		t.Fatal(err)
	}
	var m Machine
	if got := p.Search(&m, []byte(text)); got != GaveUp && (got == Yes) != re.MatchString(text) {
		t.Fatalf("%q in %q: %v", expr, text, got)
	}
	for _, want := range all(re, text) {
		got := p.Match(&m, []byte(text), want.at)
		if got == GaveUp {
			continue
		}
		if (got == Yes) != (want.loc != nil) {
			t.Fatalf("%q at %d of %q: %v, expected %v", expr, want.at, text, got, want.loc)
		}
		if got != Yes {
			continue
		}
		loc := []int{m.Start, m.End}
		for n := 1; n <= min(re.NumSubexp(), MaxGroups); n++ {
			s, e, ok := m.Group(n)
			if !ok {
				s, e = -1, -1
			}
			loc = append(loc, s, e)
		}
		if !slices.Equal(loc, want.loc[:len(loc)]) {
			t.Fatalf("%q at %d of %q: %v, expected %v", expr, want.at, text, loc, want.loc)
		}
	}
}

type place struct {
	at  int
	loc []int
}

// all asks regexp what matches at each place, by expressions that skip exactly so many bytes.
func all(re *regexp.Regexp, text string) (out []place) {
	for at := range len(text) {
		skip := regexp.MustCompile(`\A(?s:.{` + strconv.Itoa(at) + `})(?P<whole>` + re.String() + `)`)
		loc := skip.FindStringSubmatchIndex(text)
		if loc != nil {
			loc = loc[2:]
		}
		out = append(out, place{at, loc})
	}
	return out
}

func TestSameAsRegexp(t *testing.T) {
	texts := []string{"", "abc", "ABC ab", "aaab", "aab-aab-b", `key = "abc012"`, `tokx:'ab';`, `(ab1Q~a.b)`, "EAabc\"", "ab\nabc", `a=="`, "a==", "a=",
		"x.key  =>  abbb", "abcabcd", "acbcd", `""aa"`, "a\na", "aaaaabx", "bcd=abc=", "a-1x-1x"}
	r := rand.New(rand.NewPCG(7, 7))
	for range 40 {
		b := make([]byte, r.IntN(24))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		texts = append(texts, string(b))
	}
	for _, e := range exprs {
		for _, text := range texts {
			same(t, e, text)
		}
	}
}

func FuzzSameAsRegexp(f *testing.F) {
	for i := range exprs {
		f.Add(uint8(i), `key = "abc012"`)
	}
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		if len(text) > 60 {
			return
		}
		for _, r := range text {
			if r >= 0x80 {
				return // a byte is not a character there
			}
		}
		same(t, exprs[int(n)%len(exprs)], text)
	})
}

// TestGivesUp: what would take exponential time ends.
func TestGivesUp(t *testing.T) {
	re, err := syntax.Parse(`(?:a|aa|aaa)*(?:a|aa)*b`, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(re)
	if err != nil {
		t.Fatal(err)
	}
	var m Machine
	if got := p.Match(&m, []byte(strings.Repeat("a", 200)), 0); got != GaveUp {
		t.Errorf("%v", got)
	}
}

func TestPrefixes(t *testing.T) {
	for expr, want := range map[string]string{
		`(?i)[\w.-]{0,50}?(?:new-relic|newrelic|new_relic)x`: "new-reli newrelic new_reli",
		`\b(sk-(?:proj|admin)-[a-z]{3})`:                     "sk-proj- sk-admin",
		`xox[os]-\d`:                                         "xoxo- xoxs-",
		`(?:https?://)?hooks`:                                "https:// http://h hooks",
		`[\w.-]{0,50}?(?i:[\w.-]{0,50}?(?:okta)(?:x))`:       "oktax",
		`\d{15,16}x`:                                         "",
		`[a-z]{3}\dQ~`:                                       "",
	} {
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Prefixes(Trim(re), 2), " "); got != want {
			t.Errorf("%s: %q, expected %q", expr, got, want)
		}
	}
}

func TestOffset(t *testing.T) {
	for expr, want := range map[string][3]int{
		`(?:^|[\\'" ])([a-z]{3}\dQ~[a-z]{3})`: {4, 5, 1},
		`[a-z0-9]{14}\.(?-i:atlasv1)\.`:       {15, 15, 1},
		`[a-z]+Q~`:                            {0, 0, 0},
		`abc`:                                 {0, 0, 0},
	} {
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		word := "q~"
		if strings.Contains(expr, "atlas") {
			word = "atlasv1"
		}
		least, most, ok := Offset(re, word)
		if got := [3]int{least, most, 0}; ok != (want[2] == 1) || ok && (got[0] != want[0] || got[1] != want[1]) {
			t.Errorf("%s: %v %v", expr, got, ok)
		}
	}
}
