package redact

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/corpustest"
)

// tilde stands for everything.
type tilde struct{}

func (tilde) Text(string, string) string { return "~" }

func (tilde) JSON(string, []byte) []byte { return []byte("0") }

// TestStandInsMaskAsMuch: with stand-ins no more of a secret is shown than with placeholders.
func TestStandInsMaskAsMuch(t *testing.T) {
	s := allClasses(t, "account")
	wraps := map[string]func(string) (contentType, body string){
		"raw":          func(x string) (string, string) { return "text/plain", x },
		"json":         func(x string) (string, string) { return jsonType, member(x) },
		"json in json": func(x string) (string, string) { return jsonType, member(member(x)) },
		"form":         func(x string) (string, string) { return formType, "a=1&v=" + url.QueryEscape(x) },
		"twice":        func(x string) (string, string) { return formType, "v=" + url.QueryEscape(url.QueryEscape(x)) },
		"deltas":       func(x string) (string, string) { return "text/event-stream", deltas(x) },
		"escapes":      func(x string) (string, string) { return jsonType, `{"v":"` + escaped16(x) + `"}` },
		"multipart": func(x string) (string, string) {
			return "multipart/form-data; boundary=xyzzy", "--xyzzy\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n" + x + "\r\n--xyzzy--\r\n"
		},
	}
	for _, k := range corpustest.Load(t, "..") {
		text := strings.ToValidUTF8(k.Text, "?")
		for name, wrap := range wraps {
			contentType, in := wrap(text)
			masked := s.Body(contentType, []byte(in), true)
			replaced := s.Replacer(tilde{}).Body(contentType, "", []byte(in), true)
			for _, secret := range k.Secrets {
				if n := corpustest.Common(secret, replaced.Text); n >= max(8, (len(secret)+1)/2) && n > corpustest.Common(secret, masked.Text) {
					t.Errorf("%s %s: %q\n masked   %q\n replaced %q", name, k.Class, text, masked.Text, replaced.Text)
				}
			}
		}
	}
}

// FuzzStandIns: no mark and no hash is left, JSON stays JSON, and a masked field's value is not in the text.
func FuzzStandIns(f *testing.F) {
	for _, seed := range []string{`{"account":{"a":1}}`, `{"x":"{\"account\":4111111111111111}"}`, `["[REDACTED:card]", "%5BREDACTED%3Acard%5D"]`, `{"u":"https://a:b@c.example/?token=x&d=%2541#f"}`} {
		f.Add(seed, "cnry")
	}
	bad := regexp.MustCompile(`hmac=[0-9a-f]{12}\]|` + markNonce())
	r := replacerFor(f, tilde{})
	f.Fuzz(func(t *testing.T, in, value string) {
		for _, contentType := range []string{jsonType, formType, "text/plain", "text/event-stream", "application/x-ndjson"} {
			res := r.Body(contentType, "", []byte(in), true)
			if bad.MatchString(res.Text) {
				t.Errorf("%s: %q became %q", contentType, in, res.Text)
			}
			if contentType == jsonType && res.Status != StatusFailedClosed && res.Text != "" && !json.Valid([]byte(res.Text)) {
				t.Errorf("no longer JSON: %q became %q", in, res.Text)
			}
		}
		if got := r.URL(in); bad.MatchString(got) {
			t.Errorf("%q became %q", in, got)
		}
		secret := "cnry" + url.QueryEscape(value)
		field, err := json.Marshal(map[string]any{"a": in, "account": secret, "b": map[string]any{"account": []any{secret, in}}})
		if err != nil {
			t.Fatal(err)
		}
		if res := r.Body(jsonType, "", field, true); strings.Contains(res.Text, secret) && !strings.Contains(in, secret) {
			t.Errorf("%q shows %q", field, res.Text)
		}
	})
}
