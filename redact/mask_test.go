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

// TestMaskAtEverySplit splits an echo of the secret in two and in three at every offset.
func TestMaskAtEverySplit(t *testing.T) {
	in := "x abcabc" + echoed + echoed + "y abcabcab" + echoed[:15] + " z" + echoed
	want := strings.ReplaceAll(in, echoed, string(maskOf(len(echoed))))
	for i := range len(in) + 1 {
		for j := i; j <= len(in); j++ {
			got, err := io.ReadAll(Mask(&pieces{in[:i], in[i:j], in[j:]}, New(echoed)))
			if err != nil || string(got) != want {
				t.Fatalf("split at %d and %d: %q %v, expected %q", i, j, got, err, want)
			}
		}
	}
	got, err := io.ReadAll(iotest.OneByteReader(Mask(iotest.OneByteReader(strings.NewReader(in)), New(echoed))))
	if err != nil || string(got) != want {
		t.Errorf("byte by byte: %q %v", got, err)
	}
}

// TestMaskHoldsNothingBack: what cannot begin the secret goes out at once, or an event stream would wait for its next event.
func TestMaskHoldsNothingBack(t *testing.T) {
	in := &pieces{"data: one\n\n", "data: two\n\n"}
	r := Mask(in, New(echoed))
	b := make([]byte, 100)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "data: one\n\n" {
		t.Errorf("%q %v", b[:n], err)
	}
	if len(*in) != 1 {
		t.Error("it read ahead")
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
		want := bytes.ReplaceAll(in, []byte(echoed), maskOf(len(echoed)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q %v, expected %q", got, err, want)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
