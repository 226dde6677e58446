package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plane is a running `killswitch serve`. Its addresses stay the same when it is started again.
type plane struct {
	dir       string
	flags     []string
	api, nats string // URLs
	publicKey string
	snippet   string // what it tells sidecars to have in their config
	caFile    string // for the command, where the API has TLS
	tokenFile string // of an admin; empty: the one that serve makes
	out, log  lockedBuffer
	cmd       *exec.Cmd
}

// newPlane starts a control plane that takes the fleet as known from the first moment.
func newPlane(t *testing.T, flags ...string) *plane {
	t.Helper()
	p := &plane{dir: filepath.Join(t.TempDir(), "control"), flags: append([]string{"--warm-up", "1ns"}, flags...)}
	p.begin(t)
	return p
}

// newPlaneWithTokens has tokens that outlive the process.
func newPlaneWithTokens(t *testing.T, flags ...string) *plane {
	t.Helper()
	p := &plane{dir: filepath.Join(t.TempDir(), "control")}
	if _, err := killswitchBinary(); err != nil {
		t.Fatal(err)
	}
	var made struct{ Token, Line string }
	if err := json.Unmarshal([]byte(p.run(t, "token", "--name", "root", "--roles", "admin", "-o", "json").out), &made); err != nil {
		t.Fatal(err)
	}
	p.tokenFile = write(t, t.TempDir(), "root", made.Token)
	p.flags = append([]string{"--warm-up", "1ns", "--tokens", write(t, t.TempDir(), "tokens", made.Line+"\n")}, flags...)
	p.begin(t)
	return p
}

func (p *plane) begin(t *testing.T) {
	t.Helper()
	p.start(t)
	t.Cleanup(func() {
		p.end(t, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the control plane's log:\n%s", p.log.String())
		}
	})
}

var greeting = regexp.MustCompile(`listening on (\S+)\n[\s\S]*\n(killSwitch:\n  nats:\n    servers: \["([^"]+)"\]\n[\s\S]*publicKey: "([^"]+)"\n)`)

func (p *plane) start(t *testing.T) {
	t.Helper()
	bin, err := killswitchBinary()
	if err != nil {
		t.Fatal(err)
	}
	listen, nats := "127.0.0.1:0", "127.0.0.1:0"
	if p.api != "" {
		_, listen, _ = strings.Cut(p.api, "://")
		_, nats, _ = strings.Cut(p.nats, "://")
	}
	p.out = lockedBuffer{}
	p.cmd = exec.Command(bin, append([]string{"serve", "--dir", p.dir, "--listen", listen, "--nats-listen", nats}, p.flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var m []string
	eventually(t, "the control plane listens", func() bool {
		m = greeting.FindStringSubmatch(p.out.String())
		return m != nil
	})
	p.api, p.snippet, p.nats, p.publicKey = m[1], m[2], m[3], m[4]
}

// end ends it by a signal and waits.
func (p *plane) end(t *testing.T, by os.Signal) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(by)
	err := p.cmd.Wait()
	if by == syscall.SIGTERM && err != nil {
		t.Errorf("the control plane ended with %v", err)
	}
	p.cmd = nil
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	code     int
}

// command prepares `killswitch args...` for an admin.
func (p *plane) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "killswitch"), args...)
	cmd.Env = []string{
		"TOOLGATE_KILLSWITCH_SERVER=" + p.api, "TOOLGATE_KILLSWITCH_TOKEN_FILE=" + cmp.Or(p.tokenFile, filepath.Join(p.dir, "admin.token")),
		"TOOLGATE_KILLSWITCH_CA_FILE=" + p.caFile,
	}
	return cmd
}

func (p *plane) run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := p.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that is to end with this exit code and to print all of want.
func (p *plane) must(t *testing.T, code int, want []string, args ...string) string {
	t.Helper()
	r := p.run(t, args...)
	if r.code != code {
		t.Fatalf("killswitch %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	for _, text := range want {
		if !regexp.MustCompile(text).MatchString(r.out + r.err) {
			t.Errorf("killswitch %s: no %q in\n%s%s", strings.Join(args, " "), text, r.out, r.err)
		}
	}
	return r.out
}

// sidecar launches one that follows the control plane by what serve printed, and waits until it is in touch and known.
func (p *plane) sidecar(t *testing.T, w *world, name string, more ...string) *sidecar {
	t.Helper()
	s := w.launch(t, name, p.config(w, name, more...))
	eventually(t, name+" is in touch", s.ready)
	p.known(t, name)
	return s
}

func (p *plane) config(w *world, name string, more ...string) string {
	return strings.TrimSuffix(p.snippet, "\n") + "\n  stateDir: " + filepath.Join(w.dir, name+"-state") + "\n" + strings.Join(more, "\n")
}

// known waits until the control plane lists a sidecar as live.
func (p *plane) known(t *testing.T, name string) {
	t.Helper()
	live := regexp.MustCompile(`(?m)^live +shop/` + name + ` `)
	eventually(t, name+" is known", func() bool { return live.MatchString(p.run(t, "sidecars").out) })
}

// ready reports whether the control plane says that it can serve.
func (p *plane) ready(t *testing.T) bool {
	t.Helper()
	res, err := http.Get(p.api + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}
