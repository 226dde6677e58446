package inject

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The lab. The tests run in a network namespace of their own, the pod, which a veth pair joins to another, the world. Every
// party is a process of its own with a user id of its own; all of them are this test binary in another role.

// The users of the pod.
const (
	proxyUID   = 1337
	toolA      = 2001 // transparent
	toolB      = 2002 // transparent
	toolC      = 2003 // explicit
	nobody     = 65534
	root       = 0
	adminPort  = 15020
	dnsPort    = 15053
	pod4, pod6 = "192.0.2.2", "2001:db8::2"
	gate4      = "192.0.2.1"
	gate6      = "2001:db8::1"
	world4     = "203.0.113.10"
	world6     = "2001:db8:f::10"
	roleKey    = "TOOLGATE_FENCE_ROLE"
	rolePod    = "pod"
	selfFD     = "/proc/self/fd/3" // go test keeps its binary where no other user may look
	// A transparent listener has to be of plain TCP: of a connection of Multipath TCP the kernel does not tell what was meant.
	proxyListen = "plain:127.0.0.1:15001 plain:[::1]:15001 plain:127.0.0.1:15002 plain:[::1]:15002 127.0.0.1:3128 127.0.0.1:15020 udp:127.0.0.1:15053"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleKey); role {
	case "":
		if code, ran := inNewNamespace(); ran {
			os.Exit(code)
		}
		os.Exit(m.Run()) // tests of the fence skip
	case rolePod:
		os.Exit(m.Run())
	default:
		os.Exit(play(role, os.Args[1:]))
	}
}

// inNewNamespace runs the tests again, in a network namespace that ends with them. ran is false if it may not.
func inNewNamespace() (code int, ran bool) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleKey+"="+rolePod)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, os.ErrPermission):
		return 0, false
	case errors.As(err, &exit):
		return exit.ExitCode(), true
	case err != nil:
		fmt.Fprintf(os.Stderr, "no network namespace for the fence's tests: %v\n", err)
		return 1, true
	}
	return 0, true
}

// play is a process of the lab.
func play(role string, args []string) int {
	var err error
	switch role {
	case "world":
		err = playWorld()
	case "serve":
		err = playServe(args)
	case "dial":
		err = playDial(args)
	case "undo":
		fmt.Println(outcome(Remove()))
	case "host":
		err = playHost()
	case "both":
		err = playBoth(args)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		return 1
	}
	return 0
}

// self is the test binary, open, for all roles.
var self = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/self/exe") })

// process prepares a role as a user.
func process(uid uint32, role string, args ...string) (*exec.Cmd, error) {
	binary, err := self()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(selfFD, args...)
	cmd.Env = []string{roleKey + "=" + role, "GORACE=atexit_sleep_ms=0"} // or each role takes a second more under -race
	cmd.ExtraFiles = []*os.File{binary}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd, nil
}

// party is a role that runs.
type party struct {
	in  io.Writer
	out *bufio.Reader
}

// tell sends a line and returns the line that answers.
func (p party) tell(t *testing.T, line string) string {
	t.Helper()
	fmt.Fprintln(p.in, line)
	answer, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// start runs a role as a user until the test is over. It returns when the role says that it is ready.
func start(t *testing.T, uid uint32, role string, args ...string) party {
	t.Helper()
	cmd, err := process(uid, role, args...)
	must(t, err)
	return launch(t, cmd, nil)
}

// launch starts a role, does what has to be done once it runs, and waits until it is ready.
func launch(t *testing.T, cmd *exec.Cmd, between func(pid int)) party {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	if between != nil {
		between(cmd.Process.Pid)
		fmt.Fprintln(in, "go")
	}
	p := party{in, bufio.NewReader(out)}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%v is not ready: %q, %v", cmd.Args, line, err)
	}
	return p
}

// ask runs a role and returns the line that it prints.
func ask(t *testing.T, uid uint32, role string, args ...string) string {
	t.Helper()
	cmd, err := process(uid, role, args...)
	if err != nil {
		t.Error(err)
		return ""
	}
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s as uid %d: %v", role, uid, err)
	}
	return strings.TrimSpace(string(out))
}

// dial says what becomes of a connection: the greeting of who answered, or one of outcome's words.
func dial(t *testing.T, uid uint32, network, address string) string {
	t.Helper()
	return ask(t, uid, "dial", network, address)
}

// newPod joins pod and world, and starts the proxy's listeners. There are no rules when it returns, nor after the test. It
// returns the world, which dials what it is told.
func newPod(t *testing.T) party {
	t.Helper()
	needNamespace(t)
	if err := Remove(); errors.Is(err, ErrUnsupported) {
		t.Skipf("SKIPPED, the fence is not tested: this kernel has no nf_tables: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Remove(); err != nil {
			t.Error(err)
		}
	})
	linkUp(t, "lo")
	outside, err := process(root, "world")
	must(t, err)
	outside.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	world := launch(t, outside, func(pid int) {
		makeVeth(t, "pod0", "world0", pid)
		t.Cleanup(func() { removeLink(t, "pod0") }) // before the next test; the end of the world comes when the kernel has time
		addAddress(t, "pod0", pod4, 24)
		addAddress(t, "pod0", pod6, 64)
		linkUp(t, "pod0")
		addDefaultRoute(t, "pod0", gate4)
		addDefaultRoute(t, "pod0", gate6)
	})
	start(t, proxyUID, "serve", strings.Fields(proxyListen)...)
	return world
}

// needNamespace skips, or fails where the tests are meant to be complete, if this process may not do what the lab needs.
func needNamespace(t *testing.T) {
	t.Helper()
	if os.Getenv(roleKey) == rolePod {
		return
	}
	const why = "the fence is not tested: this needs root, for network namespaces and processes of several users"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, " + why)
}
