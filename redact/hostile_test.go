package redact

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are bodies that are made to cost.
func hostile(size int) map[string][2]string {
	text := func(piece string) [2]string {
		return [2]string{jsonType, `{"v":` + jsonQuote(strings.Repeat(piece, size/len(piece))) + `}`}
	}
	bodies := map[string][2]string{
		"digits":       {"text/plain", strings.Repeat("4111111111", size/10)},
		"base64 lines": {"text/plain", strings.Repeat("aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29y\n", size/45)},
	}
	for _, piece := range []string{"key=", "a.a.a.", "://", `"`, `\`, "0", "1-", "4111 ", "%2541", "&amp;", "<b>", "ZXlK", "deadbeef", "eyJ", "Bearer ", "-----BEGIN ", "[REDACTED:", "a@", "password: ", "curl -u a:",
		"key: 'a1B2c3D4e5F6g7H8' ", "aGVsbG8gd29ybGQg", "'", " :", "x=+"} {
		bodies[fmt.Sprintf("%q", piece)] = text(piece)
	}
	var leaves, names strings.Builder
	for n := 0; leaves.Len() < size; n++ {
		leaves.WriteString(`"a",`)
		fmt.Fprintf(&names, `"key%d":"v",`, n)
	}
	bodies["tiny leaves"] = [2]string{jsonType, "[" + leaves.String() + "0]"}
	bodies["names"] = [2]string{jsonType, "{" + names.String()[:min(names.Len(), size)] + `":0}`}
	if s := bodies["names"][1]; !json.Valid([]byte(s)) {
		bodies["names"] = [2]string{jsonType, "{" + s[1:strings.LastIndex(s, `,"`)] + "}"}
	}
	nested := `{"password":"hunter2hunter2","who":"bob@example.com"}`
	for range 4 {
		nested = `{"v":` + jsonQuote("["+strings.TrimSuffix(strings.Repeat(nested+",", max(1, size/16/len(nested)/4)), ",")+"]") + `}`
		if len(nested) > size/4 {
			break
		}
	}
	bodies["nested"] = [2]string{jsonType, nested}
	return bodies
}

// costs returns the least of the times that a call computes for.
func costs(t testing.TB, times int, f func()) time.Duration {
	least := time.Duration(1 << 62)
	for range times {
		before := cpuTime(t)
		f()
		least = min(least, cpuTime(t)-before)
	}
	return least
}

// TestHostileIsLinear: eight times as much of anything costs no more than eight times as much for each byte again. Where time grows with the
// square, it costs 64 times as much.
func TestHostileIsLinear(t *testing.T) {
	s := allClasses(t, "customer_email")
	const size = 16 << 10
	small, large := hostile(size), hostile(8*size)
	for name, b := range small {
		l := large[name]
		mask := func(b [2]string) func() { return func() { s.Body(b[0], []byte(b[1]), true) } }
		mask(b)()
		// A few milliseconds more are for the collector and the clock.
		one, eight := costs(t, 3, mask(b)), costs(t, 2, mask(l))
		if most := one*time.Duration(len(l[1]))/time.Duration(len(b[1]))*3 + 30*time.Millisecond; eight > most {
			t.Errorf("%s: %v for %d bytes, %v for %d", name, one, len(b[1]), eight, len(l[1]))
		}
	}
}

// BenchmarkHostile reports how much longer a byte of each takes than one of a body with secrets.
func BenchmarkHostile(b *testing.B) {
	s := allClasses(b, "customer_email")
	dirty := varied(true, 1<<20)
	base := float64(costs(b, 3, func() { s.Body(jsonType, []byte(dirty), true) })) / float64(len(dirty))
	for name, body := range hostile(1 << 20) {
		b.Run(name, func(b *testing.B) {
			spent := costs(b, max(b.N, 2), func() { s.Body(body[0], []byte(body[1]), true) })
			b.ReportMetric(float64(spent)/float64(len(body[1]))/base, "x-of-secrets")
		})
	}
}

// endless gives a piece over and over, and stops now and then to look at the heap.
type endless struct {
	piece, end string
	left       int
	rest       string
	most       uint64
	reads      int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.reads++; e.reads%40 == 0 {
		e.most = max(e.most, heap())
	}
	n := 0
	for n < len(p) {
		if e.rest == "" {
			switch {
			case e.left > 0:
				e.rest = e.piece
				e.left -= len(e.piece)
			case e.end != "":
				e.rest, e.end = e.end, ""
			default:
				if n == 0 {
					return 0, io.EOF
				}
				return n, nil
			}
		}
		k := copy(p[n:], e.rest)
		n, e.rest = n+k, e.rest[k:]
	}
	return n, nil
}

// heap returns the bytes that are held when the collector has run.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStreamMemory: whatever comes through, a stream holds no more than 256 KiB. With TOOLGATE_REDACTION_LONG set, 64 MiB of each come.
func TestStreamMemory(t *testing.T) {
	const most = 256 << 10
	size := 1 << 20
	if os.Getenv("TOOLGATE_REDACTION_LONG") != "" {
		size = 64 << 20
	}
	line := `{"id":12345,"time":"2025-01-01T10:00:00Z","message":"request handled","password":"hunter2hunter2","who":"bob@example.com"}`
	var names strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&names, `"name%06d of something":1,`, n)
	}
	s := allClasses(t, "customer_email")
	for _, c := range []struct{ name, contentType, begin, piece, end string }{
		{"json", jsonType, "[", line + ",", "0]"},
		{"json, many names", jsonType, "{", names.String(), `"z":0}`},
		{"json, a long string", jsonType, `{"v":"`, strings.Repeat("long ", 1000), `"}`},
		{"json, a long name", jsonType, `{"`, strings.Repeat("long ", 1000), `":1}`},
		{"json, masked whole", jsonType, `{"password":[`, line + ",", "0]}"},
		{"json, white space", jsonType, "[", strings.Repeat(" ", 5000), "0]"},
		{"ndjson", "application/x-ndjson", "", line + "\n", ""},
		{"one long line", "application/x-ndjson", `{"v":"`, strings.Repeat("long ", 1000), "\"}\n"},
		{"text", "text/plain", "", "a line with password=hunter2hunter2 and bob@example.com\n", ""},
		{"text, one line", "text/plain", "", strings.Repeat("word ", 1000), ""},
		{"private key", "text/plain", "-----BEGIN RSA PRIVATE KEY-----\n", strings.Repeat("MIIEowIBAAKCAQEA\n", 300), "-----END RSA PRIVATE KEY-----\n"},
		{"form", formType, "a=1", strings.Repeat("&password=hunter2hunter2&who=bob%40example.com", 100), ""},
		{"form, one value", formType, "a=1", strings.Repeat("x", 5000), ""},
		{"multipart", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n", strings.Repeat("x", 5000), "\r\n--b--\r\n"},
		{"events", "text/event-stream", "", "data: " + line + "\n\n", ""},
		{"events, pieces", "text/event-stream", "", `data: {"choices":[{"index":0,"delta":{"content":"a token "}}]}` + "\n\n", ""},
		{"events, pieces of JSON", "text/event-stream", "", `data: {"choices":[{"index":0,"delta":{"arguments":"{\"a token\":"}}]}` + "\n\n", ""},
		{"events, many texts", "text/event-stream", "", manyTexts(), ""},
		{"events, one event", "text/event-stream", "", "data: " + line + "\n", "\n"},
	} {
		run := func(size int) uint64 {
			in := &endless{piece: c.piece, end: c.end, left: size, rest: c.begin}
			before := heap()
			if _, err := s.Copy(io.Discard, in, c.contentType, ""); err != nil {
				t.Fatal(c.name, err)
			}
			if in.most < before {
				return 0
			}
			return in.most - before
		}
		run(64 << 10) // rules are compiled when they are first needed
		if got := run(size); got > most {
			t.Errorf("%s: %d KiB", c.name, got>>10)
		} else {
			t.Logf("%s: %d KiB", c.name, got>>10)
		}
	}
}

// manyTexts are events of 40 texts that come in pieces.
func manyTexts() string {
	var b strings.Builder
	for n := range 40 {
		fmt.Fprintf(&b, `data: {"choices":[{"index":%d,"delta":{"content":"a token %s"}}]}`+"\n\n", n, strings.Repeat("x", 300))
	}
	return b.String()
}
