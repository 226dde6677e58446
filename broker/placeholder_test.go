package broker

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

const (
	mark1 = "TOOLGATE_ORDERS_KEY"
	mark2 = "TOOLGATE-second-mark"

	key1 = `k"1/..SECRET %&+é`
	key2 = "second-SECRET"
)

// ascii1 is key1 as a file may hold it.
var ascii1 = strings.ReplaceAll(key1, "é", `\`)

func placeholderBinding(list ...Placeholder) Binding {
	return Binding{Name: "partner", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"}, Placeholders: &Placeholders{list}}
}

// replacer returns a credential with mark1 on the given surfaces and mark2 in the header X-Second.
func replacer(t testing.TB, value string, surfaces ...string) *Credential {
	t.Helper()
	b, bd := mustNew(t, placeholderBinding(
		Placeholder{Text: mark1, File: writeFile(t, value), Surfaces: surfaces},
		Placeholder{Text: mark2, File: writeFile(t, key2), Surfaces: []string{"header:X-Second"}},
	), Options{})
	c, err := b.Credential(t.Context(), bd, alice())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// try applies c to a request written in short.
func try(t testing.TB, c *Credential, target string, h http.Header, body string) (*http.Request, string, Reason) {
	t.Helper()
	u, err := url.Parse("https://api.orders.test" + target)
	if err != nil {
		t.Fatal(err)
	}
	if h == nil {
		h = http.Header{}
	}
	r := &http.Request{Method: "POST", URL: u, Header: h}
	var in []byte
	if body != "" && c.BodyLimit(r) > 0 {
		in = []byte(body)
	}
	out, err := c.Apply(r, in)
	if err == nil {
		return r, string(out), ""
	}
	e, ok := err.(*Error)
	if !ok || e.Detail == "" || !strings.Contains(e.Detail, mark1) {
		t.Fatalf("error %v", err)
	}
	return nil, "", e.Reason
}

func basicOf(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

func TestPlaceholderHeader(t *testing.T) {
	c := replacer(t, ascii1, "header:x-api-key")
	h := http.Header{"X-Api-Key": {"Bearer " + mark1, "plain", mark1 + mark1}, "X-Second": {mark2}, "X-Other": {"o"}}
	given := h["X-Api-Key"]
	r, _, reason := try(t, c, "/p", h, "")
	if reason != "" {
		t.Fatal(reason)
	}
	want := []string{"Bearer " + ascii1, "plain", ascii1 + ascii1}
	for i, v := range r.Header["X-Api-Key"] {
		if v != want[i] {
			t.Errorf("sent %q", v)
		}
	}
	if r.Header.Get("X-Second") != key2 || r.Header.Get("X-Other") != "o" {
		t.Errorf("sent %v", r.Header)
	}
	if given[0] != "Bearer "+mark1 {
		t.Error("the client's own values were changed")
	}
}

func TestPlaceholderBasic(t *testing.T) {
	c := replacer(t, "key:SECRET", "basic")
	for in, want := range map[string]string{
		basicOf("git:" + mark1): "git:key:SECRET",
		strings.Replace(basicOf("x:"+mark1+"!"), "Basic", "bASIC", 1):  "x:key:SECRET!",
		strings.TrimRight(basicOf("xy:"+mark1), "="):                   "xy:key:SECRET",
		"Basic   " + strings.TrimPrefix(basicOf("a:"+mark1), "Basic "): "a:key:SECRET",
	} {
		r, _, reason := try(t, c, "/p", http.Header{"Authorization": {in}}, "")
		if reason != "" {
			t.Errorf("%s: %s", in, reason)
			continue
		}
		got, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
		if string(got) != want {
			t.Errorf("%s: sent %q", in, got)
		}
	}
	same := basicOf("user:password")
	if r, _, _ := try(t, c, "/p", http.Header{"Authorization": {same}}, ""); r.Header.Get("Authorization") != same {
		t.Errorf("sent %q", r.Header.Get("Authorization"))
	}
	// A colon in the secret would make a part of it the password.
	if _, _, reason := try(t, c, "/p", http.Header{"Authorization": {basicOf(mark1 + ":x")}}, ""); reason != PlaceholderLeft {
		t.Errorf("a colon in the user: %q", reason)
	}
}

func TestPlaceholderURL(t *testing.T) {
	c := replacer(t, `k"1/SECRET %&+`, "path", "query:key")
	for in, want := range map[string]string{
		"/bot" + mark1 + "/send":                        `/bot` + url.PathEscape(`k"1/SECRET %&+`) + `/send`,
		"/a%2Fb/" + mark1:                               `/a%2Fb/` + url.PathEscape(`k"1/SECRET %&+`),
		"/p?key=" + mark1:                               "/p?key=k%221%2FSECRET%20%25%26%2B",
		"/p?a=1&key=x" + mark1 + "y&b=%20":              "/p?a=1&key=xk%221%2FSECRET%20%25%26%2By&b=%20",
		"/nothing?a=b;c":                                "/nothing?a=b;c",
		"/" + mark1 + "?key=" + mark1 + "&key=" + mark1: "/" + url.PathEscape(`k"1/SECRET %&+`) + "?key=k%221%2FSECRET%20%25%26%2B&key=k%221%2FSECRET%20%25%26%2B",
	} {
		r, _, reason := try(t, c, in, nil, "")
		if reason != "" {
			t.Errorf("%s: %s", in, reason)
			continue
		}
		if got := r.URL.RequestURI(); got != want {
			t.Errorf("%s: sent %q, want %q", in, got, want)
		}
	}
}

// What is decided on is the path with the placeholder; a secret must not lead to another.
func TestPlaceholderPathStays(t *testing.T) {
	for value, want := range map[string]Reason{"..": PlaceholderPath, ".": PlaceholderPath, "../admin": PlaceholderPath, `a\..\b`: PlaceholderPath, "a..b": "", "a/b": ""} {
		c := replacer(t, value, "path")
		r, _, reason := try(t, c, "/v1/"+mark1+"/x", nil, "")
		if reason != want {
			t.Errorf("%q: %q", value, reason)
		}
		if reason == "" && strings.Count(r.URL.RequestURI(), "/") != 3 {
			t.Errorf("%q: sent %q", value, r.URL.RequestURI())
		}
	}
}

// A placeholder where it is not declared would tell the upstream of us, and the tool that its request was carried.
func TestPlaceholderLeft(t *testing.T) {
	every := []string{"header:X-Api-Key", "basic", "path", "query:key", "json:$.auth.key"}
	json := http.Header{"Content-Type": {"application/json"}}
	double := strings.ReplaceAll(strings.ReplaceAll(mark1, "T", "%54"), "%", "%25")
	type attempt struct {
		target string
		h      http.Header
		body   string
	}
	cases := map[string]struct {
		attempt
		declared string // the surface that would take it; without it the request is refused, and with the others alone as well
	}{
		"header":                {attempt{"/p", http.Header{"X-Api-Key": {mark1}}, ""}, "header:X-Api-Key"},
		"other header":          {attempt{"/p", http.Header{"X-Other": {"a " + mark1}}, ""}, ""},
		"folded header":         {attempt{"/p", http.Header{"X_api_key": {mark1}}, ""}, ""},
		"second value":          {attempt{"/p", http.Header{"X-Other": {"a", mark1}}, ""}, ""},
		"header's name":         {attempt{"/p", http.Header{"X-" + http.CanonicalHeaderKey(mark1): {"a"}}, ""}, ""},
		"encoded in a header":   {attempt{"/p", http.Header{"Referer": {"/" + strings.ReplaceAll(mark1, "_", "%5f")}}, ""}, ""},
		"cookie":                {attempt{"/p", http.Header{"Cookie": {"k=" + mark1}}, ""}, ""},
		"basic":                 {attempt{"/p", http.Header{"Authorization": {basicOf("u:" + mark1)}}, ""}, "basic"},
		"basic elsewhere":       {attempt{"/p", http.Header{"X-Auth": {basicOf("u:" + mark1)}}, ""}, ""},
		"bearer":                {attempt{"/p", http.Header{"Authorization": {"Bearer " + mark1}}, ""}, ""},
		"path":                  {attempt{"/" + mark1, nil, ""}, "path"},
		"encoded in the path":   {attempt{"/" + strings.ReplaceAll(mark1, "T", "%54"), nil, ""}, ""},
		"twice encoded":         {attempt{"/" + double, nil, ""}, ""},
		"query":                 {attempt{"/p?key=" + mark1, nil, ""}, "query:key"},
		"other parameter":       {attempt{"/p?k=" + mark1, nil, ""}, ""},
		"parameter's name":      {attempt{"/p?" + mark1 + "=1", nil, ""}, ""},
		"name encoded":          {attempt{"/p?%6bey=" + mark1, nil, ""}, ""},
		"value encoded":         {attempt{"/p?key=" + strings.ReplaceAll(mark1, "T", "%54"), nil, ""}, ""},
		"behind a semicolon":    {attempt{"/p?a=1;key=" + mark1, nil, ""}, ""},
		"its own, then another": {attempt{"/p?key=a;q=" + mark1, nil, ""}, ""},
		"json":                  {attempt{"/p", json, `{"auth":{"key":"` + mark1 + `"}}`}, "json:$.auth.key"},
		"json elsewhere":        {attempt{"/p", json, `{"auth":{"pin":"` + mark1 + `"}}`}, ""},
		"json name":             {attempt{"/p", json, `{"` + mark1 + `":1}`}, ""},
		"json escaped":          {attempt{"/p", json, `{"note":"\u0054OOLGATE_ORDERS_KEY"}`}, ""},
		"form":                  {attempt{"/p", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "auth.key=" + strings.ReplaceAll(mark1, "_", "%5F")}, ""},
		"text":                  {attempt{"/p", http.Header{"Content-Type": {"text/plain"}}, `{"auth":{"key":"` + mark1 + `"}}`}, ""},
		"text, escaped as json": {attempt{"/p", http.Header{"Content-Type": {"text/plain"}}, `{"auth":{"key":"\u0054OOLGATE_ORDERS_KEY"}}`}, ""},
		"no type":               {attempt{"/p", nil, `{"auth":{"key":"` + mark1 + `"}}`}, ""},
	}
	for name, c := range cases {
		for _, surfaces := range append([][]string{every}, without(every, c.declared)) {
			if c.body != "" && !strings.Contains(strings.Join(surfaces, " "), "json:") {
				surfaces = append(surfaces, "json:$.unused")
			}
			want := PlaceholderLeft
			if c.declared != "" && len(surfaces) == len(every) && surfaces[len(surfaces)-1] != "json:$.unused" {
				want = ""
			}
			if _, _, reason := try(t, replacer(t, key2+"1", surfaces...), c.target, c.h.Clone(), c.body); reason != want {
				t.Errorf("%s with %v: %q, want %q", name, surfaces, reason, want)
			}
		}
	}
}

// A body of a megabyte must not become one of gigabytes.
func TestPlaceholderRepeated(t *testing.T) {
	long := strings.Repeat(key2, 30_000/len(key2))
	c := replacer(t, long, "header:X-Api-Key", "basic", "path", "query:key", "json:$.auth.key", "json:$.list[*]")
	json := http.Header{"Content-Type": {"application/json"}}
	most := maxReplaced / len(long)
	for name, request := range map[string]func(n int) (string, http.Header, string){
		"header": func(n int) (string, http.Header, string) {
			return "/", http.Header{"X-Api-Key": {strings.Repeat(mark1, n)}}, ""
		},
		"basic": func(n int) (string, http.Header, string) {
			return "/", http.Header{"Authorization": {basicOf(strings.Repeat(mark1, n))}}, ""
		},
		"path":  func(n int) (string, http.Header, string) { return "/" + strings.Repeat(mark1, n), nil, "" },
		"query": func(n int) (string, http.Header, string) { return "/?" + strings.Repeat("&key="+mark1, n), nil, "" },
		"json": func(n int) (string, http.Header, string) {
			return "/", json.Clone(), `{"auth":{"key":"` + strings.Repeat(mark1, n) + `"}}`
		},
		"a list": func(n int) (string, http.Header, string) {
			return "/", json.Clone(), `{"list":["` + strings.Repeat(mark1+`","`, n) + `"]}`
		},
		"spread": func(n int) (string, http.Header, string) {
			h := json.Clone()
			h["X-Api-Key"] = []string{mark1}
			return "/?key=" + mark1, h, `{"list":["` + strings.Repeat(mark1+`","`, n-2) + `"]}`
		},
	} {
		for n, want := range map[int]Reason{most: "", most + 1: PlaceholderLeft} {
			target, h, body := request(n)
			if _, _, reason := try(t, c, target, h, body); reason != want {
				t.Errorf("%s, %d times: %q, want %q", name, n, reason, want)
			}
		}
	}
}

func without(list []string, one string) (out []string) {
	for _, s := range list {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}

func TestPlaceholderTrailer(t *testing.T) {
	c := replacer(t, key2+"1", "header:X-Api-Key")
	r := &http.Request{URL: &url.URL{Path: "/"}, Header: http.Header{}, Trailer: http.Header{"X-Api-Key": {mark1}}}
	_, err := c.Apply(r, nil)
	wantReason(t, err, PlaceholderLeft)
}

func TestPlaceholderJSON(t *testing.T) {
	c := replacer(t, ascii1, "json:$.auth.key", "json:$.items[*].key", "json:$.list[1]", "json:$.0.deep[0][0]")
	quoted := strings.ReplaceAll(strings.ReplaceAll(ascii1, `\`, `\\`), `"`, `\"`)
	for in, want := range map[string]string{
		`{"auth":{"key":"M"}}`: `{"auth":{"key":"Q"}}`,
		"{ \"n\" : 1.50,\n\t\"auth\" : {\"key\" : \"a M b\"} } ":  "{ \"n\" : 1.50,\n\t\"auth\" : {\"key\" : \"a Q b\"} } ",
		`{"items":[{"key":"M"},{"a":[],"key":"x"},{"key":"MM"}]}`: `{"items":[{"key":"Q"},{"a":[],"key":"x"},{"key":"QQ"}]}`,
		`{"list":["a","M"]}`:     `{"list":["a","Q"]}`,
		`{"0":{"deep":[["M"]]}}`: `{"0":{"deep":[["Q"]]}}`,
		`{"\u0061uth":{"key":"\u0054OOLGATE_ORDERS_KEY \"\\"}}`: `{"\u0061uth":{"key":"Q \"\\"}}`,
		`{"auth":{"key":"nothing \u00e9 \\"}}`:                  `{"auth":{"key":"nothing \u00e9 \\"}}`,
		`[]`:                                                    `[]`,
		`"text"`:                                                `"text"`,
	} {
		in, want := strings.ReplaceAll(in, "M", mark1), strings.ReplaceAll(want, "Q", quoted)
		_, got, reason := try(t, c, "/p", http.Header{"Content-Type": {"application/vnd.x+json; charset=utf-8"}}, in)
		if reason != "" || got != want {
			t.Errorf("%s: sent %s, want %s (%s)", in, got, want, reason)
		}
	}
	for _, in := range []string{
		`{"auth":["M"]}`, `{"auth":{"key":["M"]}}`, `{"list":["M"]}`, `{"list":{"1":"M"}}`, `["M"]`, `"M"`, `{"key":"M"}`,
		`{"items":{"0":{"key":"M"}}}`, `[{"deep":[["M"]]}]`, `{"auth":{"key":{"key":"M"}}}`,
	} {
		if _, _, reason := try(t, c, "/p", http.Header{"Content-Type": {"application/json"}}, strings.ReplaceAll(in, "M", mark1)); reason != PlaceholderLeft {
			t.Errorf("%s: %q", in, reason)
		}
	}
}

// A path may be made of anything; a name is no value all the same.
func TestPlaceholderNamedAsItself(t *testing.T) {
	c := replacer(t, ascii1, "json:$."+mark1)
	if _, _, reason := try(t, c, "/p", http.Header{"Content-Type": {"application/json"}}, `{"`+mark1+`":"x"}`); reason != PlaceholderLeft {
		t.Errorf("%q", reason)
	}
}

// Bodies of which readers make different things, or nobody can see what is in them.
func TestPlaceholderBody(t *testing.T) {
	c := replacer(t, ascii1, "json:$.auth.key")
	for name, r := range map[string]struct {
		h    http.Header
		body string
	}{
		"duplicate name":       {http.Header{"Content-Type": {"application/json"}}, `{"auth":{"key":"M"},"auth":{"key":"x"}}`},
		"duplicate by escape":  {http.Header{"Content-Type": {"application/json"}}, `{"auth":{"key":"M","k\u0065y":"x"}}`},
		"two values":           {http.Header{"Content-Type": {"application/json"}}, `{"auth":{"key":"M"}} {}`},
		"broken off":           {http.Header{"Content-Type": {"application/json"}}, `{"auth":{"key":"M"}`},
		"only space":           {http.Header{"Content-Type": {"application/json"}}, ` `},
		"not UTF-8":            {http.Header{"Content-Type": {"application/json"}}, "{\"auth\":{\"key\":\"M\xff\"}}"},
		"UTF-16":               {http.Header{"Content-Type": {"application/json; charset=utf-16"}}, "{\x00}\x00"},
		"half a surrogate":     {http.Header{"Content-Type": {"application/json"}}, `{"auth":{"key":"M\ud800"}}`},
		"a comment":            {http.Header{"Content-Type": {"application/json"}}, `{/**/"auth":{"key":"M"}}`},
		"a byte order mark":    {http.Header{"Content-Type": {"application/json"}}, "\ufeff{}"},
		"compressed":           {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, `{}`},
		"compressed, unlikely": {http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"identity", "br"}}, `x`},
		"multipart":            {http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}, "--b--"},
		"two types":            {http.Header{"Content-Type": {"text/plain", "application/json"}}, `{}`},
		"unreadable type":      {http.Header{"Content-Type": {"application/json;;=x"}}, `{}`},
	} {
		if _, _, reason := try(t, c, "/p", r.h, strings.ReplaceAll(r.body, "M", mark1)); reason != PlaceholderBody {
			t.Errorf("%s: %q", name, reason)
		}
	}
	if _, body, reason := try(t, c, "/p", http.Header{"Content-Type": {"text/plain"}, "Content-Encoding": {"Identity"}}, "plain \\u text"); reason != "" || body != "plain \\u text" {
		t.Errorf("a body of another type: %q, %q", body, reason)
	}
}

func TestPlaceholderEchoes(t *testing.T) {
	const value = `long enough "SECRET" & more`
	c := replacer(t, value, "header:X-Api-Key", "basic", "path", "query:key", "json:$.k")
	forms := []string{value, url.PathEscape(value), url.QueryEscape(value), `long enough \"SECRET\" & more`, key2}
	for _, form := range forms {
		body, err := io.ReadAll(c.ScrubBody(strings.NewReader("<" + form + ">")))
		if err != nil || strings.Contains(string(body), form) {
			t.Errorf("%q came through: %v", form, err)
		}
	}
	for _, user := range []string{"", "a", "ab", "abc", "abcd"} { // every phase
		encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + value + user))
		body, err := io.ReadAll(c.ScrubBody(strings.NewReader(encoded)))
		if err != nil || len(body) != len(encoded) {
			t.Fatal(err, len(body))
		}
		for i := 0; i+8 <= len(body); i += 4 {
			got, _ := base64.StdEncoding.DecodeString(string(body[i : i+4]))
			if strings.Contains(value, string(got)) && len(got) == 3 && strings.Contains("SECRET", string(got)) {
				t.Errorf("user %q: %q of the secret came through", user, got)
			}
		}
		if strings.Contains(string(body), encoded[8:len(encoded)-12]) {
			t.Errorf("user %q: %s came through", user, body)
		}
	}
	noLeak(t, c, value, key2)
}

// Of two secrets, one of which is a part of the other, nothing is left over.
func TestPlaceholderEchoesWithin(t *testing.T) {
	short, long := "account-1", "account-1-key-SECRET"
	b, bd := mustNew(t, placeholderBinding(
		Placeholder{Text: mark1, File: writeFile(t, short), Surfaces: []string{"header:X-Account"}},
		Placeholder{Text: mark2, File: writeFile(t, long), Surfaces: []string{"header:X-Second"}},
	), Options{})
	c := mustGet(t, b, bd, alice())
	h := http.Header{"X-Echo": {long + " " + short}}
	c.ScrubHeader(h)
	body, err := io.ReadAll(c.ScrubBody(strings.NewReader(long + " " + short)))
	if got := h.Get("X-Echo") + string(body); err != nil || strings.Contains(got, "SECRET") || strings.Contains(got, "account") {
		t.Errorf("left over: %s, %v", got, err)
	}
}

func TestPlaceholderSettings(t *testing.T) {
	file := writeFile(t, "file-SECRET")
	good := Placeholder{Text: mark1, File: file, Surfaces: []string{"path"}}
	change := func(f func(*Placeholder)) Placeholder { p := good; f(&p); return p }
	for name, list := range map[string][]Placeholder{
		"none":           {},
		"short":          {change(func(p *Placeholder) { p.Text = "SHORT_TEXT1" })},
		"long":           {change(func(p *Placeholder) { p.Text = strings.Repeat("abcdefgh", 17) })},
		"monotonous":     {change(func(p *Placeholder) { p.Text = "0000000000000000" })},
		"other letters":  {change(func(p *Placeholder) { p.Text = "${TOOLGATE_KEY}" })},
		"nowhere":        {change(func(p *Placeholder) { p.Surfaces = nil })},
		"a surface":      {change(func(p *Placeholder) { p.Surfaces = []string{"body"} })},
		"a header":       {change(func(p *Placeholder) { p.Surfaces = []string{"header:Host"} })},
		"twice":          {good, good},
		"one in another": {good, change(func(p *Placeholder) { p.Text += "_2" })},
		"no file":        {change(func(p *Placeholder) { p.File += "x" })},
		"two lines":      {change(func(p *Placeholder) { p.File = writeFile(t, "a\r\nX-Other: b") })},
		"itself":         {change(func(p *Placeholder) { p.File = writeFile(t, "a"+mark1) })},
	} {
		if _, err := New([]Binding{placeholderBinding(list...)}, Options{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, text := range []string{
		"", "path:x", "basic:", "header", "header:", "header:a b", "query", "query:", "query:a=b", "json", "json:", "json:$", "json:$.", "json:.a", "json:a",
		"json:$.a.", "json:$..a", "json:$.a[", "json:$.a[]", "json:$.a[-1]", "json:$.a[01]", "json:$.a[1", "json:$.a[1]b", "json:$a", "json:$[x]", "json:$.é",
	} {
		if _, err := ParseSurface(text); err == nil {
			t.Errorf("surface %q: taken", text)
		}
	}
}

func TestPlaceholderIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		file := writeFile(t, "file-SECRET\n")
		is, err := newPlaceholders("partner", Placeholders{[]Placeholder{{Text: mark1, File: file, Surfaces: []string{"header:X-Key"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return issuerUnderTest{
			issuer: is, subject: alice(), secrets: []string{"file-SECRET", subjectSecret},
			request: func(r *http.Request) { r.Header.Set("X-Key", mark1) },
			spoil: func() {
				if err := os.WriteFile(file, []byte("file-SECRET\r\nX-Evil: 1"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// FuzzReplaceJSON: whatever the body, what is sent holds no placeholder, and differs from what came in declared strings only.
func FuzzReplaceJSON(f *testing.F) {
	c := replacer(f, ascii1, "json:$.a[*].b", "json:$.c")
	for _, s := range []string{`{"a":[{"b":"M"}],"c":"M"}`, `{"c":"\"M\\"}`, `{"c":"\u0054OOLGATE_ORDERS_KEY"}`, `[]`, `{"c":{"c":"M"}}`, `{"a":{"0":{"b":"M"}}}`} {
		f.Add(strings.ReplaceAll(s, "M", mark1))
	}
	f.Fuzz(func(t *testing.T, body string) {
		if body == "" {
			return
		}
		_, out, reason := try(t, c, "/", http.Header{"Content-Type": {"application/json"}}, body)
		if reason != "" {
			return
		}
		if strings.Contains(out, mark1) || decodeUnicode(out) != out && strings.Contains(decodeUnicode(out), mark1) {
			t.Errorf("%q: sent %q", body, out)
		}
		if !strings.Contains(decodeUnicode(body), mark1) && out != body {
			t.Errorf("%q was changed to %q", body, out)
		}
	})
}
