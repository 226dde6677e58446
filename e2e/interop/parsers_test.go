package interop

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// seenRequest is a request as an upstream's parser took it. URI is what stands in the request line.
type seenRequest struct {
	Method  string `json:"method"`
	URI     string `json:"uri"`
	Host    string `json:"host"`
	Body    int    `json:"body"`
	Refused bool   `json:"refused"`
}

// parser is an upstream of somebody's that tells what it read.
type parser struct {
	name, port string
	marks      int

	mu   sync.Mutex
	seen []seenRequest
}

func (p *parser) add(r seenRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
}

// take waits until all that was sent before has been seen, and returns what was read whole and how many requests were refused.
func (p *parser) take(t *testing.T) (whole []seenRequest, refused int) {
	t.Helper()
	p.marks++
	mark := "/mark-" + strconv.Itoa(p.marks)
	res, err := http.Get("http://127.0.0.1:" + p.port + mark)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	var seen []seenRequest
	eventually(t, p.name+" has seen "+mark, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, r := range p.seen {
			if r.URI == mark {
				seen, p.seen = p.seen[:i], append([]seenRequest(nil), p.seen[i+1:]...)
				return true
			}
		}
		return false
	})
	for _, r := range seen {
		if r.Refused {
			refused++
		} else {
			whole = append(whole, r)
		}
	}
	return whole, refused
}

// goParser is net/http.
func goParser(t *testing.T, w *world) *parser {
	p := &parser{name: "net/http"}
	p.port = w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil {
			p.add(seenRequest{Method: r.Method, URI: r.RequestURI, Host: r.Host, Body: int(n)})
		}
		_, _ = io.WriteString(rw, "seen")
	}), false)
	return p
}

// nodeParser is node:http, as it comes or lenient.
func nodeParser(t *testing.T, w *world, how string) *parser {
	p := &parser{name: "node " + how}
	lines := launch(t, exec.Command(program(t, "node"), "testdata/seen.mjs", how))
	var first struct{ Port int }
	if err := json.Unmarshal([]byte(<-lines), &first); err != nil {
		t.Fatal(err)
	}
	p.port = strconv.Itoa(first.Port)
	w.ports = append(w.ports, p.port)
	go func() {
		for line := range lines {
			var r seenRequest
			if json.Unmarshal([]byte(line), &r) == nil {
				uri, _ := base64.StdEncoding.DecodeString(r.URI)
				r.URI = string(uri)
				p.add(r)
			}
		}
	}()
	return p
}

// launch starts a program, which ends with the test, and returns the lines that it prints.
func launch(t *testing.T, cmd *exec.Cmd) <-chan string {
	t.Helper()
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return lines
}

// nginxConfig has nginx tell what it read by its log, and the length of the body by what it passes on.
const nginxConfig = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr crit;
events {}
http {
  log_format seen escape=json '{"method":"$request_method","uri":"$request_uri","host":"$http_host","body":"$upstream_http_x_length"}';
  access_log /dev/stdout seen;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen %[2]s;
    location / { proxy_pass http://%[3]s/; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass_request_headers off; proxy_set_header Host sink; proxy_set_header Content-Length $content_length; }
  }
}
`

// nginxParser is nginx, on a socket that it inherits.
func nginxParser(t *testing.T, w *world) *parser {
	p := &parser{name: "nginx"}
	sink := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		rw.Header().Set("X-Length", strconv.FormatInt(n, 10))
	}))
	t.Cleanup(sink.Close)
	nginx := program(t, "nginx")
	ln := w.listen(t)
	p.port = w.ports[len(w.ports)-1]
	file := must[*os.File](t)(ln.(*net.TCPListener).File())
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, ln.Addr(), sink.Listener.Addr()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(nginx, "-p", dir, "-c", config, "-e", "stderr")
	cmd.ExtraFiles, cmd.Env = []*os.File{file}, []string{"NGINX=3;"}
	cmd.Stderr = io.Discard // it says there that it inherits
	lines := launch(t, cmd)
	_, _ = ln.Close(), file.Close()
	go func() {
		for line := range lines {
			var r struct{ Method, URI, Host, Body string }
			if json.Unmarshal([]byte(line), &r) != nil {
				r.Body = ""
			}
			n, err := strconv.Atoi(r.Body)
			p.add(seenRequest{Method: r.Method, URI: r.URI, Host: r.Host, Body: n, Refused: err != nil})
		}
	}()
	return p
}

// way is one in which the streams reach the sidecar: what stands for {U}, and how the connection is made.
type way struct {
	name, host string
	dial       func(s *sidecar, place string) (net.Conn, error)
	base       string
}

var ways = []way{
	{"absolute form", namedHost, func(s *sidecar, _ string) (net.Conn, error) { return net.Dial("tcp", s.tool) }, "http://"},
	{"inside a tunnel", namedHost, func(s *sidecar, place string) (net.Conn, error) { return s.connect(place) }, ""},
}

// requestStreams reads the table that the proxy's own tests play.
func requestStreams(t *testing.T) []string {
	t.Helper()
	expand := strings.NewReplacer("{L}", "GET {U}/ok/last HTTP/1.1\r\nHost: {H}\r\nConnection: close\r\n\r\n", "{S}", "GET {U}/smuggled HTTP/1.1\r\nHost: {H}\r\n\r\n", "{A}", "")
	var out []string
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile("../../proxy/testdata/streams.txt")))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, expand.Replace(must[string](t)(strconv.Unquote(line))))
		}
	}
	return out
}

// play sends a stream and reads until the sidecar ends the connection, or says nothing for some time.
func (v way) play(t *testing.T, s *sidecar, port, stream string, silence time.Duration) {
	t.Helper()
	place := address(v.host, port)
	base := v.base
	if base != "" {
		base += place
	}
	stream = strings.NewReplacer("{U}", base, "{H}", place, "{V}", strings.ToUpper(v.host)+".:"+port).Replace(stream)
	conn := must[net.Conn](t)(v.dial(s, place))
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, stream)
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	_, _ = io.Copy(io.Discard, conn)
}

// TestParsersAgree: what the sidecar sends on of a stream, four parsers read in the same way: the same requests, of the same methods,
// targets, hosts and lengths, and as many as it has recorded. What a parser refuses counts as read: it is taken
// for nothing else.
func TestParsersAgree(t *testing.T) {
	w := newWorld(t)
	parsers := []*parser{goParser(t, w), nodeParser(t, w, "strict"), nodeParser(t, w, "lenient"), nginxParser(t, w)}
	s := w.start(t)
	arrived, counted := 0, &passed{s: s, n: map[string]int{}}
	for _, v := range ways {
		for _, stream := range requestStreams(t) {
			read, complaint := compare(t, counted, v, parsers, stream, 100*time.Millisecond)
			if complaint != "" { // a busy machine may have been silent for so long
				read, complaint = compare(t, counted, v, parsers, stream, 3*time.Second)
			}
			if complaint != "" {
				t.Errorf("%s, %q: %s", v.name, stream, complaint)
			}
			arrived += read
		}
	}
	if arrived < 100 {
		t.Errorf("only %d requests arrived", arrived)
	}
}

// compare plays a stream to all parsers. It returns how many requests they read, and what they do not agree on.
func compare(t *testing.T, c *passed, v way, parsers []*parser, stream string, silence time.Duration) (read int, complaint string) {
	t.Helper()
	before := map[string]int{}
	for _, p := range parsers {
		before[p.port] = c.to(p.port)
	}
	var wg sync.WaitGroup
	for _, p := range parsers {
		wg.Go(func() { v.play(t, c.s, p.port, stream, silence) })
	}
	wg.Wait()
	var first []seenRequest
	for i, p := range parsers {
		whole, refused := p.take(t)
		got := relative(whole, p.port)
		if i == 0 {
			first = got
		} else if !agree(first, got, refused) {
			complaint += fmt.Sprintf("\n%s read %+v, and %s %+v and refused %d", parsers[0].name, first, p.name, got, refused)
		}
		eventually(t, fmt.Sprintf("the sidecar has recorded %d calls to %s of %q", len(got), p.name, stream), func() bool {
			return c.to(p.port)-before[p.port] >= len(got)
		})
	}
	return len(first), complaint
}

// passed counts the requests that were let pass, by the upstream's port, as their records come.
type passed struct {
	s    *sidecar
	n    map[string]int
	read int // bytes of the records
}

func (c *passed) to(port string) int {
	c.s.stdout.mu.Lock()
	more := string(c.s.stdout.b.Bytes()[c.read:])
	c.s.stdout.mu.Unlock()
	for line := range strings.Lines(more) {
		var r record
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &r) != nil {
			break
		}
		if c.read += len(line); r.Kind == "request" && r.Decision == "allow" {
			c.n[strconv.Itoa(r.Port)]++
		}
	}
	return c.n[port]
}

// relative leaves out the port, which is another for each parser.
func relative(seen []seenRequest, port string) []seenRequest {
	out := append([]seenRequest(nil), seen...)
	for i := range out {
		out[i].Host = strings.TrimSuffix(out[i].Host, ":"+port)
		out[i].URI = strings.ReplaceAll(out[i].URI, port, "PORT")
	}
	return out
}

// agree reports whether got is want but for as many as were refused.
func agree(want, got []seenRequest, refused int) bool {
	missing := 0
	for _, r := range want {
		if len(got) > 0 && got[0] == r {
			got = got[1:]
		} else {
			missing++
		}
	}
	return len(got) == 0 && missing <= refused
}
