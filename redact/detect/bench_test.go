package detect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu returns the time that this process has computed.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perCPU reports MiB per second of computing, since a machine may do other things meanwhile.
func perCPU(b *testing.B, bytes int, f func()) {
	b.ReportAllocs()
	f()
	before := cpu(b)
	b.ResetTimer()
	for range b.N {
		f()
	}
	b.StopTimer()
	b.ReportMetric(float64(bytes)*float64(b.N)/(1<<20)/(cpu(b)-before).Seconds(), "MiB/CPU-s")
}

var vocabulary = strings.Fields(`request handled in the service account for order number item basket checkout customer author keyboard accessible
	authentication tokenizer secretary monkey path pattern users task risk description sk label status active pending created updated email
	response latency region europe west upstream cluster node deployment replica version build commit message level info warn error debug`)

// fake makes what looks like secrets; the seed is fixed, so none is anybody's.
type fake struct{ *rand.Rand }

func (f fake) letters(n int, from string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[f.IntN(len(from))]
	}
	return string(b)
}

const (
	alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hexes = "0123456789abcdef"
)

func (f fake) secret() string {
	switch f.IntN(8) {
	case 0:
		return "gh" + "p_" + f.letters(36, alnum)
	case 1:
		return "AK" + "IA" + f.letters(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	case 2:
		return "gl" + "pat-" + f.letters(20, alnum)
	case 3:
		return "ey" + "J" + f.letters(40, alnum) + ".eyJ" + f.letters(120, alnum) + "." + f.letters(86, alnum)
	case 4:
		return "api_key=" + f.letters(40, alnum)
	case 5:
		return "xo" + "xb-" + f.letters(12, "0123456789") + "-" + f.letters(12, "0123456789") + f.letters(24, alnum)
	case 6:
		return "https://user:" + f.letters(16, alnum) + "@db.example.org/path"
	}
	return "Authorization: Bearer " + f.letters(40, alnum)
}

// logBody makes one line of JSON of about a mebibyte: lines of a log in an array, as an upstream would answer with them.
func logBody(secrets, emails int) []byte {
	f := fake{rand.New(rand.NewPCG(1, 2))}
	var b bytes.Buffer
	b.WriteString(`{"logs":[`)
	for n := 0; b.Len() < 1<<20; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		words := make([]string, 12)
		for i := range words {
			words[i] = vocabulary[f.IntN(len(vocabulary))]
		}
		if emails > 0 && n%4 != 0 {
			words[3] = f.letters(8, "abcdefghijklmnop") + "@example.org"
			emails--
		}
		if secrets > 0 && n%9 == 0 {
			words[7] = f.secret()
			secrets--
		}
		fmt.Fprintf(&b, `{"id":%d,"time":"2025-01-%02dT10:00:%02d.%03dZ","request_id":"%s","duration":%d.%d,"ok":true,"message":"%s"}`,
			100000+n, f.IntN(28)+1, f.IntN(60), f.IntN(1000), f.letters(16, hexes), f.IntN(1000), f.IntN(1000), strings.Join(words, " "))
	}
	b.WriteString("]}")
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	all := allOf(b)
	secrets, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  *Set
		body []byte
	}{
		{"dirty", all, logBody(290, 1452)},
		{"clean", all, logBody(0, 0)},
		{"clean-noPII", secrets, logBody(0, 0)},
		{"dirty-4KiB", all, logBody(290, 1452)[:4096]},
	} {
		b.Run(c.name, func(b *testing.B) {
			var spans []Span
			perCPU(b, len(c.body), func() { spans = c.set.Scan(spans[:0], c.body, "") })
			b.ReportMetric(float64(len(spans)), "spans")
		})
	}
}

// BenchmarkLeaf is a short value with its name, as a JSON body has many.
func BenchmarkLeaf(b *testing.B) {
	set := allOf(b)
	value := []byte("request handled in 12 ms")
	var spans []Span
	b.ReportAllocs()
	for b.Loop() {
		spans = set.Scan(spans[:0], value, "message")
	}
}

// BenchmarkMemory reports what the rules cost: the heap after the first Set, and after every rule was used.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 10)
	}
	for b.Loop() {
		before := heap()
		began := cpu(b)
		rs := load()
		b.ReportMetric(float64((cpu(b) - began).Microseconds()), "µs-to-load")
		b.ReportMetric(heap()-before, "KiB-loaded")
		for _, r := range rs.rules {
			r.pattern()
		}
		b.ReportMetric(heap()-before, "KiB-all-compiled")
		b.ReportMetric(float64(len(rs.auto.outs)), "states")
		runtime.KeepAlive(rs)
	}
}

// BenchmarkHostile is text that is made to cost: what nearly matches, or matches at every place. The least of the figures is what
// whoever writes a body can bring a scan down to.
func BenchmarkHostile(b *testing.B) {
	set := allOf(b)
	for _, p := range []string{"curl ", "curl -u \"a", "kind:secret data: ", "password=\"a ", "authorization:", "token=", "-----BEGIN X-----",
		"ey" + "JhbGciOiJIU.eyJ", "://", "a@", "@", "1-", "1.1.1.", "4111 ", "facebook ", "facebook1", "key=abcDEF123456789x ", "+1 ", "A1", "aa:",
		"<add key=\"Password\" value=\"", "api_key = 'a1B2c3D4e5F6g7H8' ", "AA 12 ", "bearer ", "x=", "GB29", "-", "ZXlK", "s.", "discord 123456789",
		"twitter", "curl curl\n"} {
		b.Run(strings.TrimSpace(p[:min(len(p), 12)]), func(b *testing.B) {
			text := []byte(strings.Repeat(p, 1<<17/len(p)))
			var spans []Span
			perCPU(b, len(text), func() { spans = set.Scan(spans[:0], text, "") })
		})
	}
}
