package redact

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// vendorToken has the form of a token and is none.
var vendorToken = "ghp_" + "x7Kq2Lw9Zr4Tn8Vb1Mc6Yd3Hf5Jg0Ps2Ra4E"

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// Wherever a payload is cut, no part of a secret that is longer than what any text might have is shown.
func TestExcerptOfACutPayloadShowsNoHalfSecret(t *testing.T) {
	card := "4111 1111 1111 1111"
	secrets := []string{vendorToken, card, "hunter2hunter2"}
	for name, whole := range map[string]string{
		"application/json":                  `{"a":"b","password":"hunter2hunter2","n":4111111111111111,"text":"x ` + vendorToken + ` y","card":"` + card + `"}`,
		"application/x-ndjson":              `{"a":1}` + "\n" + `{"password":"hunter2hunter2"}` + "\n" + `{"t":"` + vendorToken + `","card":"` + card + `"}` + "\n",
		"application/x-www-form-urlencoded": "a=b&password=hunter2hunter2&t=" + vendorToken + "&card=4111+1111+1111+1111",
		"text/event-stream":                 "event: x\ndata: {\"password\":\"hunter2hunter2\"}\n\ndata: " + vendorToken + "\n\ndata: " + card + "\n\n",
		"text/plain":                        "first line\npassword=hunter2hunter2\ntoken " + vendorToken + "\n" + card + "\n",
		"multipart/form-data; boundary=B": "--B\r\nContent-Disposition: form-data; name=password\r\n\r\nhunter2hunter2\r\n--B\r\n" +
			"Content-Disposition: form-data; name=t\r\n\r\n" + vendorToken + " " + card + "\r\n--B--\r\n",
	} {
		s := new(Scrubber)
		for end := range len(whole) {
			e := s.Excerpt(name, "", []byte(whole[:end]), false, 1<<10)
			if !e.Cut {
				t.Errorf("%s cut at %d: not told to be cut", name, end)
			}
			for _, secret := range secrets {
				for n := 6; n <= len(secret); n++ {
					if strings.Contains(e.String(), secret[:n]) {
						t.Fatalf("%s cut at %d shows %q of a secret: %s", name, end, secret[:n], &e)
					}
				}
			}
			if strings.Contains(e.String(), "41111111") {
				t.Fatalf("%s cut at %d shows a part of a card: %s", name, end, &e)
			}
		}
		e := s.Excerpt(name, "", []byte(whole), true, 1<<10)
		if e.Cut || e.Status != StatusRedacted || !strings.Contains(e.String(), "[REDACTED:") {
			t.Errorf("%s whole: %+v", name, e)
		}
		coded := s.Excerpt(name, "gzip", gzipped([]byte(whole)), true, 1<<10)
		if coded.Cut || coded.Status != StatusRedacted {
			t.Errorf("%s with gzip: %+v", name, coded)
		}
		for _, secret := range secrets {
			if strings.Contains(coded.String(), secret) || strings.Contains(e.String(), secret) {
				t.Errorf("%s shows %q", name, secret)
			}
		}
	}
}

// The text is cut when it has been masked, not before.
func TestExcerptIsMaskedBeforeItIsCut(t *testing.T) {
	for size := range 300 {
		body := `{"pad":"` + strings.Repeat("x", 100) + `","token_of_it":"` + vendorToken + `","rest":"` + strings.Repeat("é", 100) + `"}`
		e := new(Scrubber).Excerpt("application/json", "", []byte(body), true, size)
		if len(e.String()) > size || strings.Contains(e.String(), "ghp_") {
			t.Fatalf("of size %d: %s", size, &e)
		}
		if !e.Cut || strings.Contains(e.String(), "\uFFFD") {
			t.Fatalf("of size %d: cut %v: %q", size, e.Cut, &e)
		}
	}
}

// What would become very long is decoded as far as it is shown.
func TestExcerptOfABomb(t *testing.T) {
	zeros := make([]byte, 256<<20)
	bombs := map[string][]byte{"gzip": gzipped(zeros), "gzip,gzip": gzipped(gzipped(zeros))}
	var z bytes.Buffer
	zw, err := zstd.NewWriter(&z, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = zw.Write(zeros)
	_ = zw.Close()
	bombs["zstd"] = z.Bytes()
	var br bytes.Buffer
	bw := brotli.NewWriterLevel(&br, 1)
	_, _ = bw.Write(zeros)
	_ = bw.Close()
	bombs["br"] = br.Bytes()
	for coding, bomb := range bombs {
		for _, kind := range []string{"application/json", "text/plain", "text/event-stream", "multipart/mixed; boundary=b"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			e := new(Scrubber).Excerpt(kind, coding, bomb, true, 8<<10)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 48<<20 {
				t.Errorf("%s, %s: %d MiB", coding, kind, used>>20)
			}
			if len(e.String()) > 8<<10 {
				t.Errorf("%s, %s: %d bytes of text", coding, kind, len(e.String()))
			}
		}
	}
}

// What cannot be read is not shown, whatever came before it looked like.
func TestExcerptFailsClosed(t *testing.T) {
	s := new(Scrubber)
	for name, c := range map[string]struct{ kind, coding, body string }{
		"unknown type":   {"application/octet-stream", "", "secret"},
		"unknown coding": {"text/plain", "compress", "secret"},
		"broken coding":  {"text/plain", "gzip", "secret"},
		"no JSON":        {"application/json", "", `{"a":secret}`},
		"two values":     {"application/json", "", `{} secret`},
		"no multipart":   {"multipart/form-data; boundary=B", "", "secret"},
	} {
		for _, size := range []int{3, 1 << 10} {
			e := s.Excerpt(c.kind, c.coding, []byte(c.body), true, size)
			if strings.Contains(e.String(), "sec") || e.Status != StatusFailedClosed {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for _, body := range []string{"a\xff\xfe" + vendorToken + "\xff", "\xff{\"password\":\"hunter2hunter2\"}"} {
		for _, kind := range []string{"application/json", "text/plain", "text/event-stream", ""} {
			e := s.Excerpt(kind, "", []byte(body), true, 1<<10)
			if strings.Contains(e.String(), vendorToken[4:]) || strings.Contains(e.String(), "hunter2") {
				t.Errorf("%s: %q", kind, &e)
			}
		}
	}
}

// Handler prints it as it is; it forges no line.
func TestExcerptInALog(t *testing.T) {
	body := "a\nb\u202e\u0085c\x1b[2J \r\n{\"level\":\"ERROR\"}\n"
	for name, h := range map[string]func(io.Writer) slog.Handler{
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
	} {
		for _, wrap := range []func(slog.Handler) slog.Handler{Handler, func(h slog.Handler) slog.Handler { return h }} {
			var out bytes.Buffer
			e := new(Scrubber).Excerpt("text/plain", "", []byte(body), true, 1<<10)
			slog.New(wrap(h(&out))).Info("payload", "body", e)
			if line := out.String(); strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\x1b\r\u202e\u0085") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

func TestRuleset(t *testing.T) {
	if got := Ruleset(); !strings.HasPrefix(got, "gitleaks v8.") {
		t.Errorf("%q", got)
	}
}

func BenchmarkExcerpt(b *testing.B) {
	s := forFields(b, "customer_email")
	for _, n := range []int{1 << 10, 4 << 10, 64 << 10} {
		body := []byte(`{"items":[`)
		for i := 0; len(body) < n; i++ {
			body = fmt.Appendf(body, `{"id":%d,"name":"An article of the shop","price":%d.5,"customer_email":"someone@example.com"},`, i, i)
		}
		body = append(body[:len(body)-1], "]}"...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				s.Excerpt("application/json", "", body, true, 8<<10)
			}
		})
	}
}
