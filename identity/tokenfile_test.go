package identity

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func write(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func wantToken(t *testing.T, f *TokenFile, want string) {
	t.Helper()
	if got, err := f.Token(); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestTokenFile(t *testing.T) {
	f := &TokenFile{Path: filepath.Join(t.TempDir(), "token")}
	if _, err := f.Token(); err == nil {
		t.Error("no file, no error")
	}
	write(t, f.Path, "\n one \n", time.Hour)
	wantToken(t, f, "one")
	wantToken(t, f, "one")
	write(t, f.Path, "\n two \n", time.Minute) // same size, another time
	wantToken(t, f, "two")
	write(t, f.Path, "three", time.Minute)
	wantToken(t, f, "three")
	for name, content := range map[string]string{"empty": "", "blank": " \n", "large": strings.Repeat("a", maxTokenFile+1)} {
		write(t, f.Path, content, time.Minute)
		if _, err := f.Token(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	write(t, f.Path, strings.Repeat("a", maxTokenFile), time.Minute)
	wantToken(t, f, strings.Repeat("a", maxTokenFile))
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Token(); err == nil {
		t.Error("the token outlives its file")
	}
	if _, err := (&TokenFile{Path: t.TempDir()}).Token(); err == nil {
		t.Error("a directory is read")
	}
}

// Two writes within the resolution of the file's time, of the same size and to the same file.
func TestTokenFileRace(t *testing.T) {
	f := &TokenFile{Path: filepath.Join(t.TempDir(), "token")}
	at := time.Now()
	for _, token := range []string{"one", "two"} {
		write(t, f.Path, token, 0)
		if err := os.Chtimes(f.Path, at, at); err != nil {
			t.Fatal(err)
		}
		wantToken(t, f, token)
	}
}

// A projected volume: token -> ..data/token, ..data -> a directory that is swapped by a rename.
func TestTokenFileInProjectedVolume(t *testing.T) {
	dir := t.TempDir()
	f := &TokenFile{Path: filepath.Join(dir, "token")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-time.Hour)
	publish := func(version, content string) {
		must(os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "token"), content, time.Hour)
		must(os.Chtimes(filepath.Join(dir, version, "token"), at, at)) // only the file's identity differs
		must(os.Symlink(version, filepath.Join(dir, "..tmp")))
		must(os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	publish("..1", "one")
	must(os.Symlink(filepath.Join("..data", "token"), f.Path))
	wantToken(t, f, "one")
	publish("..2", "two")
	wantToken(t, f, "two")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { wantToken(t, f, "two") })
	}
	all.Wait()
}
