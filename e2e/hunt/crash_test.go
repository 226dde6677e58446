package hunt

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// deaths are the ways in which a process may die with its memory full of secrets: what it prints then is not written by the sidecar's log.
var deaths = map[string]func(w *world, t *testing.T){
	"SIGQUIT": func(w *world, _ *testing.T) { _ = w.cmd.Process.Signal(syscall.SIGQUIT) },
	"SIGABRT": func(w *world, _ *testing.T) { _ = w.cmd.Process.Signal(syscall.SIGABRT) },
	"SIGSEGV": func(w *world, _ *testing.T) { _ = w.cmd.Process.Signal(syscall.SIGSEGV) },
	"no memory": func(w *world, t *testing.T) {
		// No page more: the runtime says "fatal error" and prints every goroutine.
		limit := unix.Rlimit{Cur: 64 << 20, Max: 64 << 20}
		if err := unix.Prlimit(w.cmd.Process.Pid, unix.RLIMIT_AS, &limit, nil); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			select {
			case <-w.exited:
				return
			default:
				_, _ = fetch("http://" + w.at["admin"] + "/metrics")
			}
		}
	},
}

// TestCrash ends the sidecar in each of these ways while calls run, and looks at what it leaves.
func TestCrash(t *testing.T) {
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{Level: "debug", Format: "json", Records: "stdout", Payloads: true, env: []string{"GOTRACEBACK=all"}})
			w.start(t)
			w.requests(t)
			for host := range bindings {
				w.stream(t, host, bindings[host]...)
			}
			mark := len(w.stderr.bytes())
			die(w, t)
			w.wait(t)
			last := w.stderr.bytes()[mark:]
			if n := bytes.Count(last, []byte("\ngoroutine ")); n < 10 {
				t.Errorf("%d goroutines in what it prints:\n%.2000s", n, last)
			}
			if !strings.Contains(fmt.Sprint(w.cmd.ProcessState), "exit status 2") && !strings.Contains(fmt.Sprint(w.cmd.ProcessState), "signal") {
				t.Errorf("it has ended with %v", w.cmd.ProcessState)
			}
			w.out(crash, name, last)
			w.gather(t)
			report(t, judge(look(w.all(), w.outputs)))
		})
	}
}
