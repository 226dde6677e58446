package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sidecar is a running `sidecar run`.
type sidecar struct {
	tool, tokenFile, admin string // "host:port" of the listeners
	caFile                 string // the CA that it intercepts with
	stdout, stderr         lockedBuffer
	cmd                    *exec.Cmd
	exited                 chan struct{}
	killed                 bool
}

// start runs a sidecar with a revocations file and waits until it is ready. It ends with the test, if not by stop before.
func (w *world) start(t *testing.T) *sidecar {
	t.Helper()
	s := w.launch(t, "sidecar", w.fromFile())
	eventually(t, "the sidecar is ready", s.ready)
	return s
}

// launch runs a sidecar under a name, which is its pod's as well, and waits until it listens.
func (w *world) launch(t *testing.T, name, killSwitch string) *sidecar {
	t.Helper()
	w.render(t, "sidecar.yaml", name+".yaml", map[string]string{"Name": name, "KillSwitch": killSwitch})
	return w.run(t, name, "tool", "tokenfile", "admin")
}

// run runs the binary on a config of the world's folder and waits until these listen.
func (w *world) run(t *testing.T, name string, listeners ...string) *sidecar {
	t.Helper()
	bin, err := sidecarBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecar{caFile: filepath.Join(w.dir, name+"-ca.pem"), exited: make(chan struct{})}
	s.cmd = exec.Command(bin, "run", "--config", filepath.Join(w.dir, name+".yaml"))
	s.cmd.Env = append(os.Environ(), "POD_NAME="+name, "POD_NAMESPACE=shop")
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
	eventually(t, "the sidecar listens", func() bool {
		select {
		case <-s.exited:
			t.Fatal("the sidecar has exited")
		default:
		}
		at := s.listening()
		s.tool, s.tokenFile, s.admin = at["tool"], at["tokenfile"], at["admin"]
		return !slices.ContainsFunc(listeners, func(l string) bool { return at[l] == "" })
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
	if s.killed {
		return
	}
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

// kill ends the sidecar without a word.
func (s *sidecar) kill() {
	s.killed = true
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// record is one line of the audit log.
type record struct {
	Kind              string   `json:"kind"`
	Tool              string   `json:"tool"`
	Subject           string   `json:"subject"`
	Decision          string   `json:"decision"`
	Code              string   `json:"code"`
	Scheme            string   `json:"scheme"`
	Host              string   `json:"host"`
	RevocationID      string   `json:"revocation_id"`
	CredentialBinding string   `json:"credential_binding"`
	CredentialScopes  []string `json:"credential_scopes"`
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
