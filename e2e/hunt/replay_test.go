package hunt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replays has each file of captures served, and asks for all that is in it.
func (w *world) replays(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "out", "captures", "*.har"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of captures: %v, %v", files, err)
	}
	for _, file := range files {
		w.sidecar(t, commands, 0, "replay", "--check", file)
		w.replay(t, file)
	}
}

func (w *world) replay(t *testing.T, file string) {
	t.Helper()
	bin, err := sidecarBinary()
	if err != nil {
		t.Fatal(err)
	}
	var said, served tape
	cmd := exec.Command(bin, "replay", file, "--ca-out", filepath.Join(t.TempDir(), "replay-ca.pem"))
	cmd.Env, cmd.Stdout, cmd.Stderr = w.environment(), &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var at string
	eventually(t, "the replay serves", func() bool {
		address, _, whole := strings.Cut(string(said.bytes()), "\n")
		at = strings.TrimPrefix(address, "http://")
		return whole
	})
	w.askAll(t, file, at, &served)
	w.askOdd(t, at, &served)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("sidecar replay: %v", err)
	}
	w.out(captures, "what a replay serves", served.bytes())
	w.out(commands, "replay", said.bytes())
}

// askAll makes the requests of a file again.
func (w *world) askAll(t *testing.T, file, at string, served *tape) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var archive struct {
		Log struct {
			Entries []struct {
				Request struct {
					Method, URL string
					PostData    struct{ Text string }
				}
			}
		}
	}
	if err := json.Unmarshal(b, &archive); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	found := 0
	for _, e := range archive.Log.Entries {
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(e.Request.Method, "http://"+at+u.RequestURI(), strings.NewReader(e.Request.PostData.Text))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Header.Get("Toolgate-Replay") != "" {
			found++
		}
		_ = res.Write(served)
		_ = res.Body.Close()
	}
	if found < len(archive.Log.Entries) || found == 0 {
		t.Errorf("%s: %d of %d entries are served", filepath.Base(file), found, len(archive.Log.Entries))
	}
}

// askOdd makes requests that no entry fits, and some that are none.
func (w *world) askOdd(t *testing.T, at string, served *tape) {
	t.Helper()
	secret := func(where string) string { return w.plant("secret in a request to a replay", where) }
	for _, request := range []string{
		fmt.Sprintf("POST /%s?q=%s HTTP/1.1\r\nHost: seen.hunt.test\r\nAuthorization: Bearer %s\r\nCookie: a=%s\r\nProxy-Authorization: Basic %[3]s\r\nConnection: close\r\nContent-Length: 26\r\n\r\n%s",
			w.plant("URL asked of a replay", "path"), w.plant("URL asked of a replay", "query"), secret("credential"), secret("cookie"), secret("body")),
		"GET http://u:" + secret("user info") + "@seen.hunt.test/x HTTP/1.1\r\nHost: seen.hunt.test\r\nConnection: close\r\n\r\n",
		"CONNECT " + secret("no port") + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT seen.hunt.test:443 HTTP/1.1\r\nHost: seen.hunt.test:443\r\n\r\n\x16\x03\x01\x00\x40" + secret("hello") + secret("hello"),
		"GET / HTTP/" + secret("version") + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nNo colon " + secret("header") + "\r\n\r\n",
		"\x16\x03\x01\x00\x40" + secret("hello") + secret("hello"),
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = conn.Write([]byte(request))
		_ = conn.(*net.TCPConn).CloseWrite()
		var b bytes.Buffer
		_, _ = b.ReadFrom(conn)
		_ = conn.Close()
		_, _ = served.Write(b.Bytes())
	}
}
