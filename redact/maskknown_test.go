package redact

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact/known"
)

// TestMaskKnownAtEverySplit: each form of a secret is masked at the same length, wherever the reads cut it.
func TestMaskKnownAtEverySplit(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	for name, form := range map[string]string{
		"raw": liveToken, "percent": url.QueryEscape(liveToken), "json": strings.Trim(jsonQuote(liveToken), `"`), "html": html.EscapeString(liveToken),
		"hex": hex.EncodeToString([]byte(liveToken)), "base64": base64.StdEncoding.EncodeToString([]byte("x:" + liveToken + "!")),
	} {
		in := "you sent " + form + " and " + form + "."
		for i := range len(in) + 1 {
			got, err := io.ReadAll(MaskKnown(&pieces{in[:i], in[i:]}, set))
			if err != nil || len(got) != len(in) || !strings.HasPrefix(string(got), "you sent ") || strings.Count(string(got), "REDACTED")+strings.Count(string(got), "EDACTED")+strings.Count(string(got), "DACTED")+strings.Count(string(got), "ACTED") < 2 {
				t.Fatalf("%s at %d: %v\n%s\n%s", name, i, err, in, got)
			}
			plain := string(got) + html.UnescapeString(string(got)) + lenientPercent(string(got)) + unbase64(string(got)) + unescapeJSON(string(got))
			if common(liveToken, plain) >= 8 {
				t.Fatalf("%s at %d: %s", name, i, got)
			}
		}
		got, err := io.ReadAll(MaskKnown(&pieced{text: []byte(in)}, set))
		if err != nil || len(got) != len(in) || common(liveToken, string(got)+lenientPercent(string(got))+unbase64(string(got))) >= 8 {
			t.Errorf("%s byte by byte: %v %s", name, err, got)
		}
	}
}

// A message goes out at once, though it ends as the secret begins.
func TestMaskKnownHoldsNothingBack(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	for _, message := range []string{"data: one\n\n", "t", "the end is tgt"} {
		in := &pieces{message, "more"}
		b := make([]byte, 100)
		if n, err := MaskKnown(in, set).Read(b); err != nil || string(b[:n]) != message || len(*in) != 1 {
			t.Errorf("%q: %q %v", message, b[:n], err)
		}
	}
}
