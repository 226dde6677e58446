package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func staticBinding(s Static) Binding {
	return Binding{Name: "partner", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"}, Static: &s}
}

func TestStatic(t *testing.T) {
	for name, c := range map[string]struct {
		conf   Static
		header string
		want   string
	}{
		"plain":      {Static{}, "Authorization", "key-SECRET"},
		"bearer":     {Static{Prefix: "Bearer "}, "Authorization", "Bearer key-SECRET"},
		"own header": {Static{Header: "x-api-key"}, "X-Api-Key", "key-SECRET"},
	} {
		c.conf.File = writeFile(t, "key-SECRET\n")
		b, bd := mustNew(t, staticBinding(c.conf), Options{})
		for range 2 {
			cred := mustGet(t, b, bd, alice())
			if got := sent(cred).Get(c.header); got != c.want {
				t.Errorf("%s: sent %q", name, got)
			}
			if ref := cred.Ref(); ref.Binding != "partner" || ref.Kind != "static" || ref.Cached || !ref.Expires.IsZero() {
				t.Errorf("%s: ref %+v", name, ref)
			}
		}
	}
}

// A static secret goes to identified callers only, as any other credential.
func TestStaticNeedsAnIdentity(t *testing.T) {
	b, bd := mustNew(t, staticBinding(Static{File: writeFile(t, "k")}), Options{})
	s := alice()
	s.Subject = ""
	_, err := b.Credential(t.Context(), bd, s)
	wantReason(t, err, NoIdentity)
}

// swapVolume does what the kubelet does: the file is a link through "..data", which is renamed over.
func swapVolume(t *testing.T, dir, generation, content string) {
	t.Helper()
	steps := []error{
		os.Mkdir(filepath.Join(dir, generation), 0o700),
		os.WriteFile(filepath.Join(dir, generation, "key"), []byte(content), 0o600),
		os.Symlink(generation, filepath.Join(dir, "..new")),
		os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")),
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestProjectedVolume(t *testing.T) {
	dir := t.TempDir()
	swapVolume(t, dir, "g1", "one")
	path := filepath.Join(dir, "key")
	if err := os.Symlink(filepath.Join("..data", "key"), path); err != nil {
		t.Fatal(err)
	}
	b, bd := mustNew(t, staticBinding(Static{File: path}), Options{})
	for i, want := range []string{"one", "two", "six"} {
		if i > 0 {
			swapVolume(t, dir, fmt.Sprint("g", i+1), want)
			// Equal size and time: only the file itself is another.
			ageFile(t, path)
		}
		if got := mustGet(t, b, bd, alice()).value.Reveal(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Two writes within one tick of the file system's clock leave size, time and file as they were.
func TestRewrittenInPlace(t *testing.T) {
	path, tick := writeFile(t, "one"), time.Now()
	b, bd := mustNew(t, staticBinding(Static{File: path}), Options{})
	for _, want := range []string{"two", "six", "ten"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, tick, tick); err != nil {
			t.Fatal(err)
		}
		if got := mustGet(t, b, bd, alice()).value.Reveal(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An old file is read once; a change of time alone is a change.
func TestReadOnlyWhenChanged(t *testing.T) {
	path := writeFile(t, "v")
	ageFile(t, path)
	n := 0
	w := &watched[line]{path: path, parse: func(b []byte) (line, error) { n++; return parseLine(b) }}
	for range 3 {
		if _, err := w.get(); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("read %d times", n)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9+1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.get(); err != nil || n != 2 {
		t.Errorf("read %d times, %v", n, err)
	}
}

func TestParseLine(t *testing.T) {
	for in, want := range map[string]string{"v": "v", "v\n": "v", "v\r\n": "v", "two words\n": "two words"} {
		if l, err := parseLine([]byte(in)); err != nil || l.value.Reveal() != want {
			t.Errorf("%q: %q, %v", in, l.value.Reveal(), err)
		}
	}
	for _, in := range []string{
		"", "\n", "\r\n", "a\nb", "a\n\n", "a\rb", "\nv", " v", "v ", "v \n", " ", "v\r\nX-Admin: 1", "a\x00", "a\x00\n", "a\tb", "a\x7f", "\xff", "ä",
	} {
		if l, err := parseLine([]byte(in)); err == nil {
			t.Errorf("%q gave %q", in, l.value.Reveal())
		}
	}
}

func TestBadFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no named pipes here")
	}
	for name, c := range map[string]struct{ path, want string }{
		"missing":   {filepath.Join(t.TempDir(), "none"), "no such file"},
		"directory": {t.TempDir(), "regular"},
		"pipe":      {pipe, "regular"},
		"too large": {writeFile(t, strings.Repeat("a", maxFile+1)), "64 KiB"},
		"empty":     {writeFile(t, ""), "empty"},
		"two lines": {writeFile(t, "a\nb"), "one line"},
	} {
		if _, err := watchLine(c.path).get(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := watchLine(writeFile(t, strings.Repeat("a", maxFile))).get(); err != nil {
		t.Errorf("the largest file: %v", err)
	}
}
