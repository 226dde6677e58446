package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestBasicFile(t *testing.T) {
	path := writeFile(t, "sidecar:p:ss word\n")
	f, err := OpenBasicFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		got, err := f.AppendHeader([]byte("Name: "))
		if err != nil || string(got) != "Name: "+want {
			t.Errorf("got %q, %v, expected %q", got, err, want)
		}
	}
	check("Basic c2lkZWNhcjpwOnNzIHdvcmQ=")
	if err := os.WriteFile(path, []byte("a:b"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("Basic YTpi")
	if text := fmt.Sprintf("%v %+v %#v", f, f.file.last.Load(), *f.file.last.Load()); strings.Contains(text, "YTpi") {
		t.Errorf("it prints itself: %s", text)
	}
	for name, content := range map[string]string{"empty": "", "no colon": "hunter2", "no user": ":hunter2", "two lines": "a:hunter2\nX: y", "not ASCII": "a:hunter2ä"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.AppendHeader(nil); err == nil || got != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := OpenBasicFile(path); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AppendHeader(nil); err == nil {
		t.Error("the credentials outlive their file")
	}
}
