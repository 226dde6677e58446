package proxy

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/egress"
)

// decisionCall is one allowed target of a tool.
type decisionCall struct {
	tool   string
	target egress.Target
}

// decisionLoad is a configuration of that many manifests and calls that it allows. One tool lists all the domains, the others ten
// each. Half of the calls are the wide tool's, so that neither size is out of sight.
func decisionLoad(t testing.TB, manifests, domains int) (*Gates, []decisionCall) {
	t.Helper()
	s := &config.Snapshot{Mode: config.Enforce, Tools: map[string]*config.Tool{}}
	name := func(tool int) string { return fmt.Sprintf("tool-%d", tool) }
	for i := range manifests {
		n := 10
		if i == 0 {
			n = domains
		}
		s.Tools[name(i)] = &config.Tool{Name: name(i), Policy: decisionPolicy(t, n)}
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range min(manifests, 100) {
		s.Bindings = append(s.Bindings, broker.Binding{
			Name: fmt.Sprintf("binding-%d", i), Tools: []string{name(i)}, Targets: []string{"bound.example:443"},
			Static: &broker.Static{File: key, Header: "X-Api-Key"},
		})
	}
	b, err := broker.New(s.Bindings, broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]decisionCall, 4096)
	for i := range calls {
		tool, n := 0, domains
		if i%2 == 1 {
			tool, n = i*7919%manifests, 10
		}
		host := fmt.Sprintf("api-%d.svc.example", i*104729%n)
		if i*104729%n%2 == 1 {
			host = fmt.Sprintf("a.b.cdn-%d.example", i*104729%n)
		}
		calls[i] = decisionCall{name(tool), egress.Target{Scheme: "https", Host: host, Port: 443, Method: "GET", Path: "/v1/orders/42"}}
	}
	return &Gates{snapshot: s, broker: b, addresses: &egress.Addresses{}}, calls
}

// decisionPolicy allows n domains, every other one a wildcard, and narrows the first one by method and path.
func decisionPolicy(t testing.TB, n int) *egress.Policy {
	t.Helper()
	var allowed []egress.Pattern
	for i := range n {
		text := fmt.Sprintf("api-%d.svc.example", i)
		if i%2 == 1 {
			text = fmt.Sprintf("*.cdn-%d.example", i)
		}
		var p egress.Pattern
		if err := p.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, p)
	}
	var path egress.PathPattern
	if err := path.UnmarshalText([]byte("/v1/orders/*")); err != nil {
		t.Fatal(err)
	}
	return egress.NewPolicy(allowed, []egress.Rule{{Host: allowed[0], Methods: []string{"GET"}, Paths: []egress.PathPattern{path}}})
}

// run takes the part of the decision that grows with the configuration: tool, egress policy, binding.
func (d decisionCall) run(c *call) *Denial {
	c.target, c.tool = d.target, c.gates.snapshot.Tools[d.tool]
	if denial := c.judgeEgress(); denial != nil {
		return denial
	}
	return c.chooseBinding()
}

// BenchmarkDecision is the decision by the size of the configuration, in CPU time of the process as well. The bench module reads its output.
func BenchmarkDecision(b *testing.B) {
	for _, size := range [][2]int{{10, 100}, {100, 1000}, {1000, 10_000}} {
		b.Run(fmt.Sprintf("manifests=%d/domains=%d", size[0], size[1]), func(b *testing.B) {
			gates, calls := decisionLoad(b, size[0], size[1])
			c := &call{gates: gates, asked: &ask{}}
			b.ReportAllocs()
			runtime.GC() // what is left of the preparation must not be charged to the decisions
			before, i := processCPU(b), 0
			for ; b.Loop(); i++ {
				if d := calls[i%len(calls)].run(c); d != nil {
					b.Fatal(calls[i%len(calls)], d.Code)
				}
			}
			b.ReportMetric(float64(processCPU(b)-before)/float64(i), "cpu-ns/op")
		})
	}
}

func TestDecisionDoesNotAllocate(t *testing.T) {
	gates, calls := decisionLoad(t, 10, 100)
	c, i := &call{gates: gates, asked: &ask{}}, 0
	allocs := testing.AllocsPerRun(1000, func() {
		if d := calls[i%len(calls)].run(c); d != nil {
			t.Fatal(calls[i%len(calls)], d.Code)
		}
		i++
	})
	if allocs > 0 {
		t.Errorf("a decision makes %v allocations", allocs)
	}
}

// BenchmarkLeaf is the leaf of a new host, in CPU time as well. The bench module reads its output.
func BenchmarkLeaf(b *testing.B) {
	ca, err := NewCA()
	if err != nil {
		b.Fatal(err)
	}
	l := newLeaves(ca)
	b.ReportAllocs()
	before := processCPU(b)
	i := 0
	for ; b.Loop(); i++ {
		if _, err := l.get(fmt.Sprintf("host-%d.example", i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processCPU(b)-before)/float64(i), "cpu-ns/op")
}

func processCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A client that missed the cache just before the leaf was put there comes to mint when the flight is over.
func TestLateClientGetsTheSameLeaf(t *testing.T) {
	ca, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	l := newLeaves(ca)
	first, err := l.get("api.ok.test")
	if err != nil {
		t.Fatal(err)
	}
	if late, err := l.mint("api.ok.test"); err != nil || late != first {
		t.Errorf("a second leaf was minted, error %v", err)
	}
}

func TestOneLeafForManyClients(t *testing.T) {
	ca, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	l := newLeaves(ca)
	got := make([]*tls.Certificate, 1000)
	var clients sync.WaitGroup
	for i := range got {
		clients.Go(func() { got[i], _ = l.get("api.ok.test") })
	}
	clients.Wait()
	for i, c := range got {
		if c == nil || c != got[0] {
			t.Fatalf("client %d got another leaf than the first", i)
		}
	}
}
