package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sidecar is a running `sidecar run`.
type sidecar struct {
	tool, admin    string // "host:port" of the listeners
	stdout, stderr lockedBuffer
	cmd            *exec.Cmd
	exited         chan struct{}
}

// start runs the sidecar on the world's config and waits until it is ready. It ends with the test.
func (w *world) start(t *testing.T) *sidecar {
	t.Helper()
	w.render(t)
	s := &sidecar{exited: make(chan struct{})}
	s.cmd = exec.Command(must[string](t)(sidecarBinary()), "run", "--config", w.path("sidecar.yaml"))
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
	t.Cleanup(func() {
		s.stop(t)
		if t.Failed() {
			t.Logf("the sidecar's log:\n%s\nits records:\n%s", s.stderr.String(), s.stdout.String())
		}
	})
	eventually(t, "the sidecar is ready", func() bool {
		select {
		case <-s.exited:
			t.Fatal("the sidecar has exited")
		default:
		}
		at := s.listening()
		s.tool, s.admin = at["tool"], at["admin"]
		return s.tool != "" && s.ready()
	})
	return s
}

// listening reads the listeners' addresses from the log.
func (s *sidecar) listening() map[string]string {
	at := map[string]string{}
	for line := range strings.Lines(s.stderr.String()) {
		var entry struct{ Msg, Listener, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			at[entry.Listener] = entry.Address
		}
	}
	return at
}

func (s *sidecar) ready() bool {
	if s.admin == "" {
		return false
	}
	res, err := http.Get("http://" + s.admin + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// stop ends the sidecar in the way that Kubernetes does.
func (s *sidecar) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended already
	select {
	case <-s.exited:
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the sidecar ended with exit code %d", code)
		}
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exited
		t.Error("the sidecar did not end within 20 s of SIGTERM")
	}
}

func (s *sidecar) proxyURL() *url.URL { return &url.URL{Scheme: "http", Host: s.tool} }

// connect opens a tunnel to "host:port".
func (s *sidecar) connect(to string) (net.Conn, error) {
	conn, err := net.Dial("tcp", s.tool)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		_ = conn.Close()
		return nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("CONNECT %s: %s", to, res.Status)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return bufferedConn{conn, r}, nil
}

// bufferedConn gives back what was read together with the answer to the CONNECT.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// record is one line of the audit log.
type record struct {
	Kind              string `json:"kind"`
	Decision          string `json:"decision"`
	Code              string `json:"code"`
	ErrorClass        string `json:"error_class"`
	Scheme            string `json:"scheme"`
	Host              string `json:"host"`
	Port              int    `json:"port"`
	Method            string `json:"method"`
	Path              string `json:"path"`
	Status            int    `json:"status"`
	Intercepted       bool   `json:"intercepted"`
	CredentialBinding string `json:"credential_binding"`
	BytesIn           int64  `json:"bytes_in"`
	BytesOut          int64  `json:"bytes_out"`
}

// records returns those for host so far.
func (s *sidecar) records(t *testing.T, host string) []record {
	t.Helper()
	var out []record
	for line := range strings.Lines(s.stdout.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("stdout has a line that is no record: %q", line)
		}
		if r.Host == host && (r.Kind == "request" || r.Kind == "tunnel") {
			out = append(out, r)
		}
	}
	return out
}

// awaitRecords returns the records of host once there are n of them.
func (s *sidecar) awaitRecords(t *testing.T, host string, n int) []record {
	t.Helper()
	var got []record
	eventually(t, fmt.Sprintf("%d records of %s", n, host), func() bool {
		got = s.records(t, host)
		return len(got) >= n
	})
	return got
}

// lockedBuffer collects what a process prints while others read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
