//go:build linux

package cases

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleEnv makes the test binary a process of a pod.
const roleEnv = "TOOLGATE_CASES_ROLE"

// self is the test binary, open: the go command keeps it where no other user may look.
var self = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/self/exe") })

// role prepares the test binary in a role.
func role(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.Env = []string{roleEnv + "=" + name, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	cmd.ExtraFiles = []*os.File{binary}
	return cmd
}

// play is a process of a pod. It prints what came of it.
func play(role string, args []string) int {
	switch role {
	case "try":
		fmt.Println(try(args[0], args[1:]))
	case "hammer":
		hammer(args)
	default:
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		return 2
	}
	return 0
}

// tries are the ways in which a tool may reach for the network.
var tries = map[string]func(args []string) error{
	"tcp":         func(a []string) error { return dialOnce("tcp", a[0], nil) },
	"udp":         func(a []string) error { return dialOnce("udp", a[0], nil) },
	"bound":       func(a []string) error { return dialOnce("tcp", a[0], bindToDevice) },
	"marked":      func(a []string) error { return dialOnce("tcp", a[0], mark) },
	"fastopen":    func(a []string) error { return fastOpen(a[0]) },
	"udplite":     func(a []string) error { return sendVia(a[0], unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE) },
	"sctp":        func(a []string) error { return sendVia(a[0], unix.SOCK_STREAM, unix.IPPROTO_SCTP) },
	"icmp":        func(a []string) error { return sendVia(a[0], unix.SOCK_DGRAM, unix.IPPROTO_ICMP) },
	"icmp6":       func(a []string) error { return sendVia(a[0], unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6) },
	"raw":         func(a []string) error { return sendVia(a[0], unix.SOCK_RAW, unix.IPPROTO_RAW) },
	"packet":      func([]string) error { return opened(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)) },
	"lsrr":        func(a []string) error { return dialOnce("tcp", a[0], sourceRoute) },
	"srh":         func(a []string) error { return dialOnce("tcp", a[0], segments) },
	"hopopts":     func(a []string) error { return dialOnce("tcp", a[0], hopByHop) },
	"transparent": func(a []string) error { return dialOnce("tcp", a[0], asRouter) },
	"tun":         func([]string) error { return makeTun() },
	"setuid":      func([]string) error { return syscall.Setuid(proxyUID) },
	"bind":        func(a []string) error { return bindTo(a[0]) },
}

// try is one word for what came of a try, or several.
func try(name string, args []string) string {
	f := tries[name]
	if f == nil {
		return "no such try"
	}
	return outcome(f(args))
}

func outcome(err error) string {
	var errno syscall.Errno
	var slow net.Error
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &slow) && slow.Timeout():
		return "timeout"
	case errors.As(err, &errno):
		switch errno {
		case unix.EPERM, unix.EACCES:
			return "not permitted"
		case unix.ECONNREFUSED:
			return "refused"
		case unix.EADDRINUSE:
			return "in use"
		case unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EINVAL, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.ENOENT:
			return "not supported"
		}
	}
	return err.Error()
}

// tryTime bounds one try.
const tryTime = 2 * time.Second

// dialOnce connects, or sends a datagram and waits for an error or an answer to it.
func dialOnce(network, address string, with func(fd int) error) error {
	d := net.Dialer{Timeout: tryTime}
	d.SetMultipathTCP(false)
	if with != nil {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var err error
			if cerr := c.Control(func(fd uintptr) { err = with(int(fd)) }); cerr != nil {
				return cerr
			}
			return err
		}
	}
	c, err := d.Dial(network, address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if network != "udp" {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(tryTime))
	if _, err := io.WriteString(c, "hello"); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 512))
	return err
}

func mark(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, proxyUID) }

func bindToDevice(fd int) error { return unix.BindToDevice(fd, "eth0") }

// asRouter asks for the right to use any address.
func asRouter(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1) }

// sourceRoute asks for a loose source route by the gateway (RFC 791, section 3.1).
func sourceRoute(fd int) error {
	hop := gate4.Addr().As4()
	return unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_OPTIONS, string(append([]byte{1, 131, 7, 4}, hop[:]...)))
}

// segments asks for a segment routing header by the gateway (RFC 8754, section 2).
func segments(fd int) error {
	gate, last := gate6.Addr().As16(), netip.IPv6Unspecified().As16()
	h := append([]byte{0, 4, 4, 1, 1, 0, 0, 0}, last[:]...)
	return unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_RTHDR, string(append(h, gate[:]...)))
}

// hopByHop asks for an extension header of padding before the transport's (RFC 8200, section 4.3).
func hopByHop(fd int) error {
	return unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_HOPOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00")
}

func socketFor(address string, kind, proto int) (int, unix.Sockaddr, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, nil, err
	}
	if ap.Addr().Is4() {
		fd, err := unix.Socket(unix.AF_INET, kind, proto)
		return fd, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}, err
	}
	fd, err := unix.Socket(unix.AF_INET6, kind, proto)
	return fd, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}, err
}

// sendVia sends something by a protocol, which is an echo request if that is ICMP.
func sendVia(address string, kind, proto int) error {
	fd, to, err := socketFor(address, kind, proto)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: int64(tryTime / time.Second)}); err != nil {
		return err
	}
	if kind == unix.SOCK_STREAM {
		return unix.Connect(fd, to)
	}
	echo := []byte{8, 0, 0, 0, 0, 0, 0, 1, 0, 0}
	if proto == unix.IPPROTO_ICMPV6 {
		echo[0] = 128
	}
	return unix.Sendto(fd, echo, 0, to)
}

func opened(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// fastOpen sends data with the SYN (RFC 7413).
func fastOpen(address string) error {
	fd, to, err := socketFor(address, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Sendto(fd, []byte("GET / HTTP/1.0\r\n\r\n"), unix.MSG_FASTOPEN, to)
}

func makeTun() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("tun7")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN)
	return unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
}

// bindTo listens where the sidecar does, sharing the port if the kernel lets it.
func bindTo(address string) error {
	fd, at, err := socketFor(address, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	return err
}

// hammer dials without pause until it is told to stop, and prints how often what happened. Each argument is an address and a
// name to ask for.
func hammer(args []string) {
	var stop = make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(stop)
	}()
	counts := make([]map[string]int, len(args))
	var all sync.WaitGroup
	for i, arg := range args {
		address, name, _ := strings.Cut(arg, "=")
		counts[i] = map[string]int{}
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					counts[i][hit(address, name)]++
				}
			}
		})
	}
	fmt.Println("ready")
	all.Wait()
	for i, arg := range args {
		for what, n := range counts[i] {
			fmt.Printf("%s %s %d\n", arg, what, n)
		}
	}
}

// hit is one word for what came of a TLS connection.
func hit(address, name string) string {
	c, err := net.DialTimeout("tcp", address, tryTime)
	if err != nil {
		return strings.ReplaceAll(outcome(err), " ", "-")
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(tryTime))
	if err := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err != nil {
		return "denied"
	}
	return "through"
}
