package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// forwardProxy is a proxy on loopback that says what a test tells it to. After a whole header it copies back what it is sent. Requests
// are what it was asked.
type forwardProxy struct {
	*net.TCPListener
	port     uint16
	requests chan string
}

// startProxy answers each connection with the texts, one write each.
func startProxy(t *testing.T, answer ...string) *forwardProxy {
	t.Helper()
	l, port := listen(t, "127.0.0.1")
	p := &forwardProxy{l, port, make(chan string, 100)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn, answer)
		}
	}()
	return p
}

func (p *forwardProxy) serve(conn net.Conn, answer []string) {
	defer func() { _ = conn.Close() }()
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte(headerEnd)); head = append(head, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return
		}
	}
	p.requests <- string(head)
	for _, text := range answer {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
	if strings.Contains(strings.Join(answer, ""), headerEnd) {
		_, _ = io.Copy(conn, conn)
	}
}

// unasked fails the test if the proxy was asked for anything.
func (p *forwardProxy) unasked(t *testing.T) {
	t.Helper()
	select {
	case r := <-p.requests:
		t.Errorf("the proxy was asked %q", r)
	default:
	}
}

// through returns a dialer for tool "t" by way of p.
func through(p *forwardProxy, d *Dialer) *ProxyDialer {
	return &ProxyDialer{Dialer: d, Host: "127.0.0.1", Port: p.port}
}

const opened = "HTTP/1.1 200 Connection established\r\n\r\n"

func TestProxyDialConnects(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.2")))
	canary, port := listen(t, "127.0.0.2")
	p := startProxy(t, opened)
	d := through(p, dialerTo(s, port, "127.0.0.2/32"))
	for host, authority := range map[string]string{
		"api.ok.test":   Target{Host: "api.ok.test", Port: port}.HostPort(),
		"8.8.8.8":       Target{Host: "8.8.8.8", Port: port}.HostPort(),
		"2606:4700::11": "[2606:4700::11]:" + strings.TrimPrefix(Target{Host: "a", Port: port}.HostPort(), "a:"),
	} {
		var at Attempts
		conn, err := d.Dial(t.Context(), "t", host, port, &at)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		if got, want := <-p.requests, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"; got != want {
			t.Errorf("asked %q, expected %q", got, want)
		}
		if counts(&at) != [3]int32{1, 1, 0} || conn.RemoteAddr().String() != p.Addr().String() {
			t.Errorf("connected to %s, counts %v", conn.RemoteAddr(), counts(&at))
		}
		_, _ = io.WriteString(conn, "ping")
		echo := make([]byte, 4)
		if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "ping" {
			t.Errorf("%s: got %q, %v", host, echo, err)
		}
		_ = conn.Close()
	}
	silent(t, canary)
}

func TestProxyDialAuthorizes(t *testing.T) {
	p := startProxy(t, opened)
	d := through(p, &Dialer{Addresses: &Addresses{}})
	n := 0
	d.Authorize = func(b []byte) ([]byte, error) {
		if n++; n > 2 {
			return nil, errors.New("no file")
		}
		return append(b, "Basic "+strings.Repeat("x", n)...), nil
	}
	for _, value := range []string{"Basic x", "Basic xx"} {
		conn, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if got := <-p.requests; got != "CONNECT 8.8.8.8:443 HTTP/1.1\r\nHost: 8.8.8.8:443\r\nProxy-Authorization: "+value+"\r\n\r\n" {
			t.Errorf("asked %q", got)
		}
	}
	var at Attempts
	_, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, &at)
	if via, ok := err.(*ProxyError); !ok || via.Reason != ProxyCredentials || at.Dialed.Load() != 0 {
		t.Errorf("%v, counts %v", err, counts(&at))
	}
}

// What Dialer would not contact, the proxy is not asked for.
func TestProxyDialJudges(t *testing.T) {
	s := startDNS(t, func(name string, _ dnsmessage.Type) dnsReply {
		switch name {
		case "private.ok.test.":
			return addrs("10.0.0.5")
		case "mixed.ok.test.":
			return addrs("8.8.8.8", "169.254.169.254")
		case "public.ok.test.":
			return addrs("8.8.8.8")
		case "empty.ok.test.":
			return dnsReply{}
		case "servfail.ok.test.":
			return dnsReply{code: dnsmessage.RCodeServerFailure}
		case "refused.ok.test.":
			return dnsReply{code: dnsmessage.RCodeRefused}
		case "silent.ok.test.":
			return dnsReply{drop: true}
		}
		return dnsReply{code: dnsmessage.RCodeNameError}
	})
	p := startProxy(t, opened)
	d := through(p, dialerTo(s, p.port))
	d.Dialer.Timeout = 500 * time.Millisecond
	for host, want := range map[string]string{
		"public.ok.test": "", "unknown.ok.test": "", "empty.ok.test": "", "8.8.8.8": "", "2606:4700::11": "",
		"private.ok.test": "address", "mixed.ok.test": "address", "localhost": "address", "api.localhost": "address",
		"127.0.0.1": "address", "169.254.169.254": "address", "::1": "address", "64:ff9b::7f00:1": "address",
		"servfail.ok.test": "name", "refused.ok.test": "name", "silent.ok.test": "name",
		// A proxy may read these as it likes.
		"": "address", "2130706433": "address", "127.1": "address", "0x7f.1": "address", "::ffff:127.0.0.1": "address",
		"[::1]": "address", "fe80::1%lo": "address", "Public.ok.test": "address", "public.ok.test.": "address", "user@public.ok.test": "address",
		"public.ok.test:80": "address", "public.ok.test\r\nX-Other: 1": "address", "public.ok.test 1": "address",
	} {
		var at Attempts
		conn, err := d.Dial(t.Context(), "t", host, 443, &at)
		ctx, cancel := context.WithTimeout(t.Context(), d.Dialer.Timeout)
		check := d.Check(ctx, "t", host, 443)
		cancel()
		got := ""
		if _, ok := err.(*AddressError); ok {
			got = "address"
		} else if _, ok := errors.AsType[*net.DNSError](err); ok {
			got = "name"
		}
		if got != want || (err == nil) != (want == "") || (check == nil) != (want == "") {
			t.Errorf("%q: dial %v, check %v, expected %q", host, err, check, want)
		}
		if want == "" && conn != nil {
			_ = conn.Close()
			if r := <-p.requests; !strings.HasPrefix(r, "CONNECT "+Target{Host: host, Port: 443}.HostPort()+" ") {
				t.Errorf("%q: asked %q", host, r)
			}
		}
		p.unasked(t)
	}
	if conn, err := d.Dial(t.Context(), "t", "unknown.ok.test", 0, nil); err == nil {
		_ = conn.Close()
		t.Error("port 0 is asked for")
	}
	d.Dialer.Resolver = nil
	if conn, err := d.Dial(t.Context(), "t", "public.ok.test", 443, nil); err == nil {
		_ = conn.Close()
		t.Error("without a resolver every name is unknown, and passes")
	}
}

// A proxy on a private network is what the operator wants; the sidecar itself is not.
func TestProxyDialNeverReachesOwnListeners(t *testing.T) {
	s := startDNS(t, fixed(addrs("127.0.0.1")))
	p := startProxy(t, opened)
	own := []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), p.port)}
	for _, host := range []string{"127.0.0.1", "127.0.0.9", "0.0.0.0", "::", "::1", "proxy.ok.test"} {
		d := through(p, dialerTo(s, p.port))
		d.Host, d.Dialer.Addresses.Own = host, own
		var at Attempts
		_, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, &at)
		via, ok := err.(*ProxyError)
		if !ok || via.Reason != ProxyUnreachable || at.Dialed.Load() != 0 {
			t.Errorf("%s: %v, counts %v", host, err, counts(&at))
		}
	}
	p.unasked(t)
	d := through(p, dialerTo(s, p.port))
	d.Host = "proxy.ok.test"
	conn, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestProxyDialUnreachable(t *testing.T) {
	l, port := listen(t, "127.0.0.1")
	_ = l.Close()
	s := startDNS(t, fixed(dnsReply{code: dnsmessage.RCodeNameError}))
	for _, host := range []string{"127.0.0.1", "proxy.ok.test"} {
		d := &ProxyDialer{Dialer: dialerTo(s, port), Host: host, Port: port}
		_, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, nil)
		if via, ok := err.(*ProxyError); !ok || via.Reason != ProxyUnreachable {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A proxy that accepts and says nothing, or never ends its header, is waited for no longer than a dial may take.
func TestProxyDialTimeout(t *testing.T) {
	for name, answer := range map[string][]string{"silent": {}, "unfinished": {"HTTP/1.1 200 OK\r\nVia: x"}} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			defer close(hold)
			l, port := listen(t, "127.0.0.1")
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				for _, text := range answer {
					_, _ = io.WriteString(conn, text)
				}
				<-hold
				_ = conn.Close()
			}()
			d := &ProxyDialer{Dialer: &Dialer{Addresses: &Addresses{}, Timeout: 100 * time.Millisecond}, Host: "127.0.0.1", Port: port}
			_, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, nil)
			if _, ok := err.(*ProxyError); !ok || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A call that is cut while the proxy is silent does not wait for the timeout.
func TestProxyDialCancelled(t *testing.T) {
	l, port := listen(t, "127.0.0.1")
	d := &ProxyDialer{Dialer: &Dialer{Addresses: &Addresses{}}, Host: "127.0.0.1", Port: port}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(conn, make([]byte, 10))
		cancel()
		_, _ = io.Copy(io.Discard, conn) // until the dialer closes
		_ = conn.Close()
	}()
	_, err := d.Dial(ctx, "t", "8.8.8.8", 443, nil)
	if _, ok := err.(*ProxyError); !ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The connection works past the dial's own timeout: no deadline is left on it.
func TestProxyDialLeavesNoDeadline(t *testing.T) {
	p := startProxy(t, opened)
	d := through(p, &Dialer{Addresses: &Addresses{}, Timeout: 200 * time.Millisecond})
	conn, err := d.Dial(t.Context(), "t", "8.8.8.8", 443, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	over, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	<-over.Done()
	_, _ = io.WriteString(conn, "late")
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Error(err)
	}
}
