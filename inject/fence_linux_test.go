package inject

import (
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// plan is the fence of the lab's pod.
func plan() Plan {
	return Plan{
		Proxy: proxyUID,
		Tools: []Tool{
			{UID: toolA, Listener: netip.MustParseAddrPort("127.0.0.1:15001"), Transparent: true},
			{UID: toolB, Listener: netip.MustParseAddrPort("127.0.0.1:15002"), Transparent: true},
			{UID: toolC, Listener: netip.MustParseAddrPort("127.0.0.1:3128")},
		},
		Ports: []uint16{adminPort},
		IPv6:  true,
	}
}

func apply(t *testing.T, p Plan) {
	t.Helper()
	if err := Apply(p); err != nil {
		t.Fatal(err)
	}
	if err := Check(p); err != nil {
		t.Fatalf("after Apply: %v", err)
	}
}

type attempt struct {
	uid              uint32
	network, address string
	want             string
}

// try makes all attempts at once, as those that time out take long.
func try(t *testing.T, attempts []attempt) {
	t.Helper()
	got := make([]string, len(attempts))
	var all sync.WaitGroup
	for i, a := range attempts {
		all.Go(func() { got[i] = dial(t, a.uid, a.network, a.address) })
	}
	all.Wait()
	for i, a := range attempts {
		if got[i] != a.want {
			t.Errorf("uid %d to %s over %s: %s, expected %s", a.uid, a.address, a.network, got[i], a.want)
		}
	}
}

const (
	https4, https6 = world4 + ":443", "[" + world6 + "]:443"
	dns4, dns6     = world4 + ":53", "[" + world6 + "]:53"
)

// TestWithoutFence: what the fence is for. If these fail, the other tests show nothing.
func TestWithoutFence(t *testing.T) {
	newPod(t)
	try(t, []attempt{
		{toolA, "tcp", https4, "world"},
		{toolA, "tcp", https6, "world"},
		{toolA, "udp", https4, "world"},
		{toolA, "udp", dns6, "world"},
		{toolA, "tcp", "127.0.0.1:15020", "15020 unknown"},
		{toolA, "tcp", "127.0.0.1:15002", "15002 unknown"},
	})
}

// TestRedirection: each tool's connections arrive at its own listener, with the address that was meant.
func TestRedirection(t *testing.T) {
	newPod(t)
	apply(t, plan())
	try(t, []attempt{
		{toolA, "tcp", https4, "15001 " + https4},
		{toolA, "tcp", https6, "15001 " + https6},
		{toolA, "tcp", world4 + ":8080", "15001 " + world4 + ":8080"},
		{toolA, "tcp", dns4, "15001 " + dns4},
		{toolA, "tcp", pod4 + ":15020", "15001 " + pod4 + ":15020"}, // a port of the sidecar, by the pod's own address
		{toolB, "tcp", https4, "15002 " + https4},
		{toolB, "tcp", https6, "15002 " + https6},
	})
}

// TestProxyLeaves: the proxy, and nobody else, reaches the world as the world.
func TestProxyLeaves(t *testing.T) {
	newPod(t)
	apply(t, plan())
	try(t, []attempt{
		{proxyUID, "tcp", https4, "world"},
		{proxyUID, "tcp", https6, "world"},
		{proxyUID, "udp", dns4, "world"},
		{proxyUID, "udp", dns6, "world"},
		{proxyUID, "tcp", "127.0.0.1:15020", "refused"}, // it may not begin anything on loopback
		{proxyUID, "tcp", "[::1]:15001", "refused"},
	})
}

// TestRejected: everything else fails, and at once.
func TestRejected(t *testing.T) {
	newPod(t)
	apply(t, plan())
	for _, uid := range []uint32{root, nobody, 1338, 2004} {
		try(t, []attempt{
			{uid, "tcp", https4, "refused"},
			{uid, "tcp", https6, "refused"},
			{uid, "udp", dns4, "prohibited"},
			{uid, "tcp", "127.0.0.1:15001", "refused"},
			{uid, "tcp", "127.0.0.1:9", "refused"},
		})
	}
	try(t, []attempt{
		{toolA, "udp", https4, "prohibited"}, // QUIC
		{toolA, "udp", https6, "prohibited"},
		{toolA, "udp", dns4, "prohibited"},
		{toolA, "udp", dns6, "prohibited"},
		{toolA, "udp", "127.0.0.1:15053", "prohibited"},
		{toolA, "tcp", "127.0.0.1:15002", "refused"}, // another tool's
		{toolA, "tcp", "[::1]:15002", "refused"},
		{toolA, "tcp", "127.0.0.2:15002", "refused"},
		{toolA, "tcp", "127.0.0.1:15001", "refused"}, // its own, but without an address that was meant
		{toolA, "tcp", "127.0.0.1:15020", "refused"},
		{toolA, "tcp", "127.0.0.1:3128", "refused"},
		{toolA, "ip4:icmp", world4, "prohibited"},
	})
}

// TestExplicitTool: it reaches its proxy port and nothing else; nothing is redirected.
func TestExplicitTool(t *testing.T) {
	newPod(t)
	apply(t, plan())
	try(t, []attempt{
		{toolC, "tcp", "127.0.0.1:3128", "3128 127.0.0.1:3128"},
		{toolC, "tcp", https4, "refused"},
		{toolC, "tcp", https6, "refused"},
		{toolC, "udp", dns4, "prohibited"},
		{toolC, "tcp", pod4 + ":3128", "refused"},
		{toolC, "tcp", "127.0.0.1:15001", "refused"},
		{toolC, "tcp", "127.0.0.1:15020", "refused"},
	})
}

// TestOwnLoopback: a tool may talk to itself over loopback, and to nobody else who listens there.
func TestOwnLoopback(t *testing.T) {
	newPod(t)
	apply(t, plan())
	start(t, toolA, "serve", "127.0.0.1:9001", "[::1]:9001")
	start(t, nobody, "serve", "127.0.0.1:9002")
	start(t, toolB, "serve", "[::1]:9003")
	try(t, []attempt{
		{toolA, "tcp", "127.0.0.1:9001", "9001 127.0.0.1:9001"},
		{toolA, "tcp", "[::1]:9001", "9001 [::1]:9001"},
		{toolB, "tcp", "127.0.0.1:9001", "timeout"},
		{toolA, "tcp", "127.0.0.1:9002", "timeout"},
		{toolA, "tcp", "[::1]:9003", "timeout"},
		{toolB, "tcp", "[::1]:9003", "9003 [::1]:9003"},
		{toolA, "tcp", "127.0.0.1:9", "refused"}, // nobody listens
		{nobody, "tcp", "127.0.0.1:9002", "refused"},
	})
}

// TestMultipath: the kernel's sockets below one of Multipath TCP count as that one's user's.
func TestMultipath(t *testing.T) {
	newPod(t)
	apply(t, plan())
	start(t, toolA, "serve", "127.0.0.1:9301", "plain:127.0.0.1:9302")
	start(t, nobody, "serve", "127.0.0.1:9303")
	try(t, []attempt{
		{toolA, "mptcp", https4, "15001 " + https4},
		{toolA, "mptcp", https6, "15001 " + https6},
		{toolC, "mptcp", "127.0.0.1:3128", "3128 unknown"},
		{proxyUID, "mptcp", https4, "world"},
		{toolA, "mptcp", "127.0.0.1:9301", "9301 unknown"},
		{toolA, "mptcp", "127.0.0.1:9302", "9302 127.0.0.1:9302"},
		{toolA, "tcp", "127.0.0.1:9302", "9302 127.0.0.1:9302"},
		{toolA, "mptcp", "127.0.0.1:9303", "timeout"},
		{nobody, "mptcp", https4, "refused"},
		{toolC, "mptcp", https6, "refused"},
	})
}

// TestPath: an agent beside a tool reaches that tool's port and nothing else; the tool does not reach the agent.
func TestPath(t *testing.T) {
	const agent = 2010
	newPod(t)
	p := plan()
	p.Paths = []Path{{From: agent, To: toolA, Port: 9201}, {From: agent, To: toolA, Port: 9202}}
	apply(t, p)
	start(t, toolA, "serve", "127.0.0.1:9201", "[::1]:9201", "127.0.0.1:9203")
	start(t, toolB, "serve", "127.0.0.1:9202")
	start(t, agent, "serve", "127.0.0.1:9204")
	try(t, []attempt{
		{agent, "tcp", "127.0.0.1:9201", "9201 127.0.0.1:9201"},
		{agent, "tcp", "[::1]:9201", "9201 [::1]:9201"},
		{agent, "tcp", "127.0.0.1:9202", "timeout"}, // where another tool listens
		{agent, "tcp", "127.0.0.1:9203", "refused"},
		{agent, "tcp", "127.0.0.1:15001", "refused"},
		{agent, "tcp", https4, "refused"},
		{toolB, "tcp", "127.0.0.1:9201", "timeout"},
		{toolA, "tcp", "127.0.0.1:9204", "timeout"},
	})
}

// TestSimultaneousOpen: two ends that dial each other at once, with neither listening, meet only if they are of one user.
func TestSimultaneousOpen(t *testing.T) {
	newPod(t)
	apply(t, plan())
	dropResets(t)
	meet := func(a, b uint32, portOfA, portOfB string) string {
		start(t, a, "both", "127.0.0.1:"+portOfA, "127.0.0.1:"+portOfB)
		_, result, _ := strings.Cut(ask(t, b, "both", "127.0.0.1:"+portOfB, "127.0.0.1:"+portOfA), "\n")
		return result
	}
	if got := meet(toolA, toolA, "9101", "9102"); got != "met 127.0.0.1:9101" {
		t.Errorf("one tool with itself: %s", got)
	}
	if got := meet(toolA, toolB, "9103", "9104"); got != "alone" {
		t.Errorf("two tools with each other: %s", got)
	}
}

// dropResets keeps the end that dials first waiting. Otherwise the two would have to dial within a few microseconds.
func dropResets(t *testing.T) {
	t.Helper()
	lab := &nftables.Table{Name: "lab", Family: nftables.TableFamilyINet}
	tamper(t, func(c *nftables.Conn) {
		chain := c.AddChain(&nftables.Chain{
			Name: "resets", Table: c.AddTable(lab), Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRaw,
		})
		var e exprs
		e.equal(meta(expr.MetaKeyL4PROTO), []byte{tcp})
		e.any(payload(expr.PayloadBaseTransportHeader, 13, 1), []byte{flagRST})
		e.action(Rule{Do: Drop})
		c.AddRule(&nftables.Rule{Table: lab, Chain: chain, Exprs: e})
	})
	t.Cleanup(func() { tamper(t, func(c *nftables.Conn) { c.DelTable(lab) }) })
}

// TestPlaceOfTheProxy: nobody else is given a tool's connections, also where the proxy does not listen.
func TestPlaceOfTheProxy(t *testing.T) {
	newPod(t)
	p := plan()
	p.Tools[0].Listener = netip.MustParseAddrPort("127.0.0.1:15011") // where no proxy is
	p.Tools[2].Listener = netip.MustParseAddrPort("127.0.0.1:3129")
	apply(t, p)
	try(t, []attempt{{toolA, "tcp", https4, "refused"}, {toolC, "tcp", "127.0.0.1:3129", "refused"}})
	start(t, toolB, "serve", "127.0.0.1:15011", "[::1]:15011", "127.0.0.1:3129")
	try(t, []attempt{
		{toolA, "tcp", https4, "timeout"},
		{toolA, "tcp", https6, "timeout"},
		{toolC, "tcp", "127.0.0.1:3129", "timeout"},
	})
}

// TestNameServer: with a port for a tool's queries, they go there, whichever server they were for. A tool without one asks nobody.
func TestNameServer(t *testing.T) {
	newPod(t)
	p := plan()
	p.Tools[0].DNS, p.Tools[2].DNS = dnsPort, dnsPort
	apply(t, p)
	try(t, []attempt{
		{toolA, "udp", dns4, "stub"},
		{toolC, "udp", "127.0.0.53:53", "stub"},
		{toolA, "tcp", dns4, "refused"}, // the stub of the lab listens on UDP only
		{toolA, "udp", https4, "prohibited"},
		{toolA, "udp", "127.0.0.1:15053", "prohibited"},
		{toolB, "udp", dns4, "prohibited"},
		{toolB, "udp", "127.0.0.1:15053", "prohibited"},
		{nobody, "udp", dns4, "prohibited"},
		{proxyUID, "udp", dns4, "world"},
	})
}

// TestPortThatTheProxyLeft: the kernel remembers a connection of the proxy's when its socket is closed. A tool that sends from the
// port that is free again, to the same place, goes on with it as far as the kernel knows.
func TestPortThatTheProxyLeft(t *testing.T) {
	newPod(t)
	p := plan()
	p.Tools[0].DNS, p.Tools[2].DNS = dnsPort, dnsPort
	apply(t, p)
	for i, to := range []string{dns4, dns6, https4} {
		port := strconv.Itoa(20000 + i) // below those that the kernel hands out
		want := ask(t, proxyUID, "dial", "udp", to, port)
		if to != https4 && want != "world" { // which does not listen there for UDP
			t.Fatalf("the proxy to %s: %s", to, want)
		}
		for _, uid := range []uint32{toolA, toolB, toolC, nobody} {
			if got := ask(t, uid, "dial", "udp", to, port); got != "prohibited" {
				t.Errorf("uid %d from the proxy's port %s to %s: %s", uid, port, to, got)
			}
		}
		if got := ask(t, proxyUID, "dial", "udp", to, port); got != want {
			t.Errorf("the proxy itself once more to %s: %s, before %s", to, got, want)
		}
	}
}

// TestIPv4Only: without IPv6 in the plan, nothing of it passes.
func TestIPv4Only(t *testing.T) {
	newPod(t)
	p := plan()
	p.IPv6 = false
	apply(t, p)
	try(t, []attempt{
		{toolA, "tcp", https4, "15001 " + https4},
		{toolA, "tcp", https6, "refused"},
		{proxyUID, "tcp", https4, "world"},
		{proxyUID, "tcp", https6, "refused"},
	})
}

// TestInbound: who comes from outside is answered; the fence is for what leaves.
func TestInbound(t *testing.T) {
	world := newPod(t)
	apply(t, plan())
	start(t, toolA, "serve", pod4+":9001", "["+pod6+"]:9001")
	for _, address := range []string{pod4 + ":9001", "[" + pod6 + "]:9001"} {
		if got := world.tell(t, address); got != "9001 "+address {
			t.Errorf("the world to %s: %s", address, got)
		}
	}
}

// TestUndo: a tool cannot take the rules out, and what it tried leaves them as they were.
func TestUndo(t *testing.T) {
	newPod(t)
	apply(t, plan())
	for _, uid := range []uint32{toolA, proxyUID} {
		if got := ask(t, uid, "undo"); got != "not permitted" {
			t.Errorf("Remove as uid %d: %s", uid, got)
		}
	}
	if err := Check(plan()); err != nil {
		t.Error(err)
	}
}

// TestHostNetwork: a machine's own network is not fenced in by mistake.
func TestHostNetwork(t *testing.T) {
	newPod(t)
	cmd, err := process(root, "host")
	must(t, err)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	if out, err := cmd.Output(); err != nil || string(out) != "the host's, done\n" {
		t.Errorf("%v: %s", err, out)
	}
}
