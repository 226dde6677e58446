//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses of the node, all in a network namespace of its own. They are private ones: documentation's, which a fence's own test uses, would
// hide what it does.
const (
	nodeName     = "node"
	nodeIP       = "10.90.0.10"
	nodeIP6      = "fd00:90::10"
	podRange     = "10.244.0.0/24"
	podRange6    = "fd00:244::/64"
	serviceRange = "10.96.0.0/24,fd00:96::/112"
	apiServiceIP = "10.96.0.1"
)

// runNode is the first process of the node: it makes the place, starts the components and collects the dead.
func runNode(m *machine, args []string) error {
	if os.Getpid() != 1 || len(args) != 1 {
		return errors.New("this command is for up alone")
	}
	began := time.Now()
	s := state{Tier: args[0]}
	report := func(what string) error {
		s.Steps = append(s.Steps, step{what, time.Since(began).Seconds()})
		return m.writeState("state", s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), upDeadline)
	defer cancel()
	err := m.place()
	if err == nil {
		err = report("namespaces")
	}
	i := newInit()
	if err == nil {
		err = m.bring(ctx, i, args[0], report)
	}
	if err == nil {
		s.Ready = true
		err = report("ready")
	}
	if err == nil {
		err = <-i.lost
	}
	s.Ready, s.Failed = false, err.Error()
	return errors.Join(err, m.writeState("state", s))
}

// place makes the mounts and the network, none of which the machine sees.
func (m *machine) place() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		own := m.path("root", dir)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for _, dir := range []string{"/run/netns", "/run/lock", "/var/lib/kubelet", m.path("tmp")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := m.maskSettings(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil { // kubelet hands mounts on to pods
		return fmt.Errorf("sharing mounts: %w", err)
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	return network()
}

// maskSettings puts files in the place of the kernel's settings that kubelet would write for the whole machine, with what it wants there.
func (m *machine) maskSettings() error {
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"} {
		file := m.path("settings", strings.ReplaceAll(name, "/", "-"))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("masking %s: %w", name, err)
		}
	}
	return nil
}

// network gives the node an address on a bridge, and a way to everywhere that leads nowhere.
func network() error {
	for _, line := range []string{
		"link set lo up",
		"link add node0 type bridge",
		"addr add " + nodeIP + "/24 dev node0",
		"addr add " + nodeIP6 + "/64 dev node0 nodad",
		"link set node0 up",
		"route add default dev node0",
		"-6 route add default dev node0",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// initProcess starts components and collects what ends, as the first process of a pid namespace must.
type initProcess struct {
	lost chan error // the first component that ended
	add  chan component
}

type component struct {
	name string
	cmd  *exec.Cmd
	err  chan error // whether it started
}

func newInit() *initProcess {
	i := &initProcess{lost: make(chan error, 1), add: make(chan component)}
	go i.run()
	return i
}

// run is the one place that starts and the one that waits, so that no process ends unknown.
func (i *initProcess) run() {
	names := map[int]string{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case c := <-i.add:
			err := c.cmd.Start()
			if err == nil {
				names[c.cmd.Process.Pid] = c.name
			}
			c.err <- err
		case <-tick.C:
			var status syscall.WaitStatus
			for {
				pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
				if pid <= 0 || err != nil {
					break
				}
				if name, ours := names[pid]; ours {
					select {
					case i.lost <- fmt.Errorf("%s has ended: exit code %d, signal %d", name, status.ExitStatus(), status.Signal()):
					default:
					}
				}
			}
		}
	}
}

// start starts a component whose output goes to its log.
func (i *initProcess) start(m *machine, name string, args ...string) error {
	log, err := os.Create(m.path("log", name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	program := m.cache.program(args[0])
	cmd := exec.Command(program, args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.Env = []string{"PATH=" + m.searchPath(), "LD_LIBRARY_PATH=" + m.cache.libraries(), "TMPDIR=" + m.path("tmp"), "HOME=/run"}
	c := component{name, cmd, make(chan error)}
	i.add <- c
	if err := <-c.err; err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
