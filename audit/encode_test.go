package audit

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// filled returns a record with every field set, and each text different.
func filled(t testing.TB) Record {
	t.Helper()
	var r Record
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		fill(t, v.Field(i), v.Type().Field(i).Name, i)
	}
	return r
}

func fill(t testing.TB, f reflect.Value, name string, i int) {
	t.Helper()
	switch f.Interface().(type) {
	case time.Duration:
		f.SetInt(int64(i)*int64(time.Millisecond) + int64(i)*int64(time.Microsecond))
	case time.Time:
		f.Set(reflect.ValueOf(time.Date(2026, 11, 29, 17, 10, i, 5e6, time.FixedZone("", 3600))))
	case string:
		f.SetString("text of " + name)
	case []string:
		f.Set(reflect.ValueOf([]string{"first of " + name, "second of " + name}))
	case map[string]int:
		f.Set(reflect.ValueOf(map[string]int{"url of " + name: i, "field of " + name: 2}))
	case bool:
		f.SetBool(true)
	case int, int64:
		f.SetInt(int64(1000 + i))
	case uint16:
		f.SetUint(uint64(1000 + i))
	default:
		t.Fatalf("Record.%s has a type that the encoder does not know: %s", name, f.Type())
	}
}

// Every field reaches the line, no key is there that the golden list lacks, and none is missing.
func TestEveryFieldIsEncoded(t *testing.T) {
	full := filled(t)
	line := appendRecord(nil, &full, link{seq: 7, prev: []byte("abc")})
	var keys []string
	for k := range decode(t, line) {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	golden, err := os.ReadFile("testdata/keys.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(keys, "\n") + "\n"; got != string(golden) {
		t.Errorf("keys differ from testdata/keys.golden, the schema of version %d:\n%s", Version, got)
	}
	for i := range reflect.TypeFor[Record]().NumField() {
		without := full
		reflect.ValueOf(&without).Elem().Field(i).SetZero()
		less := decode(t, appendRecord(nil, &without, link{seq: 7, prev: []byte("abc")}))
		if len(less) != len(keys)-1 {
			t.Errorf("Record.%s: without it the line has %d keys instead of %d", reflect.TypeFor[Record]().Field(i).Name, len(less), len(keys)-1)
		}
	}
}

func decode(t testing.TB, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return m
}

func TestGoldenLine(t *testing.T) {
	r := filled(t)
	line := append(appendRecord(nil, &r, link{seq: 7, prev: []byte(genesis)}), '\n')
	golden, err := os.ReadFile("testdata/record.golden")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(line, golden) {
		t.Errorf("got\n%swant\n%s", line, golden)
	}
}

// jsontext has its own RFC 8785 canonicalizer.
func canonical(t testing.TB, line []byte) {
	t.Helper()
	v := jsontext.Value(slices.Clone(line))
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	if !bytes.Equal(v, line) {
		t.Fatalf("not canonical:\n%s\n%s", line, v)
	}
}

func TestCanonical(t *testing.T) {
	r := filled(t)
	canonical(t, appendRecord(nil, &r, link{seq: 1, prev: []byte(genesis)}))
	canonical(t, appendRecord(nil, &Record{}, link{}))
	for _, us := range []int64{1, 9, 10, 99, 100, 120, 999, 1000, 1001, 1010, 1100, 123_456_789, 999_999_999_999_999, 1 << 50} {
		canonical(t, appendRecord(nil, &Record{Total: time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond}, link{}))
	}
	canonical(t, appendRecord(nil, &Record{BytesIn: math.MaxInt64, BytesOut: math.MinInt64}, link{seq: math.MaxInt64}))
}

func FuzzRecord(f *testing.F) {
	f.Add("plain", int64(1), int64(1))
	f.Add("a\"b\\c\b\t\n\f\r\x00\x1f\x7f\u2028é€😀\xff", int64(-1), int64(1001))
	f.Add(strings.Repeat("é", 700), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, s string, n, us int64) {
		r := Record{Tool: s, Host: "x" + s, CapabilityClasses: []string{s, "b"}, BytesIn: n, Total: time.Duration(us%1e15) * time.Microsecond}
		line := appendRecord(nil, &r, link{})
		canonical(t, line)
		if bytes.ContainsAny(line, "\n\r\x1b") || !utf8.Valid(line) {
			t.Fatalf("unsafe line %q", line)
		}
		want := strings.ToValidUTF8(strings.Map(func(r rune) rune { return r }, s), "\uFFFD")
		if got := decode(t, line)["tool"]; len(s) <= maxText && s != "" && utf8.ValidString(s) && got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("é", maxText) // the cut falls inside a character for the odd one
	r := Record{Tool: "x" + long, CapabilityClasses: slices.Repeat([]string{"c"}, 1000), RedactionCounts: map[string]int{}}
	for i := range 1000 {
		r.RedactionCounts["class"+strconv.Itoa(i)] = 1
	}
	line := appendRecord(nil, &r, link{})
	m := decode(t, line)
	tool := m["tool"].(string)
	if len(tool) > maxText+len("…") || !strings.HasSuffix(tool, "é…") || strings.Contains(tool, "\uFFFD") {
		t.Errorf("tool has %d bytes and ends %q", len(tool), tool[len(tool)-8:])
	}
	if n := len(m["capability_classes"].([]any)); n != maxList {
		t.Errorf("%d classes", n)
	}
	if n := len(m["redaction_counts"].(map[string]any)); n != maxList {
		t.Errorf("%d counts", n)
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	r := filled(b)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendRecord(buf[:0], &r, link{seq: 7, prev: []byte(genesis)})
	}
	b.SetBytes(int64(len(buf)))
}
