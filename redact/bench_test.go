package redact

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the time that this process has computed.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// repeated is a body whose lines are all the same, varied one whose are not: the values of a log are mostly new.
func repeated(line string, size int) string {
	return "[" + strings.Repeat(line, size/len(line)) + "0]"
}

func varied(secrets bool, size int) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(n int, from string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = from[rnd.IntN(len(from))]
		}
		return string(b)
	}
	const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	words := strings.Fields(`request handled in the service account for order number item basket checkout customer author keyboard accessible
		authentication monkey path pattern users task risk description label status active pending created updated response latency region
		europe west upstream cluster node deployment replica version build commit message level info warn error debug`)
	var b strings.Builder
	b.WriteString(`{"logs":[`)
	for n := 0; b.Len() < size; n++ {
		text := make([]string, 12)
		for i := range text {
			text[i] = words[rnd.IntN(len(words))]
		}
		if secrets && n%2 == 0 {
			text[3] = pick(8, "abcdefghijklmnop") + "@example.org"
		}
		if secrets && n%9 == 0 {
			text[7] = []string{"gh" + "p_" + pick(36, alnum), "AK" + "IA" + pick(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), "api_key=" + pick(40, alnum),
				"https://user:" + pick(16, alnum) + "@db.example.org/path", "Authorization: Bearer " + pick(40, alnum)}[rnd.IntN(5)]
		}
		fmt.Fprintf(&b, `{"id":%d,"time":"2025-01-%02dT10:00:%02d.%03dZ","request_id":"%s","duration":%d.%d,"ok":true,"message":"%s"},`,
			100000+n, rnd.IntN(28)+1, rnd.IntN(60), rnd.IntN(1000), pick(16, "0123456789abcdef"), rnd.IntN(1000), rnd.IntN(1000), strings.Join(text, " "))
	}
	return b.String() + "0]}"
}

// BenchmarkClasses masks JSON of one line, with all classes: clean, with secrets, and as small as a tool's call.
func BenchmarkClasses(b *testing.B) {
	clean := `{"id":12345,"time":"2025-01-01T10:00:00Z","request_id":"4bf92f3577b34da6","message":"request handled in the service"},`
	dirty := clean + `{"password":"Tr0ub4dor&3xyz","who":"bob@example.com","key":"gh` + `p_0123456789abcdefABCDEF0123456789abcd"},`
	s := allClasses(b, "customer_email")
	for _, c := range []struct{ name, text string }{
		{"clean-1MiB", repeated(clean, 1<<20)}, {"dirty-1MiB", repeated(dirty, 1<<20)}, {"dirty-4KiB", repeated(dirty, 4<<10)},
		{"log-clean-1MiB", varied(false, 1<<20)}, {"log-dirty-1MiB", varied(true, 1<<20)},
	} {
		body := []byte(c.text)
		b.Run(c.name, func(b *testing.B) {
			perCPU(b, len(body), func() {
				if r := s.Body("application/json", body, true); r.Status == StatusFailedClosed {
					b.Fatal(r.Status)
				}
			})
		})
		b.Run(c.name+"-stream", func(b *testing.B) {
			perCPU(b, len(body), func() {
				if _, err := s.Copy(io.Discard, strings.NewReader(c.text), "application/json", ""); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// perCPU reports MiB per second of computing, since a machine may do other things meanwhile.
func perCPU(b *testing.B, size int, f func()) {
	b.ReportAllocs()
	f()
	before := cpuTime(b)
	for b.Loop() {
		f()
	}
	spent := cpuTime(b) - before
	b.ReportMetric(float64(size)*float64(b.N)/(1<<20)/spent.Seconds(), "MiB/CPU-s")
}
