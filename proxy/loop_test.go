package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// TestCallsDoNotComeBack: whatever leads to one of the sidecar's own listeners is refused where it would be dialled, though the
// operator has exempted the address, and however wide the listener is bound. A call that came back would leave a second record.
func TestCallsDoNotComeBack(t *testing.T) {
	for _, bind := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(bind, func(t *testing.T) {
			l := newLab(t)
			ln, err := net.Listen("tcp", bind)
			if err != nil {
				t.Skip(err)
			}
			served := make(chan error, 1)
			go func() { served <- l.proxy.Serve(ln, "tool") }()
			t.Cleanup(func() { _ = ln.Close() })
			own := ln.Addr().(*net.TCPAddr).AddrPort()
			hosts := []string{"back.wild.ok.test", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"}
			prefixes := []string{"127.0.0.1/32", "127.0.0.2/32"}
			l.names.mu.Lock()
			l.names.to["second.wild.ok.test."] = [4]byte{127, 0, 0, 2}
			if !own.Addr().IsLoopback() {
				hosts = append(hosts, "second.wild.ok.test")
				if at, ok := outerAddress(); ok {
					l.names.to["outer.wild.ok.test."] = at.As4()
					hosts, prefixes = append(hosts, "outer.wild.ok.test", at.String()), append(prefixes, at.String()+"/32")
				}
			}
			l.names.mu.Unlock()
			l.reloadOwn(own, prefixes)
			client := l.client(l.token, false)
			for _, host := range hosts {
				to := fmt.Sprintf("%s:%d", host, own.Port())
				status, body, err := get(client, "http://"+to+"/")
				if err != nil || status != http.StatusForbidden || problemOf(t, body).Code != PrivateNetwork {
					t.Errorf("%s: %d %q %v", to, status, body, err)
				}
				l.next()
				if _, _, err := get(client, "https://"+to+"/"); err == nil || !strings.Contains(err.Error(), "private_network") {
					t.Errorf("CONNECT %s: %v", to, err)
				}
				l.next()
				l.noMore()
			}
		})
	}
}

// reloadOwn puts gates in force that know of one own listener, and whose config exempts prefixes on its port.
func (l *lab) reloadOwn(own netip.AddrPort, prefixes []string) {
	l.t.Helper()
	f := l.files()
	f.manifest = strings.Replace(f.manifest, `"absent.ok.test:`, fmt.Sprintf(`"*.wild.ok.test:%d", "absent.ok.test:`, own.Port()), 1)
	var exempt strings.Builder
	for _, p := range prefixes {
		fmt.Fprintf(&exempt, "{prefix: %q, ports: [%d], tools: [t1]}, ", p, own.Port())
	}
	f.config = strings.Replace(f.config, "allowPrivate: [", "allowPrivate: ["+exempt.String(), 1)
	l.write("manifests/t1.yaml", f.manifest)
	l.write("sidecar.yaml", f.config)
	s, err := config.Load(filepath.Join(l.dir, "sidecar.yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	g, err := NewGates(s, []netip.AddrPort{own}, nil, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.proxy.Reload(g)
}

// outerAddress returns an IPv4 address of this machine that is not loopback.
func outerAddress() (netip.Addr, bool) {
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return netip.AddrFrom4([4]byte(n.IP.To4())), true
		}
	}
	return netip.Addr{}, false
}
