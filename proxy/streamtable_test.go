package proxy

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// requestStreams reads testdata/streams.txt: the classics of request smuggling, and targets that servers read in different ways.
func requestStreams(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/streams.txt")
	if err != nil {
		t.Fatal(err)
	}
	expand := strings.NewReplacer(
		"{L}", "GET {U}/ok/last HTTP/1.1\r\nHost: {H}\r\n{A}Connection: close\r\n\r\n",
		"{S}", "GET {U}/smuggled HTTP/1.1\r\nHost: {H}\r\n{A}\r\n")
	var out []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		stream, err := strconv.Unquote(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, expand.Replace(stream))
	}
	return out
}
