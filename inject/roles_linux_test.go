package inject

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a role waits before it calls something a timeout.
const patience = 2 * time.Second

// playWorld is what lies outside of the pod: it greets on every port that the tests use, and dials the addresses that it reads.
func playWorld() error {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := worldLinks(); err != nil {
		return err
	}
	for _, port := range []string{"80", "443", "53", "8080"} {
		// An answer over UDP from the unspecified address would come from the interface's first.
		for _, listen := range []string{":" + port, "udp:" + world4 + ":" + port, "udp:[" + world6 + "]:" + port} {
			if err := greet(listen, func(net.Conn) string { return "world" }); err != nil {
				return err
			}
		}
	}
	fmt.Println("ready")
	for {
		address, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		if err := playDial([]string{"tcp", strings.TrimSpace(address)}); err != nil {
			return err
		}
	}
}

// playServe greets with the port that was reached and the address that was meant.
func playServe(listen []string) error {
	for _, l := range listen {
		err := greet(l, func(c net.Conn) string {
			if c == nil {
				return "stub"
			}
			return fmt.Sprintf("%d %s", c.LocalAddr().(*net.TCPAddr).Port, originalDestination(c.(*net.TCPConn)))
		})
		if err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// greet answers whoever comes to an address; "udp:" before it stands for that protocol, and "plain:" for TCP of one path.
func greet(listen string, greeting func(net.Conn) string) error {
	if address, ok := strings.CutPrefix(listen, "udp:"); ok {
		pc, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		go func() {
			for buf := make([]byte, 100); ; {
				_, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = pc.WriteTo([]byte(greeting(nil)+"\n"), from)
			}
		}()
		return nil
	}
	// Go listens for Multipath TCP by default, as the proxy does: then the kernel's own socket answers.
	address, plain := strings.CutPrefix(listen, "plain:")
	var lc net.ListenConfig
	lc.SetMultipathTCP(!plain)
	ln, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, greeting(c))
			_ = c.Close()
		}
	}()
	return nil
}

// originalDestination is SO_ORIGINAL_DST, or IP6T_SO_ORIGINAL_DST, which has the same number. The functions of x/sys are for
// other options whose values are as large as a sockaddr.
func originalDestination(c *net.TCPConn) string {
	const option = 80
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	result := ""
	_ = raw.Control(func(fd uintptr) {
		if c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().Is4() {
			v, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, option)
			if err != nil { // without rules nothing tracks connections, and Multipath TCP has no such option
				result = "unknown"
				return
			}
			b := v.Multiaddr
			result = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])).String()
			return
		}
		v, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, option)
		if err != nil {
			result = "unknown"
			return
		}
		port := v.Addr.Port>>8 | v.Addr.Port<<8 // a sockaddr has it in the network's order
		result = netip.AddrPortFrom(netip.AddrFrom16(v.Addr.Addr), port).String()
	})
	return result
}

// playDial connects, waits for the greeting, and prints it or what went wrong.
func playDial(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var d net.Dialer
	network, multipath := strings.CutPrefix(args[0], "mp")
	d.SetMultipathTCP(multipath)
	if len(args) > 2 { // the port to send from
		port, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		d.LocalAddr = &net.UDPAddr{Port: port}
	}
	c, err := d.DialContext(ctx, network, args[1])
	if err == nil {
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		if strings.HasPrefix(args[0], "udp") {
			_, err = fmt.Fprintln(c, "hello")
		}
	}
	if err == nil {
		var line string
		if line, err = bufio.NewReader(c).ReadString('\n'); err == nil {
			fmt.Print(line)
			return nil
		}
	}
	fmt.Println(outcome(err))
	return nil
}

// outcome is one word for what a system call said.
func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, ErrNotPermitted):
		return "not permitted"
	case errors.Is(err, ErrHostNetwork):
		return "the host's"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &errno):
		switch errno {
		case unix.EPERM, unix.EACCES, unix.EHOSTUNREACH: // "administratively prohibited", by protocol and family
			return "prohibited"
		case unix.ECONNREFUSED:
			return "refused"
		}
	}
	return err.Error()
}

// playHost makes the pod's namespace look like a machine's own, for itself, and tries to fence it in.
func playHost() error {
	const settings = "/proc/sys/net/core"
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", settings, "tmpfs", 0, ""),
		os.WriteFile(settings+"/netdev_max_backlog", nil, 0o600),
	)
	if err != nil {
		return err
	}
	p := plan()
	fmt.Print(outcome(Apply(p)), ", ")
	p.HostNetwork = true
	fmt.Println(outcome(Apply(p)))
	return nil
}

// playBoth connects from one address to another, for another process to do the same the other way round.
func playBoth(args []string) error {
	local, err := net.ResolveTCPAddr("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	d := net.Dialer{LocalAddr: local, Timeout: 2 * patience}
	c, err := d.Dial("tcp", args[1])
	if err != nil {
		fmt.Println("alone")
		return nil
	}
	fmt.Println("met", c.RemoteAddr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Close()
}
