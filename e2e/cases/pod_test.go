//go:build linux

package cases

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/devissuer"
)

// The users of a pod.
const (
	proxyUID = 1337
	uid1     = 2001 // of tool t1
	uid2     = 2002 // of tool t2
	uidNone  = 2009 // of no tool
)

// Where a pod is, and where the namespace around it is for the pod.
var (
	pod4, gate4 = netip.MustParsePrefix("198.51.100.2/24"), netip.MustParsePrefix("198.51.100.1/24")
	pod6, gate6 = netip.MustParsePrefix("2001:db8:b::2/64"), netip.MustParsePrefix("2001:db8:b::1/64")
)

const (
	addrE6     = "2a0c:1234::66" // what a tool must not reach over IPv6
	addrIssuer = "93.184.216.40" // idp.ok.test
	addrSix    = "2a0c:1234::1"  // six.wild.test
	podAdmin   = "15020"
	// Names of the listeners are the tools'; those for IPv6 have a 6 behind them.
	podListeners = `
  - {name: t1, kind: transparent, address: "127.0.0.1:15001", tool: t1, tokenFile: t1.jwt}
  - {name: t16, kind: transparent, address: "[::1]:15001", tool: t1, tokenFile: t1.jwt}
  - {name: t2, kind: transparent, address: "127.0.0.1:15002", tool: t2, tokenFile: t2.jwt}
  - {name: t26, kind: transparent, address: "[::1]:15002", tool: t2, tokenFile: t2.jwt}
  - {name: names, kind: dns, address: "127.0.0.1:15053", tool: t1}
  - {name: names6, kind: dns, address: "[::1]:15053", tool: t1}
  - {name: names2, kind: dns, address: "127.0.0.1:15054", tool: t2}`
)

// pod is a network namespace with the sidecar in it, fenced. All that leaves it arrives in the tests' own namespace, where
// every address answers.
type pod struct {
	*world
	home, ns *os.File
	tap      *tap
	fenced   []string // what netinit is called with
}

// pod makes a namespace, puts the fence up and starts the sidecar.
func (l *lab) pod(t *testing.T) *pod {
	t.Helper()
	needUsers(t)
	inner := *l
	var err error
	if inner.issuer, err = devissuer.New(devissuer.Options{URL: "https://idp.ok.test"}); err != nil {
		t.Fatal(err)
	}
	l.dns.set("idp.ok.test", at(addrIssuer))
	l.dns.set("six.wild.test", at(addrSix))
	l.up.handle("idp.ok.test", inner.issuer.ServeHTTP)
	p := &pod{fenced: []string{"--proxy-uid", strconv.Itoa(proxyUID), "--tool-uid", fmt.Sprintf("%d=t1", uid1), "--tool-uid", fmt.Sprintf("%d=t2", uid2)}}
	p.namespace(t)
	p.world = inner.files(t, func(s *settings) {
		s.listeners, s.admin, s.resolver = podListeners, "0.0.0.0:"+podAdmin, addrNS+":53"
		s.issuer = `{issuer: "https://idp.ok.test", audiences: [toolgate], caFile: upstream-ca.pem}`
		s.domains = append(s.domains, "one.ok.test:443")
	})
	l.dns.set("one.ok.test", at(addrU2))
	p.from = gate4.Addr()
	p.launch = func(cmd *exec.Cmd) error { return p.start(cmd, proxyUID) }
	p.write(t, "t1.jwt", p.tokenA)
	p.write(t, "t2.jwt", p.tokenB)
	p.belongsToProxy(t)
	p.netinit(t)
	p.world.start(t)
	p.tap.forget()
	l.dns.forget() // the issuer's
	return p
}

// needUsers skips where processes of several users cannot be had.
func needUsers(t *testing.T) {
	t.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	if f := strings.Fields(string(ids)); err == nil && len(f) == 3 && len(f[2]) > 4 {
		return
	}
	const why = "NOT TESTED: the fence needs root, for processes of several users"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// namespace makes the pod's network and joins it to this one.
func (p *pod) namespace(t *testing.T) {
	t.Helper()
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and keep it: the thread ends with the goroutine
		made <- func() (err error) {
			if p.home, err = os.Open("/proc/thread-self/ns/net"); err != nil {
				return err
			}
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			p.ns, err = os.Open("/proc/thread-self/ns/net")
			return err
		}()
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.ns.Close(), p.home.Close() })
	if err := addVeth("pod0", "eth0", int(p.ns.Fd())); err != nil {
		t.Fatalf("veth: %v", err)
	}
	link, err := linkUp("pod0", gate4, gate6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeLink(link); err != nil {
			t.Error(err)
		}
	})
	for _, a := range []netip.Addr{pod4.Addr(), pod6.Addr()} { // this one address is not local
		if err := addRoute(familyOf(a), unix.RTN_UNICAST, unix.RT_TABLE_LOCAL, netip.PrefixFrom(a, a.BitLen()), netip.Addr{}, link); err != nil {
			t.Fatalf("route to %s: %v", a, err)
		}
	}
	p.tap = newTap(t, link)
	err = p.within(func() error {
		if _, err := linkUp("lo"); err != nil {
			return err
		}
		eth, err := linkUp("eth0", pod4, pod6)
		for _, g := range []netip.Addr{gate4.Addr(), gate6.Addr()} {
			if err == nil {
				err = addRoute(familyOf(g), unix.RTN_UNICAST, unix.RT_TABLE_MAIN, netip.Prefix{}, g, eth)
			}
		}
		return err
	})
	if err != nil {
		t.Fatalf("the pod's links: %v", err)
	}
}

// within runs f on a thread that is in the pod's network.
func (p *pod) within(f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err := f()
	if back := unix.Setns(int(p.home.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // this thread is of no use to anything else
	}
	runtime.UnlockOSThread()
	return err
}

// start begins a process in the pod, as a user without capabilities who cannot gain any.
func (p *pod) start(cmd *exec.Cmd, uid uint32) error {
	path := cmd.Path
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return err
	}
	id := strconv.FormatUint(uint64(uid), 10)
	cmd.Args = append([]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs", "--inh-caps=-all",
		"--ambient-caps=-all", "--bounding-set=-all", "--", path}, cmd.Args[1:]...)
	cmd.Path = setpriv
	return p.within(cmd.Start)
}

// belongsToProxy gives the sidecar's files to its user.
func (p *pod) belongsToProxy(t *testing.T) {
	t.Helper()
	err := os.Chmod(filepath.Dir(p.dir), 0o755)
	if err == nil {
		err = filepath.WalkDir(p.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(path, proxyUID, proxyUID)
		})
	}
	if err == nil { // a CA's certificate is nobody's secret
		err = os.Chmod(filepath.Join(p.dir, "upstream-ca.pem"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// netinit runs the command of that name as the init container does.
func (p *pod) netinit(t *testing.T, more ...string) {
	t.Helper()
	cmd := p.command("netinit")
	cmd.Args = append(append(cmd.Args, p.fenced...), more...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := p.within(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("netinit %v: %v\n%s", more, err, out.String())
	}
}

// kill ends the sidecar as the kernel does when memory is short.
func (p *pod) kill() {
	p.mayEnd = true
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// again starts the sidecar after a kill.
func (p *pod) again(t *testing.T) {
	t.Helper()
	p.mayEnd = false
	p.world.start(t)
}

// run runs a program as a user of the pod and returns what it printed and its exit code.
func (p *pod) run(t *testing.T, uid uint32, name string, args ...string) (string, int) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.finish(t, uid, exec.Command(path, args...))
}

func (p *pod) finish(t *testing.T, uid uint32, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // and nothing of a proxy
	}
	if err := p.start(cmd, uid); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait()
	return strings.TrimSpace(out.String()), cmd.ProcessState.ExitCode()
}

// curl runs curl as a user of the pod, with the roots of a file.
func (p *pod) curl(t *testing.T, uid uint32, roots string, args ...string) (string, int) {
	t.Helper()
	all := append([]string{"-sS", "--max-time", "10", "--cacert", filepath.Join(p.dir, roots)}, args...)
	return p.run(t, uid, "curl", all...)
}

// got returns the requests for a host that reached an upstream.
func (p *pod) got(host string) []arrived {
	var out []arrived
	for _, a := range p.up.arrivals() {
		if a.host == host {
			out = append(out, a)
		}
	}
	return out
}
