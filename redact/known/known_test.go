package known

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

type secret string

func (s secret) Reveal() string { return string(s) }

// secrets are of the kinds that a broker holds. None is anybody's.
var secrets = []string{
	"hunter2!", "pass word <with> \"all\" & 'kinds' of/+=%\\ bytes", "ünïcödé-sécret-wörd", "0123456789abcdef0123456789abcdef",
	"ey" + "J" + strings.Repeat("hbGciOiJSUzI1NiJ9", 20) + "." + strings.Repeat("aB3-_x", 50), strings.Repeat("k", 8), "tab\tand\nline end",
	"base64+with/both==", "a/b/c/d/e/f",
}

// carriers write a secret as services do, by other people's code.
var carriers = map[string]func(string) string{
	"raw":         func(s string) string { return s },
	"query":       url.QueryEscape,
	"path":        url.PathEscape,
	"lower":       func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
	"json":        func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) },
	"json, plain": func(s string) string { return plainJSON(s) },
	"html":        html.EscapeString,
	"hex":         func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":         func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64, 1":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "xy")) },
	"base64, 2":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + s + "x")) },
	"base64url":   func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("user:" + s)) },
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}

func plainJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

func all() *Set {
	s := New()
	for _, v := range secrets {
		s.Add(secret(v))
	}
	return s
}

func mask(s *Set, text string) string {
	out := []byte(text)
	for _, p := range s.Scan(nil, out) {
		copy(out[p.Start:p.End], bytes.Repeat([]byte("*"), p.End-p.Start))
	}
	return string(out)
}

// Every form is masked whole, wherever it stands.
func TestForms(t *testing.T) {
	s := all()
	for name, carry := range carriers {
		for _, v := range secrets {
			for _, around := range [][2]string{{"", ""}, {`{"a":"`, `"}`}, {"x", "y"}, {strings.Repeat("-", stretch-5), strings.Repeat("z", 40)}} {
				text := around[0] + carry(v) + around[1]
				got := mask(s, text)
				inner := got[len(around[0]) : len(got)-len(around[1])]
				if left := strings.Trim(inner, "*="); len(left) > 0 && !(strings.HasPrefix(name, "base64") && len(left) <= 6 && !strings.Contains(v, left)) {
					t.Errorf("%s of %.20q between %.5q and %.5q: %.60q is left", name, v, around[0], around[1], left)
				}
				if !strings.HasPrefix(name, "base64") && got != around[0]+strings.Repeat("*", len(carry(v)))+around[1] {
					t.Errorf("%s of %.20q: more than the secret was masked: %.60q", name, v, got)
				}
			}
		}
	}
}

func TestNothingElse(t *testing.T) {
	s := all()
	for _, text := range []string{"", "short", "hunter2", "HUNTER2!", "0123456789abcdef0123456789abcde", strings.Repeat("k", 7), "eyJhbGciOiJSUzI1NiJ9", strings.Repeat("lorem ipsum ", 5000)} {
		if got := s.Scan(nil, []byte(text)); len(got) > 0 {
			t.Errorf("%.40q: %v", text, got)
		}
	}
	if New().Add(secret("1234567")) || New().Add(secret(strings.Repeat("x", MaxLength+1))) {
		t.Error("too short or too long, and added")
	}
	var none *Set
	if none.Scan(nil, []byte("x")) != nil || none.Open([]byte("x")) != 1 || none.Len() != 0 || none.Longest() != 0 {
		t.Error("nil knows something")
	}
}

// What is removed as often as it was added leaves nothing behind.
func TestRemove(t *testing.T) {
	s := New()
	v := secret(secrets[1])
	s.Add(v)
	s.Add(v)
	s.Remove(v)
	if mask(s, secrets[1]) == secrets[1] {
		t.Error("forgotten after one of two")
	}
	s.Remove(v)
	s.Remove(v)
	if mask(s, secrets[1]) != secrets[1] || s.Len() != 0 {
		t.Error("known after two of two")
	}
	r := rand.New(rand.NewPCG(3, 4))
	var in []string
	for range 3000 {
		if len(in) > 0 && r.IntN(2) == 0 {
			n := r.IntN(len(in))
			s.Remove(secret(in[n]))
			in = append(in[:n], in[n+1:]...)
			continue
		}
		in = append(in, fmt.Sprintf("token-with-a-common-beginning-%d-%d", r.Uint64(), r.Uint64()))
		s.Add(secret(in[len(in)-1]))
	}
	for _, v := range in {
		if strings.Contains(mask(s, "<"+v+">"), v) {
			t.Fatal("one that was not removed is not found")
		}
	}
	for n := range 1000 {
		in = append(in, fmt.Sprintf("yet-another-token-%d", n))
		s.Add(secret(in[len(in)-1]))
	}
	st := *s.p
	if bits := len(st.anchors.filter) << 6; bits < 8*st.anchors.live {
		t.Errorf("a filter of %d bits for %d anchors", bits, st.anchors.live)
	}
	for _, v := range in {
		s.Remove(secret(v))
	}
	if bits := len(st.anchors.filter) << 6; 8*st.anchors.stale > bits {
		t.Errorf("%d anchors were removed from a filter of %d bits", st.anchors.stale, bits)
	}
	if st.anchors.live != 0 || slices.ContainsFunc(st.anchors.first, func(n int32) bool { return n != 0 }) || len(st.begins.short)+len(st.begins.long) != 0 || len(st.longest.forms)+st.longest.most != 0 {
		t.Errorf("left behind: %d anchors, %d beginnings", st.anchors.live, len(st.begins.short)+len(st.begins.long))
	}
}

// Cut at every place, the text is masked as in one: what Open holds back is scanned with what follows. Up to three bytes go out
// before it is known that they begin a secret.
func TestEverySplit(t *testing.T) {
	s := all()
	for name, carry := range carriers {
		for _, v := range secrets {
			text := []byte("data: " + carry(v) + " end of it")
			spans := s.Scan(nil, text)
			if len(spans) == 0 {
				t.Fatalf("%s of %.20q is not found", name, v)
			}
			for cut := range text {
				open := s.Open(text[:cut])
				for _, p := range spans {
					if p.Start < cut && cut < p.End && open > p.Start+edge && cut-p.Start >= shallowest+2*edge {
						t.Fatalf("%s of %.20q, cut %d bytes in: held back from %d, begins at %d", name, v, cut-p.Start, open, p.Start)
					}
				}
			}
		}
	}
}

// What is no beginning is not held back for long.
func TestOpenIsShort(t *testing.T) {
	s := all()
	if got := s.Open([]byte("an ordinary sentence, hunt")); got != len("an ordinary sentence, ") {
		t.Errorf("%d", got)
	}
	if text := []byte("an ordinary sentence, hunted by wolves"); s.Open(text) != len(text) {
		t.Error("held back what differs")
	}
	long := []byte("ey" + "J" + strings.Repeat("hbGciOiJSUzI1NiJ9", 10) + "something else")
	if s.Open(long) != 0 {
		t.Error("not held back where it may be")
	}
	if long = append(long, strings.Repeat("other", 30)...); s.Open(long) < 200 {
		t.Error("held back although it differs")
	}
}

// No way of printing shows a secret, not even as a field of another struct.
func TestNotPrintable(t *testing.T) {
	type holder struct {
		set   Set
		Other *Set
	}
	s := all()
	h := holder{*s, s}
	var log bytes.Buffer
	l := slog.New(slog.NewJSONHandler(&log, nil))
	l.Info("x", "s", s, "h", h)
	j, _ := json.Marshal(h)
	out := log.String() + string(j)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, h) + fmt.Sprintf(verb, &h) + fmt.Sprintf(verb, *s)
	}
	for _, v := range secrets {
		if strings.Contains(out, v) || strings.Contains(out, hex.EncodeToString([]byte(v))) {
			t.Errorf("%.20q is printed", v)
		}
	}
}

func TestConcurrent(t *testing.T) {
	s := all()
	text := []byte(strings.Repeat("x", 3*stretch) + secrets[3])
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for n := range 200 {
				v := secret(fmt.Sprintf("another-secret-%d-%d", g, n))
				s.Add(v)
				s.Remove(v)
			}
		}()
		go func() {
			defer wg.Done()
			for range 50 {
				if len(s.Scan(nil, text)) == 0 || s.Open(text) > len(text) {
					t.Error("not found meanwhile")
				}
			}
		}()
	}
	wg.Wait()
}

// FuzzKnown: a secret in any text is masked, in whatever form, and wherever the text is cut.
func FuzzKnown(f *testing.F) {
	f.Add("hunter2!", "before ", " after", uint8(3), uint16(9))
	f.Fuzz(func(t *testing.T, value, before, after string, form uint8, cut uint16) {
		s := New()
		if !s.Add(secret(value)) {
			return
		}
		fs := formsOf(value)
		fm := fs[int(form)%len(fs)]
		form64 := fm.append(nil, value, fm.skip, 1<<20)
		text := []byte(before + string(form64) + after)
		found := false
		for _, p := range s.Scan(nil, text) {
			if p.Start < 0 || p.End > len(text) || p.Start >= p.End {
				t.Fatal(p)
			}
			found = found || p.Start <= len(before) && p.End >= len(before)+len(form64)
		}
		if !found {
			t.Fatalf("%s of %q in %q is not found", fm.name, value, text)
		}
		if at := int(cut) % (len(text) + 1); at >= len(before)+shallowest && at < len(before)+len(form64) && s.Open(text[:at]) > len(before) {
			t.Fatalf("%s of %q in %q, cut at %d, is not held back", fm.name, value, text, at)
		}
	})
}

// TestLongest: it is the greatest of those that are held, whichever goes.
func TestLongest(t *testing.T) {
	s := New()
	short, long := secret("short-secret"), secret(strings.Repeat("long-secret.", 50))
	s.Add(short)
	low := s.Longest()
	s.Add(long)
	s.Add(long)
	high := s.Longest()
	s.Remove(long)
	if low == 0 || high < 600 || s.Longest() != high {
		t.Fatalf("%d, %d, then %d", low, high, s.Longest())
	}
	if s.Remove(long); s.Longest() != low {
		t.Errorf("%d when the long one is gone, %d before it came", s.Longest(), low)
	}
	if s.Remove(short); s.Longest() != 0 {
		t.Errorf("%d of nothing", s.Longest())
	}
}
