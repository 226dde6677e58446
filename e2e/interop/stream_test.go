package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// stream is a form in which language models send their answers piece by piece.
type stream struct {
	contentType string
	event       func(n int) string
}

var streams = map[string]stream{
	"events": {"text/event-stream; charset=utf-8", func(n int) string { return fmt.Sprintf("event: delta\nid: %d\ndata: {\"delta\": \"é%d\"}\n\n", n, n) }},
	"lines":  {"application/x-ndjson", func(n int) string { return fmt.Sprintf("{\"delta\": \"é%d\", \"done\": false}\n", n) }},
	"pieces": {"application/json", func(n int) string { return fmt.Sprintf("{\"candidates\": [%d]}\n,\n", n) }},
}

const streamLength = 20

// TestStreamsArriveAsTheyAreSent: the upstream sends a piece only when the client has printed the one before, so that a proxy that
// holds back a byte stops everything.
func TestStreamsArriveAsTheyAreSent(t *testing.T) {
	w := newWorld(t)
	printed := make(chan struct{})
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		form := streams[r.URL.Path[1:]]
		rw.Header().Set("Content-Type", form.contentType)
		for n := range streamLength {
			_, _ = io.WriteString(rw, form.event(n))
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-printed:
			case <-r.Context().Done():
				return
			}
		}
	})
	ports := map[string]string{"https": w.serve(t, handler, true), "http": w.serve(t, handler, false)}
	s := w.start(t)
	python, curl := program(t, "python3"), program(t, "curl")
	clients := map[string][]string{
		"python": {python, "testdata/lines.py"}, "curl h1": {curl, "-sSN", "--http1.1"}, "curl h2": {curl, "-sSN", "--http2"},
	}
	for name, form := range streams {
		for client, command := range clients {
			for _, to := range [][2]string{{"https", boundHost}, {"https", namedHost}, {"http", plainHost}} {
				t.Run(name+", "+client+", "+to[0]+" "+to[1], func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // so that a piece that is held back ends the client
					defer cancel()
					cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:]), urlOf(to[0], to[1], ports[to[0]], "/"+name))...)
					proxy := s.proxyURL().String()
					cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "https_proxy=" + proxy, "http_proxy=" + proxy,
						"SSL_CERT_FILE=" + w.trusted(to[1]), "CURL_CA_BUNDLE=" + w.trusted(to[1])}
					follow(t, cmd, form, printed)
				})
			}
		}
	}
}

// follow reads what the client prints and says so piece by piece.
func follow(t *testing.T, cmd *exec.Cmd, form stream, printed chan<- struct{}) {
	t.Helper()
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for n := range streamLength {
		want := form.event(n)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
			t.Fatalf("piece %d: %q %v, want %q", n, got, err, want)
		}
		printed <- struct{}{}
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
