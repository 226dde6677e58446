package redact

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkClasses masks JSON of one line, with all classes: clean, with secrets, and as small as a tool's call.
func BenchmarkClasses(b *testing.B) {
	clean := `{"id":12345,"time":"2025-01-01T10:00:00Z","request_id":"4bf92f3577b34da6","message":"request handled in the service"},`
	dirty := clean + `{"password":"Tr0ub4dor&3xyz","who":"bob@example.com","key":"gh` + `p_0123456789abcdefABCDEF0123456789abcd"},`
	s := allClasses(b, "customer_email")
	for name, c := range map[string]struct {
		line string
		size int
	}{"clean-1MiB": {clean, 1 << 20}, "dirty-1MiB": {dirty, 1 << 20}, "dirty-4KiB": {dirty, 4 << 10}} {
		body := []byte("[" + strings.Repeat(c.line, c.size/len(c.line)) + "0]")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if r := s.Body("application/json", body, true); r.Status == StatusFailedClosed {
					b.Fatal(fmt.Sprint(r.Status))
				}
			}
		})
		b.Run(name+"-stream", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Copy(io.Discard, strings.NewReader(string(body)), "application/json", ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
