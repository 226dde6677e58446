package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
)

const jsonType = "application/json; charset=utf-8"

// leaks returns a part of the secret, eight bytes long, that stands in the text, or "".
func leaks(text, secret string) string {
	for i := 0; i+8 <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+8]) {
			return secret[i : i+8]
		}
	}
	return ""
}

// forFields masks these fields, and the default classes.
func forFields(t testing.TB, fields ...string) *Scrubber {
	t.Helper()
	s, err := NewRules(Rules{Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBody(t *testing.T) {
	s := forFields(t, "customer_email", "paymentToken")
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
	cases := []struct{ name, in, want, status string }{
		{"nothing", `{"a":[1,2.50,true,null,"x"]}`, `{"a":[1,2.50,true,null,"x"]}`, "none"},
		{"field", `{"customer_email":"bob@x.example"}`, `{"customer_email":"[REDACTED:field]"}`, "redacted"},
		{"spellings", `{"customerEmail":1,"Customer-Email":2,"CUSTOMER.EMAIL":3,"payment_token":4,"customer email":5}`,
			`{"customerEmail":"[REDACTED:field]","Customer-Email":"[REDACTED:field]","CUSTOMER.EMAIL":"[REDACTED:field]","payment_token":"[REDACTED:field]","customer email":"[REDACTED:field]"}`, "redacted"},
		{"full-width spelling", `{"ｃustomer_email":"b"}`, `{"ｃustomer_email":"[REDACTED:field]"}`, "redacted"},
		{"escaped key", `{"customer\u005femail":"b","p\u0061ssword":"c"}`, `{"customer_email":"[REDACTED:field]","password":"[REDACTED:credential]"}`, "redacted"},
		{"any depth", `[[{"x":{"customer_email":"b"}}]]`, `[[{"x":{"customer_email":"[REDACTED:field]"}}]]`, "redacted"},
		{"whole subtree", `{"customer_email":{"v":["b",{"c":1}]},"z":1}`, `{"customer_email":"[REDACTED:field]","z":1}`, "redacted"},
		{"duplicates", `{"customer_email":"a","x":1,"customer_email":"b"}`, `{"customer_email":"[REDACTED:field]","x":1,"customer_email":"[REDACTED:field]"}`, "redacted"},
		{"built-in", `{"Password":1,"client-secret":2,"SET_COOKIE":3,"cvv":4}`,
			`{"Password":"[REDACTED:credential]","client-secret":"[REDACTED:credential]","SET_COOKIE":"[REDACTED:credential]","cvv":"[REDACTED:credential]"}`, "redacted"},
		{"built-in names are exact", `{"spin":"left","next_page_token":"7"}`, `{"spin":"left","next_page_token":"7"}`, "none"},
		{"JWT", `{"a":"` + jwt + `"}`, `{"a":"[REDACTED:credential]"}`, "redacted"},
		{"bearer", `["Bearer abc123"]`, `["Bearer [REDACTED:credential]"]`, "redacted"},
		{"PEM", `["-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----\n"]`, `["[REDACTED:credential]\n"]`, "redacted"},
		{"JWT as a key", `{"` + jwt + `":1}`, `{"[REDACTED:credential]":1}`, "redacted"},
		{"URL", `{"next":"https://u:p@h.example/p?cursor=abc&code=7&state=x#key=k&customer%5Femail=b"}`,
			`{"next":"https://[REDACTED:userinfo]@h.example/p?cursor=abc&code=[REDACTED:url]&state=[REDACTED:url]#key=[REDACTED:url]&customer%5Femail=[REDACTED:field]"}`, "redacted"},
		{"JSON in a string", `{"a":"{\"customer_email\":\"b\"}"}`, `{"a":"{\"customer_email\":\"[REDACTED:field]\"}"}`, "redacted"},
		{"harmless JSON in a string keeps its spaces", `{"a":"{ \"k\": 1 }"}`, `{"a":"{ \"k\": 1 }"}`, "none"},
		{"cut JSON in a string", `{"a":"{\"customer_email\":\"bob"}`, `{"a":"` + unparsed([]byte(`{"customer_email":"bob`)) + `"}`, "failed_closed"},
		{"form in a string", `{"a":"x=1&customer%5Femail=bob%40x&y=2"}`, `{"a":"x=1&customer%5Femail=[REDACTED:field]"}`, "redacted"},
		{"C1 and bidi controls", `{"a":"x\u009b31m\u202e"}`, `{"a":"x\\u009b31m\\u202e"}`, "none"},
		{"invalid UTF-8 in a key", "{\"pass\xffword\":\"b\"}", "{\"pass\uFFFDword\":\"[REDACTED:credential]\"}", "redacted"},
		{"bracketed text is not JSON", `["[INFO] started"]`, `["[INFO] started"]`, "none"},
		{"scalar", `"x"`, `"x"`, "none"},
	}
	for _, c := range cases {
		r := s.Body(jsonType, []byte(c.in), true)
		if r.Text != c.want || r.Status != c.status {
			t.Errorf("%s:\ngot  %s %s\nwant %s %s", c.name, r.Status, r.Text, c.status, c.want)
		}
	}
}

func TestBodyCounts(t *testing.T) {
	r := forFields(t, "email").Body(jsonType, []byte(`{"email":1,"x":[{"email":2}],"pin":3,"u":"http://h/?code=b"}`), true)
	if want := map[string]int{"field": 2, "credential": 1, "url": 1}; !maps.Equal(r.Counts, want) {
		t.Errorf("got %v, want %v", r.Counts, want)
	}
}

func TestBodyNilScrubber(t *testing.T) {
	for _, s := range []*Scrubber{nil, {}, forFields(t, "", "_")} {
		if r := s.Body("", []byte(`{"password":"x","":"y"}`), true); r.Text != `{"password":"[REDACTED:credential]","":"y"}` {
			t.Errorf("%s", r.Text)
		}
	}
}

// What cannot be read is never shown.
func TestBodyFailsClosed(t *testing.T) {
	s := forFields(t, "customer_email")
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for _, c := range []struct {
		contentType, body string
		complete          bool
	}{
		{jsonType, `{"customer_email":"` + marker, true},
		{jsonType, `{"customer_email":"` + marker + `"}`, false},
		{jsonType, `{"customer_email":"` + marker + `"} trailing`, true},
		{jsonType, `{"customer_email":"a"}{"customer_email":"` + marker + `"}`, true},
		{jsonType, `{'customer_email':'` + marker + `'}`, true},
		{jsonType, `{"customer_email":"` + marker + `",}`, true},
		{jsonType, "\xef\xbb\xbf{\"customer_email\":\"" + marker + "\"}", true},
		{jsonType, deep, true},
		{jsonType, `"` + strings.Repeat("x", maxBody) + `"`, true},
		{jsonType, `123456789012`, false},
		{"text/plain", `customer_email: ` + marker, false},
		{"multipart/form-data; boundary=x", "--x\r\n\r\n" + marker, true},
		{"application/octet-stream", marker, true},
		{"application/json-patch", `{"a":"` + marker + `"}`, true},
		{";;;", `{"a":"` + marker + `"}`, true},
	} {
		r := s.Body(c.contentType, []byte(c.body), c.complete)
		if want := fmt.Sprintf("[unparsed %d bytes hmac=%s]", len(c.body), Hash(c.body)); r.Text != want || r.Status != "failed_closed" {
			t.Errorf("%s %.40q: %s %.80q", c.contentType, c.body, r.Status, r.Text)
		}
	}
	if r := s.Body(jsonType, nil, true); r.Text != "" || r.Status != "none" {
		t.Errorf("empty: %+v", r)
	}
}

func TestBodyLines(t *testing.T) {
	s := forFields(t, "email")
	in := "{\"email\":\"a\"}\r\n\n\x1e{\"x\":1}\nbroken " + marker + "\n{\"email\":\"" + marker
	want := "{\"email\":\"[REDACTED:field]\"}\n{\"x\":1}\n" + unparsed([]byte("broken "+marker)) + "\n"
	for complete, last := range map[bool]string{true: `{"email":"` + marker, false: `{"email":"` + marker} {
		r := s.Body("application/x-ndjson", []byte(in), complete)
		if r.Text != want+unparsed([]byte(last)) || r.Status != "failed_closed" {
			t.Errorf("complete %v: %s %s", complete, r.Status, r.Text)
		}
	}
	// A number that was cut is a number still: only complete tells.
	if r := s.Body("application/jsonl", []byte("1\n12345678"), false); strings.Contains(r.Text, "12345678") {
		t.Error(r.Text)
	}
}

func TestBodyForm(t *testing.T) {
	s := forFields(t, "customer_email")
	const form = "application/x-www-form-urlencoded"
	for in, want := range map[string]string{
		"a=1&customer_email=b%40x&c=2":                     "a=1&customer_email=[REDACTED:field]&c=2",
		"Customer%2DEmail=b;c=2":                           "Customer%2DEmail=[REDACTED:field];c=2",
		"user%5Bcustomer_email%5D=b&user.password=c":       "user%5Bcustomer_email%5D=[REDACTED:field]&user.password=[REDACTED:credential]",
		"client_secret=a&client_assertion=b&scope=x+y":     "client_secret=[REDACTED:credential]&client_assertion=[REDACTED:credential]&scope=x+y",
		"a=Bearer+abc123":                                  "a=Bearer+%5BREDACTED%3Acredential%5D",
		"a=" + url.QueryEscape(`{"customer_email":"bob"}`): "a=" + url.QueryEscape(`{"customer_email":"[REDACTED:field]"}`),
		"a=%zz" + marker:                                   "a=" + unparsed([]byte("%zz"+marker)),
		"%zz=" + marker:                                    unparsed([]byte("%zz=" + marker)),
		"flag&a=":                                          "flag&a=",
	} {
		r := s.Body(form, []byte(in), true)
		if r.Text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", in, r.Text, want)
		}
		if again := s.Body(form, []byte(r.Text), true); again.Text != r.Text {
			t.Errorf("not idempotent: %s -> %s", r.Text, again.Text)
		}
	}
	if r := s.Body(form, []byte("a=1&customer_em"), false); r.Text != "a=1&"+unparsed([]byte("customer_em")) {
		t.Error(r.Text)
	}
}

// shapes put a secret under a named field in many ways. Each takes a JSON string literal.
var shapes = []string{
	`{"customer_email":%s}`,
	`{"a":{"b":{"customer_email":%s}}}`,
	`[{"customerEmail":[%s]}]`,
	`{"customer_email":{"x":%s,"y":[{"z":%[1]s}]}}`,
	`{"customer_email":1,"customer_email":%s}`,
	`{"customer_email":%s,"customer_email":1}`,
	`{"cust\u006fmer_em\u0061il":%s}`,
	`{"CUSTOMER EMAIL" : %s }`,
	`{"customer_email":{%s:1}}`,
	`{"password":%s}`,
	`{"a":"x","list":[1,{"authorization":%s}]}`,
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// No eight bytes of a secret survive in any shape, nor nested in strings, nor in base64.
func TestNothingSurvives(t *testing.T) {
	s := forFields(t, "customer_email")
	secrets := []string{
		marker, "bob.smith+tag@example.test", `quote " backslash \ and more`, "line\nbreak\tand tab 12345",
		"ünïcödé-sécret-wörds", "{\"looks\":\"like json secret\"}", "a=secret1234&b=secret5678", "[REDACTED:field]then-the-rest",
		"sk-live-0123456789abcdef", "4111 1111 1111 1111", strings.Repeat("s3cr3t!?", 500), "https://u:sup3rs3cret@h/",
	}
	for _, secret := range secrets {
		for _, shape := range shapes {
			body := fmt.Sprintf(shape, quote(secret))
			carriers := []string{body, `{"wrapped":` + quote(body) + `}`}
			for range 6 { // deeper than what is decoded
				carriers = append(carriers, `[`+quote(carriers[len(carriers)-1])+`]`)
			}
			carriers = append(carriers, `["`+base64.StdEncoding.EncodeToString([]byte(body))+`"]`,
				`["`+base64.RawURLEncoding.EncodeToString([]byte(body))+`"]`, "["+quote(body[:len(body)-1])+"]", `[" text before `+quote(body)[1:]+"]")
			for i, c := range carriers {
				r := s.Body(jsonType, []byte(c), true)
				if part := leaks(r.Text, secret); part != "" && !strings.Contains("[REDACTED:field]", part) {
					t.Errorf("carrier %d of %s shows %q: %s", i, shape, part, r.Text)
				}
				if strings.Contains(r.Text, base64.StdEncoding.EncodeToString([]byte(body))) {
					t.Errorf("carrier %d of %s: base64 shown", i, shape)
				}
				if !json.Valid([]byte(r.Text)) || r.Status == "none" {
					t.Errorf("carrier %d of %s: %s %s", i, shape, r.Status, r.Text)
				}
			}
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, shape := range shapes {
		f.Add(fmt.Sprintf(shape, quote("x")), "k")
		f.Add(`{"w":`+quote(fmt.Sprintf(shape, quote("x")))+`}`, "k")
	}
	for _, in := range []string{`[]`, `"\ud800"`, `{"a":"[REDACTED:field]"}`, `{"a":"Bearer Bearer x"}`, `["token=[REDACTED:field]x"]`,
		`["password: \"a\\\"b\""]`, `["http://h/?a#b://c?d"]`, `["-----BEGIN-----END-----"]`, `["eyJeyJ.eyJ"]`, `["authorization:basic bearer x"]`,
		"{\"\":\"{\\\"\x7f\\\":0}\"}"} {
		f.Add(in, "k")
	}
	s := forFields(f, "customer_email")
	f.Fuzz(func(t *testing.T, in, key string) {
		r := s.Body(jsonType, []byte(in), true)
		again := s.Body(jsonType, []byte(r.Text), true)
		// A mask within a string can make it begin like JSON that it is not; then all of it is hidden, and that is no harm.
		if again.Text != r.Text && !strings.Contains(again.Text, "[unparsed ") {
			t.Fatalf("not idempotent:\n%q\n%q\n%q", in, r.Text, again.Text)
		}
		if in == "" || r.Status == "failed_closed" && strings.HasPrefix(r.Text, "[unparsed ") {
			return
		}
		if !json.Valid([]byte(r.Text)) {
			t.Fatalf("%q became invalid JSON: %q", in, r.Text)
		}
		// The marker under a named field beside whatever the fuzzer made.
		for _, c := range []string{`{` + quote(key) + `:` + in + `,"customer_email":` + quote(marker) + `}`, `[{"customer_email":[` + in + `,"` + marker + `"]},` + in + `]`} {
			if r := s.Body(jsonType, []byte(c), true); leaks(r.Text, marker) != "" && leaks(in+key, marker) == "" {
				t.Fatalf("%s shows the marker: %s", c, r.Text)
			}
		}
	})
}

func BenchmarkBody(b *testing.B) {
	s := forFields(b, "customer_email", "payment_token")
	item := `{"id":12345,"customer_email":"bob@customer.example","note":"please deliver before noon","items":[{"sku":"A-1","price":19.99}],"ok":true},`
	for _, n := range []int{1, 30, 7500} {
		body := []byte(`[` + strings.TrimSuffix(strings.Repeat(item, n), ",") + `]`)
		b.Run(fmt.Sprint(len(body)), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				s.Body(jsonType, body, true)
			}
		})
	}
}
