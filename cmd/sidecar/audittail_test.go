package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTailFollows: lines that come are printed once they are whole, also those after another file has taken the name.
func TestTailFollows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records.jsonl")
	line := func(id string) string { return `{"decision":"allow","id":"` + id + `","kind":"request","v":1}` + "\n" }
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(line("old") + line("one") + line("two"))
	out := newLines()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&tail{last: 2, out: out}).follow(ctx, name) }()
	want := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if got := out.next(t); !strings.Contains(got, "id="+id) {
				t.Fatalf("%q, want id %s", got, id)
			}
		}
	}
	want("one", "two")
	half := line("three")
	write(half[:10])
	write(half[10:] + line("four") + line("five") + line("six"))
	want("three", "four", "five", "six")
	if err := os.Rename(name, name+".000001"); err != nil {
		t.Fatal(err)
	}
	write(line("seven") + line("eight") + line("nine"))
	want("seven", "eight", "nine")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
