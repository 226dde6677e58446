package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"html"
	"io"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/toolgate/toolgate/redact/corpustest"
	"github.com/toolgate/toolgate/redact/known"
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

// TestMaskKnownAtEverySplit: each form of a secret is masked at the same length, wherever the reads cut it.
func TestMaskKnownAtEverySplit(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	for name, form := range map[string]string{
		"raw": liveToken, "percent": url.QueryEscape(liveToken), "json": strings.Trim(jsonQuote(liveToken), `"`), "html": html.EscapeString(liveToken),
		"hex": hex.EncodeToString([]byte(liveToken)), "base64": base64.StdEncoding.EncodeToString([]byte("x:" + liveToken + "!")),
	} {
		in := "you sent " + form + " and " + form + "."
		for i := range len(in) + 1 {
			got, err := io.ReadAll(MaskKnown(&pieces{in[:i], in[i:]}, set))
			if err != nil || len(got) != len(in) || !strings.HasPrefix(string(got), "you sent ") || strings.Count(string(got), "REDACTED")+strings.Count(string(got), "EDACTED")+strings.Count(string(got), "DACTED")+strings.Count(string(got), "ACTED") < 2 {
				t.Fatalf("%s at %d: %v\n%s\n%s", name, i, err, in, got)
			}
			plain := string(got) + html.UnescapeString(string(got)) + lenientPercent(string(got)) + unbase64(string(got)) + unescapeJSON(string(got))
			if corpustest.Common(liveToken, plain) >= 8 {
				t.Fatalf("%s at %d: %s", name, i, got)
			}
		}
		got, err := io.ReadAll(MaskKnown(&pieced{text: []byte(in)}, set))
		if err != nil || len(got) != len(in) || corpustest.Common(liveToken, string(got)+lenientPercent(string(got))+unbase64(string(got))) >= 8 {
			t.Errorf("%s byte by byte: %v %s", name, err, got)
		}
	}
}

// A message goes out at once, though it ends as the secret begins.
func TestMaskKnownHoldsNothingBack(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	for _, message := range []string{"data: one\n\n", "t", "the end is tgt"} {
		in := &pieces{message, "more"}
		b := make([]byte, 100)
		if n, err := MaskKnown(in, set).Read(b); err != nil || string(b[:n]) != message || len(*in) != 1 {
			t.Errorf("%q: %q %v", message, b[:n], err)
		}
	}
}

// What is held back is not looked at again for each byte that comes: an upstream knows how the secret begins.
func TestMaskKnownLooksSeldom(t *testing.T) {
	var secret string
	for i := range 200 {
		secret += strconv.Itoa(100 + i)
	}
	set := known.New()
	set.Add(New(secret))
	m, begun := NewKnownMask(set), secret[:255]
	if got := m.Feed([]byte(begun), false); len(got) > 0 {
		t.Fatalf("went out: %q", got)
	}
	for range len(begun) / seldom {
		if got := m.Feed([]byte("!"), false); len(got) > 0 {
			t.Fatalf("looked at for one byte: %q", got)
		}
		begun += "!"
	}
	if got := m.Feed([]byte("!"), false); string(got) != begun+"!" {
		t.Errorf("%q", got)
	}
	m.Feed([]byte(secret[:300]), false)
	if got := m.Feed(nil, true); string(got) != secret[:300] {
		t.Errorf("held back at the end: %q", got)
	}
}

// An error of the reader below arrives, and what was held back before it.
func TestMaskKnownKeepsErrors(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	broken, begun := errors.New("broken"), liveToken[:9]
	got, err := io.ReadAll(MaskKnown(io.MultiReader(strings.NewReader(begun), iotest.ErrReader(broken)), set))
	if !errors.Is(err, broken) || string(got) != begun {
		t.Errorf("%q %v", got, err)
	}
}

// FuzzMaskKnown: no text and no length of reads lets the secret through or changes the length.
func FuzzMaskKnown(f *testing.F) {
	set := known.New()
	set.Add(New(liveToken))
	f.Add([]byte(liveToken[:9]+liveToken+liveToken), []byte("x"), uint8(3))
	f.Fuzz(func(t *testing.T, before, after []byte, size uint8) {
		in := append(append(before[:len(before):len(before)], liveToken...), after...)
		chunks := bytes.NewReader(in)
		got, err := io.ReadAll(MaskKnown(readerFunc(func(p []byte) (int, error) {
			return chunks.Read(p[:min(len(p), int(size)+1)])
		}), set))
		if err != nil || len(got) != len(in) || bytes.Contains(got, []byte(liveToken)) {
			t.Fatalf("%q %v", got, err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestMaskKnownLeavesNothingBehind: what came and is held back, or was masked, is not left in the reader's buffer.
func TestMaskKnownLeavesNothingBehind(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	for i := range len(liveToken) + 1 {
		r := MaskKnown(&pieces{"a " + liveToken[:i], liveToken[i:] + " z"}, set)
		for buf := make([]byte, 256); ; {
			n, err := r.Read(buf)
			if corpustest.Common(liveToken, string(buf)) >= 8 {
				t.Fatalf("split at %d: %q beside the %d bytes that were read", i, buf, n)
			}
			if err != nil {
				break
			}
		}
	}
}

// TestMaskKnownMemory: a short answer costs what it is long, not what its reader could take.
func TestMaskKnownMemory(t *testing.T) {
	set := known.New()
	set.Add(New(liveToken))
	body, buf := strings.Repeat(`{"id":"x1","name":"some value"},`, 64), make([]byte, 32<<10)
	const times = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		r := MaskKnown(strings.NewReader(body), set)
		for err := error(nil); err == nil; {
			_, err = r.Read(buf)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 4*uint64(len(body)) {
		t.Errorf("%d bytes are allocated for a body of %d", each, len(body))
	}
}
