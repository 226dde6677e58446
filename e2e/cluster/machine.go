//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nodeCommand is what this program is called with to become the first process of a node.
const nodeCommand = "as-node"

// upDeadline is ten times what a busy machine of two cores was seen to need.
const upDeadline = 5 * time.Minute

// state is what a node's first process says of itself, in a file.
type state struct {
	PID     int     `json:"pid"`     // on the machine
	Started string  `json:"started"` // field 22 of /proc/PID/stat: a pid alone may be another's by now
	Tier    string  `json:"tier"`
	Steps   []step  `json:"steps,omitempty"`
	Ready   bool    `json:"ready"`
	Failed  string  `json:"failed,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

type step struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// refused is why no node can be on this machine, whatever the cache holds.
type refused struct{ err error }

func (r refused) Error() string { return "this machine allows no node: " + r.err.Error() }

// up starts a node, or finds the one that runs, and returns when it is ready. It calls told with each step.
func (m *machine) up(ctx context.Context, tier string, told func(what string, seconds float64)) error {
	if tier != tierB && tier != tierC {
		return fmt.Errorf("tier: found %q, expected b or c", tier)
	}
	if s, ok := m.running(); ok {
		if s.Ready && (s.Tier == tier || s.Tier == tierC) {
			return nil
		}
		return fmt.Errorf("node %s runs as tier %s, ready: %v; take it down first", m.name, s.Tier, s.Ready)
	}
	if err := m.cache.missing(tier); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return refused{errors.New("namespaces and mounts need root")}
	}
	if err := m.down(ctx); err != nil { // what a crash may have left
		return err
	}
	if err := os.MkdirAll(m.path("log"), 0o755); err != nil {
		return err
	}
	if err := m.start(tier); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, upDeadline)
	defer cancel()
	err := m.awaitReady(ctx, told)
	if err == nil && tier == tierC {
		err = m.importTool(ctx)
	}
	if err != nil {
		return errors.Join(err, m.lastWords(), m.down(context.WithoutCancel(ctx)))
	}
	return nil
}

// start begins the first process in its namespaces. Killing that one kills all the others: it is the first of a pid namespace.
func (m *machine) start(tier string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := m.keepProgram(self); err != nil {
		return err
	}
	log, err := os.Create(m.path("log", "node.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(m.path("node"), nodeCommand, tier)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), "TOOLGATE_CLUSTER_CACHE="+string(m.cache), "TOOLGATE_CLUSTER_NAME="+m.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	if err := cmd.Start(); err != nil {
		return refused{err}
	}
	started, err := startTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Release() }()
	return m.writeState("pid", state{PID: cmd.Process.Pid, Started: started, Tier: tier})
}

// keepProgram copies this program: the node outlives "go run" and "go test", which delete theirs.
func (m *machine) keepProgram(self string) error {
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(m.path("node"), text, 0o755)
}

func (m *machine) awaitReady(ctx context.Context, told func(string, float64)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	shown := 0
	for {
		s, alive := m.running()
		for ; shown < len(s.Steps); shown++ {
			told(s.Steps[shown].What, s.Steps[shown].Seconds)
		}
		switch {
		case s.Failed != "":
			return errors.New(s.Failed)
		case !alive:
			return errors.New("the node's first process has ended")
		case s.Ready:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// running reads the state and reports whether the first process is alive.
func (m *machine) running() (state, bool) {
	var s state
	if !m.readState("pid", &s) {
		return s, false
	}
	pid, started := s.PID, s.Started
	m.readState("state", &s) // the node's own, which knows its pid only from within
	s.PID, s.Started = pid, started
	now, err := startTime(pid)
	return s, err == nil && now == started
}

func (m *machine) readState(name string, s *state) bool {
	text, err := os.ReadFile(m.path(name + ".json"))
	return err == nil && json.Unmarshal(text, s) == nil
}

func (m *machine) writeState(name string, s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file := m.path(name + ".json")
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// startTime is field 22 of /proc/PID/stat (proc_pid_stat(5)). The process has ended if it is a zombie without other threads: the last
// thread of a pid namespace's first process waits until all the others in it are gone.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name in brackets may hold anything
	fields := strings.Fields(rest)
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if len(fields) < 20 || fields[0] == "Z" && len(threads) <= 1 {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
}

// down takes the node away: its processes, its control groups, its files. It does so as well when the node has crashed, and nothing if
// there is none.
func (m *machine) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if s, alive := m.running(); alive {
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		if err := poll(ctx, func() error {
			if _, alive := m.running(); alive {
				return errors.New("the node's first process does not end")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := poll(ctx, m.removeGroups); err != nil {
		return err
	}
	return poll(ctx, func() error { return os.RemoveAll(m.path()) }) // its mounts end with its last process
}

// poll calls f until it succeeds or ctx ends, and returns the last error then.
func poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// lastWords is the end of each component's log.
func (m *machine) lastWords() error {
	files, _ := filepath.Glob(m.path("log", "*.log"))
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || len(text) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "== %s\n%s\n", filepath.Base(f), strings.Join(lines[max(0, len(lines)-8):], "\n"))
	}
	return errors.New(b.String())
}

// command is a command in the node's namespaces, with kubectl's and helm's settings. The folder stays the caller's: the node sees the
// machine's files, but for /run, /var/lib and /var/log.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	s, alive := m.running()
	if !alive {
		cmd := exec.CommandContext(ctx, "false")
		cmd.Err = fmt.Errorf("node %s does not run: go run ./e2e/cluster up", m.name)
		return cmd
	}
	enter := []string{"-t", strconv.Itoa(s.PID), "-m", "-n", "-u", "-i", "-p", "-w.", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.path("admin.kubeconfig"), "PATH="+m.searchPath(),
		"HELM_CACHE_HOME="+m.path("helm/cache"), "HELM_CONFIG_HOME="+m.path("helm/config"), "HELM_DATA_HOME="+m.path("helm/data"))
	return cmd
}

func (m *machine) searchPath() string {
	dirs := []string{m.cache.debian() + "/usr/bin", m.cache.debian() + "/usr/sbin"}
	for _, s := range sources() {
		dirs = append(dirs, m.cache.folder(s))
	}
	return strings.Join(append(dirs, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":")
}
