package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// pieces gives its strings one read at a time.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; (*p)[0] == "" {
		*p = (*p)[1:]
	}
	return n, nil
}

const echoed = "abcabcabd-secret"

// masked reports whether got is in with every occurrence of the secret masked but for its first 7 bytes, which may go out
// before it is known what they begin.
func masked(in, got string) bool {
	if len(got) != len(in) {
		return false
	}
	mask := string(maskOf(len(echoed)))
	for at := 0; at < len(in); {
		if !strings.HasPrefix(in[at:], echoed) {
			if got[at] != in[at] {
				return false
			}
			at++
			continue
		}
		for i := range len(echoed) {
			if got[at+i] != mask[i] && (i >= minMasked-1 || got[at+i] != in[at+i]) {
				return false
			}
		}
		at += len(echoed)
	}
	return true
}

// TestMaskAtEverySplit splits an echo of the secret in two and in three at every offset.
func TestMaskAtEverySplit(t *testing.T) {
	in := "x abcabc" + echoed + echoed + "y abcabcab" + echoed[:15] + " z" + echoed
	for i := range len(in) + 1 {
		for j := i; j <= len(in); j++ {
			got, err := io.ReadAll(Mask(&pieces{in[:i], in[i:j], in[j:]}, New(echoed)))
			if err != nil || !masked(in, string(got)) {
				t.Fatalf("split at %d and %d: %q %v", i, j, got, err)
			}
		}
	}
	got, err := io.ReadAll(iotest.OneByteReader(Mask(iotest.OneByteReader(strings.NewReader(in)), New(echoed))))
	if err != nil || !masked(in, string(got)) {
		t.Errorf("byte by byte: %q %v", got, err)
	}
	got, err = io.ReadAll(Mask(strings.NewReader(in), New(echoed)))
	if want := strings.ReplaceAll(in, echoed, string(maskOf(len(echoed)))); err != nil || string(got) != want {
		t.Errorf("in one piece: %q %v", got, err)
	}
}

// TestMaskHoldsNothingBack: a message goes out at once, though it ends as the secret begins, or whoever waits for it would wait for
// the next one.
func TestMaskHoldsNothingBack(t *testing.T) {
	for _, message := range []string{"data: one\n\n", "a", "the end is a", "abcabca"} {
		in := &pieces{message, "more"}
		r := Mask(in, New(echoed))
		b := make([]byte, 100)
		if n, err := r.Read(b); err != nil || string(b[:n]) != message {
			t.Errorf("%q: %q %v", message, b[:n], err)
		}
		if len(*in) != 1 {
			t.Errorf("%q: it read ahead", message)
		}
	}
}

func TestMaskKeepsErrors(t *testing.T) {
	broken := errors.New("broken")
	got, err := io.ReadAll(Mask(io.MultiReader(strings.NewReader("abcabc"), iotest.ErrReader(broken)), New(echoed)))
	if !errors.Is(err, broken) || string(got) != "abcabc" {
		t.Errorf("%q %v", got, err)
	}
}

func TestMaskLeavesShortSecrets(t *testing.T) {
	if got, _ := io.ReadAll(Mask(strings.NewReader("a b c"), New("a"))); string(got) != "a b c" {
		t.Errorf("%q", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add([]byte("abcabcabcabd-secretabc"), uint8(3))
	f.Add([]byte(echoed+echoed), uint8(5))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		chunks := bytes.NewReader(in)
		got, err := io.ReadAll(Mask(readerFunc(func(p []byte) (int, error) {
			return chunks.Read(p[:min(len(p), int(size)+1)])
		}), New(echoed)))
		if err != nil || !masked(string(in), string(got)) {
			t.Fatalf("%q %v", got, err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
