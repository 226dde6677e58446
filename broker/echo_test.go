package broker

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

// TestScrubForms: headers and bodies, however they come, do not give the tool its credential, whole or its own part, in any form. That no
// split lets one through is a test of package redact.
func TestScrubForms(t *testing.T) {
	const secret = `v9/Q"2+x<7&zK8`
	c := newCredential(Ref{}, "Authorization", "Bearer ", secret)
	slash := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	encoded := base64.StdEncoding.EncodeToString([]byte("of the key " + secret + " here"))
	for name, form := range map[string]string{
		"raw": secret, "query twice": url.QueryEscape(url.QueryEscape(secret)), "JSON in JSON": slash.Replace(slash.Replace(secret)),
		"escapes": `v9\/Q\u00222\u002bx\u003C7\u0026zK8`, "HTML": "v9&#47;Q&quot;2&#x2b;x&lt;7&amp;zK8", "hex": hex.EncodeToString([]byte(secret)),
		"base64 in lines": encoded[:16] + "\r\n" + encoded[16:32] + "\r\n" + encoded[32:],
		"events":          `data: {"delta":"v9/Q\"2+x"}` + "\n\n" + `data: {"delta":"<7&zK8"}` + "\n\n",
	} {
		for how, r := range map[string]io.Reader{"in one": strings.NewReader(form), "byte by byte": iotest.OneByteReader(strings.NewReader(form)), "with its end": iotest.DataErrReader(strings.NewReader(form))} {
			body, err := io.ReadAll(c.ScrubBody(r))
			if err != nil || len(body) != len(form) || strings.Contains(string(body), "zK8") || strings.Contains(string(body), "x<7") || !strings.Contains(string(body), "ED:c") && name != "events" {
				t.Errorf("%s %s: %q %v", name, how, body, err)
			}
		}
		h := http.Header{"X-Echo": {strings.NewReplacer("\r\n", "", "\n", "").Replace(form)}}
		if n := c.ScrubHeader(h); n == 0 || strings.Contains(h.Get("X-Echo"), "zK8") {
			t.Errorf("%s: %d places of a header, and %q is left", name, n, h)
		}
	}
}

// TestScrubNames: a field whose name tells the credential is left out, and no other.
func TestScrubNames(t *testing.T) {
	for _, secret := range []string{"eyJ-Token_9.xyz~", "dG9-rZW4="} {
		c := newCredential(Ref{}, "Authorization", "Bearer ", secret)
		h := http.Header{}
		for _, name := range []string{secret, "X-Echo-" + secret + "-End", url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
			h.Set(name, "1")
			h[strings.ToLower(name)] = nil // as a trailer is before it comes
		}
		all := len(h)
		h["Etag"], h["X-"+strings.Repeat("a", 40)] = []string{"1"}, []string{"1"}
		if n := c.ScrubHeader(h); n != all || len(h) != 2 {
			t.Errorf("%s: %d of %d found, left: %q", secret, n, all, h)
		}
	}
}
