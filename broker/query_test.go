package broker

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// placed returns the request after Apply.
func placed(t *testing.T, c *Credential, target string) *http.Request {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{Method: "GET", URL: u, Header: http.Header{}}
	if _, err := c.Apply(r, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

const querySecret = "query/SECRET+1 &x=2"

func TestStaticInQuery(t *testing.T) {
	b, bd := mustNew(t, staticBinding(Static{File: writeFile(t, querySecret), Query: "api_key"}), Options{})
	cred := mustGet(t, b, bd, alice())
	const own = "api_key=query%2FSECRET%2B1%20%26x%3D2"
	for in, want := range map[string]string{
		"":                              own,
		"?":                             own,
		"?a=1":                          "a=1&" + own,
		"?api_key=mine":                 own,
		"?api_key":                      own,
		"?a=1&api_key=mine&b=%20":       "a=1&b=%20&" + own,
		"?API_KEY=x&Api_Key=y":          own,
		"?%61pi_key=x":                  own,
		"?api%5fkey=x&api%5Fkey=y":      own,
		"?a=1;api_key=x;b=2":            "a=1;b=2&" + own,
		"?a=1;api_key=x":                "a=1&" + own,
		"?api_key[]=x&api_key%5B0%5D=y": own,
		"?api.key=x&api+key=y&api%20key=z&+api_key=w&%20api_key=v": own,
		"?%u0061pi_key=x":                    own,
		"?api_key%00=x":                      own,
		"?my_api_key=1&api_keys=2&x=api_key": "my_api_key=1&api_keys=2&x=api_key&" + own,
		"?api%255fkey=x":                     "api%255fkey=x&" + own, // another name, after one decoding
	} {
		r := placed(t, cred, "https://api.orders.test/p"+in)
		if r.URL.RawQuery != want {
			t.Errorf("%s: sent %q, want %q", in, r.URL.RawQuery, want)
		}
		if got := r.URL.Query()["api_key"]; !strings.Contains(r.URL.RawQuery, ";") && (len(got) != 1 || got[0] != querySecret) {
			t.Errorf("%s: the upstream reads %q", in, got)
		}
		if len(r.Header) != 0 {
			t.Errorf("%s: headers %v", in, r.Header)
		}
	}
}

// An upstream that redirects repeats the query in Location, as it stands or as it writes it.
func TestQueryIsScrubbed(t *testing.T) {
	b, bd := mustNew(t, staticBinding(Static{File: writeFile(t, querySecret), Query: "key"}), Options{})
	cred := mustGet(t, b, bd, alice())
	for _, form := range []string{
		querySecret, "query%2FSECRET%2B1%20%26x%3D2", "query%2fSECRET%2b1%20%26x%3d2", url.QueryEscape(querySecret), url.PathEscape(querySecret),
	} {
		h := http.Header{"Location": {"https://api.orders.test/q?key=" + form + "&a=1"}}
		if cred.ScrubHeader(h) == 0 || strings.Contains(h.Get("Location"), "SECRET") {
			t.Errorf("%q came through: %q", form, h.Get("Location"))
		}
	}
	noLeak(t, cred, querySecret, "SECRET")
}

func TestStaticSettings(t *testing.T) {
	file := writeFile(t, "file-SECRET")
	for name, c := range map[string]Static{
		"query and header":  {File: file, Query: "k", Header: "X-Key"},
		"query and prefix":  {File: file, Query: "k", Prefix: "Bearer "},
		"query name":        {File: file, Query: "a=b"},
		"long query name":   {File: file, Query: strings.Repeat("a", 65)},
		"basic and header":  {Basic: &Basic{Username: "u", PasswordFile: file}, Header: "X-Key"},
		"basic and query":   {Basic: &Basic{Username: "u", PasswordFile: file}, Query: "k"},
		"basic and file":    {Basic: &Basic{Username: "u", PasswordFile: file}, File: file},
		"no user":           {Basic: &Basic{PasswordFile: file}},
		"two users":         {Basic: &Basic{Username: "u", UsernameFile: file, PasswordFile: file}},
		"no password":       {Basic: &Basic{Username: "u"}},
		"colon in the user": {Basic: &Basic{Username: "u:p", PasswordFile: file}},
		"colon in the file": {Basic: &Basic{UsernameFile: writeFile(t, "u:p"), PasswordFile: file}},
		"no such file":      {Basic: &Basic{Username: "u", PasswordFile: file + "x"}},
		"two lines":         {Basic: &Basic{Username: "u", PasswordFile: writeFile(t, "a\nb")}},
	} {
		if _, err := New([]Binding{staticBinding(c)}, Options{}); err == nil {
			t.Errorf("%s: taken", name)
		} else {
			noLeak(t, err, "file-SECRET", "u:p")
		}
	}
}
