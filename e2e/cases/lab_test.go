//go:build linux

package cases

import (
	"net/netip"
	"net/url"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
)

// lab is what all cases share: the namespace, its name server and upstreams, an issuer of task tokens.
type lab struct {
	wire   *wire
	dns    *nameServer
	up     *upstreams
	issuer *devissuer.Issuer
	pki    *pki
	meant  []netip.Addr // addresses that this case means to be dialled
}

func newLab(t *testing.T) *lab {
	t.Helper()
	issuer, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p := newPKI(t)
	l := &lab{wire: newWire(t), dns: newNameServer(t), up: newUpstreams(t, p), issuer: issuer, pki: p}
	at, err := url.Parse(issuer.URL())
	if err != nil {
		t.Fatal(err)
	}
	l.wire.own = []netip.AddrPort{netip.MustParseAddrPort(at.Host), netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort(addrNS + ":53")}
	return l
}

// begin forgets what the case before left.
func (l *lab) begin() {
	l.dns.reset()
	l.up.reset()
	l.wire.forget()
	l.meant = nil
}

// mean says that the case means these addresses to be dialled. U1, U2 and U3 always are.
func (l *lab) mean(addrs ...string) {
	for _, a := range addrs {
		l.meant = append(l.meant, netip.MustParseAddr(a))
	}
}

// check is what must hold in every case: nothing was dialled but what was meant to be.
func (l *lab) check(t *testing.T) {
	t.Helper()
	l.mean(addrU1, addrU2, addrU3)
	for _, d := range l.wire.dials() {
		if !slices.Contains(l.meant, d.Addr()) {
			t.Errorf("the sidecar dialled %s", d)
		}
	}
}

// silent fails the test if anything was dialled.
func (l *lab) silent(t *testing.T) {
	t.Helper()
	if d := l.wire.dials(); len(d) > 0 {
		t.Errorf("the sidecar dialled %v", d)
	}
}

// unasked fails the test if the name server was asked for anything.
func (l *lab) unasked(t *testing.T) {
	t.Helper()
	if q := l.dns.questions(); len(q) > 0 {
		t.Errorf("the name server was asked for %v", q)
	}
}

// dialled reports whether an address and port were dialled.
func (l *lab) dialled(addrPort string) bool {
	return slices.Contains(l.wire.dials(), netip.MustParseAddrPort(addrPort))
}

// none fails the test if a request reached an upstream.
func (l *lab) none(t *testing.T) {
	t.Helper()
	if a := l.up.arrivals(); len(a) > 0 {
		t.Errorf("an upstream got %s %s of %s", a[0].method, a[0].uri, a[0].host)
	}
}
