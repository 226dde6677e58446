package proxy

import (
	"bytes"
	"strings"
	"testing"
)

func TestTeeKeepsTheBeginning(t *testing.T) {
	c := &copies{max: 100}
	var k tee
	k.open(10, c)
	for _, piece := range []string{"abc", "", "defgh", "ijkl", "m"} {
		k.write([]byte(piece))
	}
	if string(k.kept) != "abcdefghij" || k.n != 13 || k.all() || k.short || c.held.Load() != 10 {
		t.Fatalf("kept %q of %d, all %v, short %v, %d held", k.kept, k.n, k.all(), k.short, c.held.Load())
	}
	k.close()
	k.write([]byte("late"))
	if len(k.kept) != 0 || k.n != 17 || c.held.Load() != 0 {
		t.Fatalf("after its end it keeps %q, and %d bytes are held", k.kept, c.held.Load())
	}
}

// What a tee cannot have, it does not keep in part: the memory is there for the next.
func TestTeesShareTheirMemory(t *testing.T) {
	c := &copies{max: 100}
	var first, second, third tee
	for _, k := range []*tee{&first, &second, &third} {
		k.open(64, c)
	}
	first.write(make([]byte, 64))
	second.write(make([]byte, 20))
	second.write(make([]byte, 40))
	if !second.short || second.kept != nil || c.held.Load() != 64 {
		t.Fatalf("short %v, %d kept, %d held", second.short, len(second.kept), c.held.Load())
	}
	first.close()
	third.write(make([]byte, 64))
	if third.short || !third.all() {
		t.Error("memory that was given back is not to be had")
	}
	third.close()
	if c.held.Load() != 0 {
		t.Errorf("%d bytes are held by nobody", c.held.Load())
	}
}

// It has no more memory than the limit, however the pieces come.
func TestTeeDoesNotOvershoot(t *testing.T) {
	for _, piece := range []int{1, 7, 1000, 40 << 10, 1 << 20} {
		var k tee
		k.open(maxCapture, nil)
		for k.n < 2<<20 {
			k.write(bytes.Repeat([]byte{'x'}, piece))
		}
		if cap(k.kept) > maxCapture || string(k.kept) != strings.Repeat("x", maxCapture) {
			t.Errorf("pieces of %d: %d bytes kept in %d", piece, len(k.kept), cap(k.kept))
		}
	}
}
