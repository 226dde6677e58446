//go:build linux

package cases

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideEnv tells the test binary that it runs in its namespace already; its value is the sidecar's binary.
const insideEnv = "TOOLGATE_CASES_SIDECAR"

var errNoNamespace = errors.New("no network namespace can be made here")

// runInside runs this test binary once more, in network and mount namespaces of its own, and returns its exit code. Without
// root it becomes root of a user namespace.
func runInside(sidecar string) (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"="+sidecar)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", errNoNamespace, err)
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// setUp makes every address of the namespace local and gives it a resolv.conf of its own.
func setUp(resolvConf string) error {
	if err := prepare(resolvConf); err != nil {
		return fmt.Errorf("%w: %w", errNoNamespace, err)
	}
	return nil
}

func prepare(resolvConf string) error {
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := everythingLocal(family); err != nil {
			return fmt.Errorf("local route: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount(resolvConf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("resolv.conf: %w", err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// everythingLocal adds the route "local default dev lo" (rtnetlink(7)): the kernel then takes every destination for one of
// its own addresses.
func everythingLocal(family byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const loopback = 1 // index of lo in every namespace
	ne := binary.NativeEndian
	m := ne.AppendUint32(nil, unix.SizeofNlMsghdr+unix.SizeofRtMsg+8)
	m = ne.AppendUint16(m, unix.RTM_NEWROUTE)
	m = ne.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_ACK)
	m = ne.AppendUint32(m, 1)
	m = ne.AppendUint32(m, 0)
	m = append(m, family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL)
	m = ne.AppendUint32(m, 0)
	m = ne.AppendUint16(m, 8)
	m = ne.AppendUint16(m, unix.RTA_OIF)
	m = ne.AppendUint32(m, loopback)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("short netlink answer")
	}
	if code := int32(ne.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
