//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// childArg is the first argument of this program when it runs as one of its own children.
const childArg = "peer"

// childRoles are what a child can be. Each prints one line of JSON with its addresses, then serves. What it needs of the lab comes
// as arguments.
var childRoles = map[string]func(args []string) error{
	"upstream":          upstreamMain,
	"load":              loadMain,
	"issuer":            issuerMain,
	"fleet":             fleetMain,
	"splice":            spliceMain,
	"floor":             floorMain,
	"goproxy":           goproxyMain,
	"goproxy-mitm":      func(args []string) error { return goproxyMITM(args[0], 64) },
	"goproxy-mitm-2":    func(args []string) error { return goproxyMITM(args[0], 2) },
	"smokescreen":       func([]string) error { return smokescreenServe(true) },
	"smokescreen-nolog": func([]string) error { return smokescreenServe(false) },
}

func childMain(args []string) int {
	if len(args) == 0 || childRoles[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "bench: not a role:", args)
		return 2
	}
	if err := childRoles[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		return 1
	}
	return 0
}

// child is one process of the benchmark.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	errs   tail
	exited chan struct{}
	after  func() // called once it is stopped; nil: nothing is left behind
}

// spawn starts a process with an empty environment: no proxy variables, and the default GOGC. It leads a process group of its own, so
// that the terminal's Ctrl-C reaches this process alone. The group is killed when ctx ends and when stop is called, its leader by the
// kernel when this process dies. uid < 0 keeps the uid.
func spawn(ctx context.Context, uid int, path string, args ...string) (*child, error) {
	c := &child{exited: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, path, args...)
	c.cmd.Env = []string{}
	c.cmd.Stderr = &c.errs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.cmd.Cancel = c.kill
	if uid >= 0 {
		c.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout, c.stdout = w, bufio.NewReader(out)
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait()
	}()
	context.AfterFunc(ctx, func() { out.Close() })
	return c, nil
}

// spawnSelf starts this program in a role and reads its first line into hello.
func spawnSelf(ctx context.Context, uid int, self, role string, hello any, args ...string) (*child, error) {
	c, err := spawn(ctx, uid, self, append([]string{childArg, role}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := c.read(hello); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// read reads one line of JSON from the child. When there is none the error carries the end of its stderr.
func (c *child) read(v any) error {
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w: %s", err, c.errs.String())
	}
	return json.Unmarshal(line, v)
}

func (c *child) kill() error { return syscall.Kill(-c.pid(), syscall.SIGKILL) }

// stop kills the process group and waits for its leader: no child holds anything that needs an orderly end.
func (c *child) stop() {
	_ = c.kill()
	<-c.exited
	if c.after != nil {
		c.after()
	}
}

// alive returns an error with the end of stderr once the process has exited.
func (c *child) alive() error {
	select {
	case <-c.exited:
		return errors.New("exited: " + c.errs.String())
	default:
		return nil
	}
}

// tail keeps the last 2 KiB written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - 2048; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// sayHello prints the first line of a child.
func sayHello(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// listen opens a loopback listener on a free port.
func listen() (string, net.Listener, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	return ln.Addr().String(), ln, nil
}
