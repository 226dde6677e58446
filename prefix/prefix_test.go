package prefix

import (
	"bytes"
	"strings"
	"testing"
)

func TestKeepsTheBeginning(t *testing.T) {
	c := &Budget{Max: 100}
	var k Buffer
	k.Open(10, c)
	for _, piece := range []string{"abc", "", "defgh", "ijkl", "m"} {
		k.Add([]byte(piece))
	}
	if string(k.kept) != "abcdefghij" || k.n != 13 || k.All() || k.short || c.Held() != 10 {
		t.Fatalf("kept %q of %d, all %v, short %v, %d held", k.kept, k.n, k.All(), k.short, c.Held())
	}
	k.Drop()
	k.Add([]byte("late"))
	if len(k.kept) != 0 || k.n != 17 || c.Held() != 0 {
		t.Fatalf("after its end it keeps %q, and %d bytes are held", k.kept, c.Held())
	}
}

// What a Buffer cannot have, it does not keep in part: the memory is there for the next.
func TestSharedMemory(t *testing.T) {
	c := &Budget{Max: 100}
	var first, second, third Buffer
	for _, k := range []*Buffer{&first, &second, &third} {
		k.Open(64, c)
	}
	first.Add(make([]byte, 64))
	second.Add(make([]byte, 20))
	second.Add(make([]byte, 40))
	if !second.short || second.kept != nil || c.Held() != 64 {
		t.Fatalf("short %v, %d kept, %d held", second.short, len(second.kept), c.Held())
	}
	first.Drop()
	third.Add(make([]byte, 64))
	if third.short || !third.All() {
		t.Error("memory that was given back is not to be had")
	}
	third.Drop()
	if c.Held() != 0 {
		t.Errorf("%d bytes are held by nobody", c.Held())
	}
}

// It has no more memory than the limit, however the pieces come.
func TestNoOvershoot(t *testing.T) {
	const limit = 64 << 10
	for _, piece := range []int{1, 7, 1000, 40 << 10, 1 << 20} {
		var k Buffer
		k.Open(limit, nil)
		for k.n < 2<<20 {
			k.Add(bytes.Repeat([]byte{'x'}, piece))
		}
		if cap(k.kept) > limit || string(k.kept) != strings.Repeat("x", limit) {
			t.Errorf("pieces of %d: %d bytes kept in %d", piece, len(k.kept), cap(k.kept))
		}
	}
}

// What is taken is held until the one who took it drops it, and the Buffer only counts.
func TestTake(t *testing.T) {
	b := &Budget{Max: 100}
	var k Buffer
	k.Open(10, b)
	k.Add([]byte("abc"))
	taken := k.Take()
	k.Add([]byte("defg"))
	k.Drop()
	if string(taken.Kept()) != "abc" || !taken.All() || k.Opened() || len(k.Kept()) != 0 || k.N() != 7 || b.Held() != 3 {
		t.Errorf("%q taken, %q kept of %d, %d held", taken.Kept(), k.Kept(), k.N(), b.Held())
	}
	taken.Drop()
	if b.Held() != 0 {
		t.Errorf("%d bytes are held by nobody", b.Held())
	}
}
