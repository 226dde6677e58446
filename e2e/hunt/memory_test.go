package hunt

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is the user of the sidecar where the tests are root's, and of whoever looks into its memory.
const nobody = 64999

// asNobody has a command run as that user, or as ours if we are not root.
func asNobody(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// give makes files that user's, and the folders above reachable.
func (w *world) give(t *testing.T) {
	t.Helper()
	if w.given = true; os.Getuid() != 0 {
		return
	}
	for _, dir := range []string{binDir, filepath.Dir(w.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// peeks are the ways to what a process has in its memory, for another process of the same user.
var peeks = map[string]func(pid int) error{
	"mem":     func(pid int) error { return readOne(pid, "mem") },
	"environ": func(pid int) error { return readOne(pid, "environ") },
	"maps":    func(pid int) error { return readOne(pid, "maps") },
	"fd": func(pid int) error {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		return err
	},
	"exe": func(pid int) error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return err
	},
	"ptrace": unix.PtraceSeize, // it stops nothing, and ends with the thread
	"pidfd_getfd": func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return fmt.Errorf("pidfd_open: %v", err)
		}
		defer func() { _ = unix.Close(fd) }()
		got, err := unix.PidfdGetfd(fd, 1, 0)
		if err == nil {
			_ = unix.Close(got)
		}
		return err
	},
}

// readOne opens a file of /proc. Nothing is at address 0 of a memory, so that reading there ends with EIO where it is allowed.
func readOne(pid int, name string) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, unix.EIO) {
		return err
	}
	return nil
}

// peek tries them all, on a thread that is that user's and has no capability.
func peek(t *testing.T, pid int) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	onThread(func() {
		if os.Getuid() == 0 {
			// The system calls themselves, which are for one thread; the functions of package syscall are for all.
			_, _, e1 := unix.RawSyscall(unix.SYS_SETRESGID, nobody, nobody, nobody)
			_, _, e2 := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
			if e1 != 0 || e2 != 0 {
				errs["setresuid"] = fmt.Errorf("%w, %w", e1, e2)
				return
			}
		}
		for name, try := range peeks {
			errs[name] = try(pid)
		}
	})
	if err := errs["setresuid"]; err != nil {
		t.Fatal(err)
	}
	return errs
}

// onThread runs f on a thread that ends with it. The first thread does not end, so that is none.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked, which ends the thread
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f)
			return
		}
		f()
	}()
	<-done
}

// bystander is a process of the same user that has not closed its memory: what cannot be done to it shows nothing.
func bystander(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Dir = dir
	asNobody(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// largeCores lets the processes that are started from here on leave cores of any size, as far as the machine lets us.
func largeCores(t *testing.T) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	before := limit
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &before) })
}

// abort has a process die by SIGABRT, and says whether the kernel wrote a core.
func abort(t *testing.T, cmd *exec.Cmd, wait func()) bool {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGABRT)
	wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("%s has ended with %v", cmd.Path, cmd.ProcessState)
	}
	return status.CoreDump()
}

// TestMemory: what the sidecar has in its memory is for nobody else, not even of its own user, such as a tool in a pod whose containers
// share processes; and a core of it is never written.
func TestMemory(t *testing.T) {
	w := newWorld(t, options{Level: "info", Format: "json", Records: "out/records.jsonl", env: []string{"GOTRACEBACK=crash"}})
	w.give(t)
	largeCores(t)
	w.start(t)
	allowed, refused := peek(t, bystander(t, w.dir).Process.Pid), peek(t, w.cmd.Process.Pid)
	for name := range peeks {
		if allowed[name] != nil {
			t.Logf("%s of any process: %v", name, allowed[name]) // Yama, seccomp: nothing is shown of this one
			continue
		}
		if err := refused[name]; !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			t.Errorf("%s of the sidecar: %v", name, err)
		}
	}
	if allowed["environ"] != nil {
		t.Errorf("another process's environment cannot be read: %v", allowed["environ"])
	}
	w.ownFigures(t)
	open := bystander(t, w.dir) // another one: that one is traced
	if !abort(t, open, func() { _ = open.Wait() }) {
		t.Log("this machine writes no cores")
	}
	if abort(t, w.cmd, func() { w.wait(t) }) {
		t.Error("a core was written")
	}
}

// ownFigures checks the metrics of the process, which it reads under /proc/self.
func (w *world) ownFigures(t *testing.T) {
	t.Helper()
	figure := func(name string) float64 {
		status, page := w.page("/metrics")
		m := regexp.MustCompile(`(?m)^` + name + ` ([0-9.e+]+)$`).FindSubmatch(page)
		if status != http.StatusOK || m == nil {
			t.Errorf("no %s", name)
			return 0
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for _, name := range []string{
		"process_cpu_seconds_total", "process_max_fds", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_start_time_seconds",
		"process_network_receive_bytes_total",
	} {
		if figure(name) <= 0 {
			t.Errorf("%s is nothing", name)
		}
	}
	const more = 20
	before := figure("process_open_fds")
	for range more {
		w.dial(t, "tool")
	}
	eventually(t, "the connections are counted", func() bool { return figure("process_open_fds") >= before+more })
}
