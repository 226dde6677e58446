package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
)

// TestSemantics has a subtest for each rule of how payloads are read. hidden must not be in what is shown, and kept must.
func TestSemantics(t *testing.T) {
	fields := []string{"customer_email", "$.order.items[*].name", "$..ssn"}
	b64 := base64.StdEncoding.EncodeToString
	nested := func(n int, s string) string {
		for range n {
			s = member(s)
		}
		return s
	}
	for _, c := range []struct{ name, contentType, in, hidden, kept string }{
		{"field at any depth", jsonType, `{"a":[{"b":{"customer_email":"zoe-q"}}]}`, "zoe-q", `"b"`},
		{"field in camel case", jsonType, `{"customerEmail":"zoe-q"}`, "zoe-q", "customerEmail"},
		{"field in header case", jsonType, `{"Customer-Email":"zoe-q"}`, "zoe-q", ""},
		{"field with spaces and dots", jsonType, `{"customer .email":"zoe-q"}`, "zoe-q", ""},
		{"field in NFKC", jsonType, `{"ｃｕｓｔｏｍｅｒ＿email":"zoe-q"}`, "zoe-q", ""},
		{"path with a name and a wildcard", jsonType, `{"order":{"items":[{"name":"zoe-q","n":"kept-1"}]},"name":"kept-2"}`, "zoe-q", "kept-2"},
		{"path at any depth", jsonType, `{"a":{"b":[{"ssn":"zoe-q"}]}}`, "zoe-q", ""},
		{"whole subtree", jsonType, `{"customer_email":{"x":[true,"zoe-q",{"y":774411}]},"z":"kept"}`, "774411", "kept"},
		{"number of a field", jsonType, `{"customer_email":774411}`, "774411", ""},
		{"keys are scanned", jsonType, `{"gh` + `p_16C7e42F292c6912E7710c838347Ae178B4a":1}`, "16C7e42F", ""},
		{"duplicate keys, the first", jsonType, `{"customer_email":"zoe-q","customer_email":"b"}`, "zoe-q", ""},
		{"duplicate keys, the last", jsonType, `{"customer_email":"b","customer_email":"zoe-q"}`, "zoe-q", ""},
		{"escaped key", jsonType, `{"p\u0061ssword":"zoe-q"}`, "zoe-q", "password"},
		{"JSON in a string", jsonType, nested(3, `{"password":"zoe-q"}`), "zoe-q", ""},
		{"form in a string", jsonType, member("a=1&password=zoe-q"), "zoe-q", "a=1"},
		{"URL in a string", jsonType, member("https://h.example/cb?a=1&code=zoe-q"), "zoe-q", "a=1"},
		{"base64 in a string", jsonType, member(b64([]byte("password=zoe-q-177-zz"))), b64([]byte("password=zoe-q-177"))[:20], ""},
		{"deeper than four layers", jsonType, nested(7, `{"password":"zoe-q"}`), "zoe-q", ""},
		{"name feeds rules", jsonType, `{"facebook_app_secret":"d41d8cd98f00b204e9800998ecf8427e"}`, "d41d8cd9", "facebook"},
		{"invalid JSON", jsonType, `{"password":"zoe-q",}`, "zoe-q", "[unparsed "},
		{"invalid JSON in text", "text/plain", `{"password":"zoe-q",} {"customer_email": "zoe-q"`, "zoe-q", ""},
		{"cut in a private key", "text/plain", "x\n-----BEGIN PRIVATE KEY-----\nMIIEzoe-q", "zoe-q", "x\n"},
		{"cut in a quoted value", "text/plain", `x "password": "zoe-q and mo`, "zoe-q", "x "},
		{"percent twice", jsonType, member("https://h.example/?q=password%253Dzoe-q-177"), "zoe-q", "h.example"},
		{"user info", jsonType, member("see https://u:zoe-q@h.example/x"), "zoe-q", "h.example/x"},
		{"fragment", jsonType, member("https://h.example/cb#access_token=zoe-q&a=1"), "zoe-q", "a=1"},
		{"signed URL", jsonType, member("https://h.example/o?X-Amz-Signature=zoe-q&X-Amz-Expires=60"), "zoe-q", "X-Amz-Expires=60"},
		{"signed URL of Google", jsonType, member("https://h.example/o?X-Goog-Signature=zoe-q"), "zoe-q", "h.example"},
		{"SAMLResponse", formType, "SAMLResponse=zoe-q177zz&RelayState=x", "zoe-q", ""},
		{"link that resets a password", jsonType, member("https://h.example/reset/zoe-q77Xk2mB9/next"), "zoe-q", "h.example/reset/"},
		{"link that confirms, in text", "text/plain", "go to https://h.example/confirm-email/zoe-q77Xk2mB9 now", "zoe-q", "now"},
		{"file name", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a.txt\"\r\n\r\nhi\r\n--b--\r\n", "16C7e42F", "hi"},
		{"header of a part", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"\r\nX-Api-Key: zoe-q77Xk2mB9\r\n\r\nhi\r\n--b--\r\n", "zoe-q", "hi"},
		{"GraphQL variables", jsonType, `{"query":"mutation M($p: String!) { login(p: $p) { id } }","variables":{"password":"zoe-q"}}`, "zoe-q", "mutation M"},
		{"GraphQL literals", jsonType, `{"query":"mutation { login(user: \"anna\", phrase: \"zoe-q\") { id } }"}`, "zoe-q", "login(user: "},
		{"GraphQL literals of its own type", "application/graphql", `mutation { login(phrase: """zoe-q "and" more""") { id } }`, "zoe-q", "id"},
		{"placeholder before", "text/plain", "[REDACTED:token] password=zoe-q-177", "zoe-q", ""},
		{"placeholder imitated", "text/plain", "password=[REDACTED:x]zoe-q-177", "zoe-q", ""},
		{"gitleaks:allow", "text/plain", "password=zoe-q-177 # gitleaks:allow", "zoe-q", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewRules(Rules{Fields: fields})
			if err != nil {
				t.Fatal(err)
			}
			r := s.Body(c.contentType, []byte(c.in), true)
			if strings.Contains(r.Text, c.hidden) || !strings.Contains(r.Text, c.kept) {
				t.Errorf("%s\n=> %s", c.in, r.Text)
			}
			if c.contentType == jsonType && r.Status != StatusFailedClosed {
				if again := s.Body(c.contentType, []byte(r.Text), true); again.Text != r.Text {
					t.Errorf("not idempotent:\n%s\n%s", r.Text, again.Text)
				}
			}
		})
	}
	for name, shown := range map[string]string{
		"Location": headerValue("Location", "https://h.example/cb?code=zoe-q"), "Referer": headerValue("Referer", "https://h.example/cb#token=zoe-q"),
		"Link": headerValue("Link", `<https://h.example/?page=2&key=zoe-q>; rel="next"`), "Authorization": headerValue("Authorization", "Bearer zoe-q"),
		"Cookie": headerValue("Cookie", "sid=zoe-q"), "Set-Cookie": headerValue("Set-Cookie", "sid=zoe-q; Path=/"), "X-Unknown": headerValue("X-Unknown", "zoe-q"),
	} {
		if strings.Contains(shown, "zoe-q") {
			t.Errorf("header %s: %s", name, shown)
		}
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	if r := new(Scrubber).Coded("text/plain", "gzip", bomb.Bytes(), true); r.Status != StatusFailedClosed {
		t.Error("a body that grows a thousand times was read")
	}
}
