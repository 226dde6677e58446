package central

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Right after the signing the whole fleet is waited for. What is said of it stays small, and the counts are of all.
func TestProgressNamesTheFirstOfTheSilent(t *testing.T) {
	now := time.Now()
	r := newRoster(func() time.Time { return now }, -time.Second, func(time.Duration) {})
	const fleet = maxSilent + 50
	for i := range fleet {
		who := bus.Sidecar{Instance: fmt.Sprint("i", i), Pod: fmt.Sprintf("pod-%03d", fleet-i)}
		r.status(sidecarKey{"sidecar", who.Instance}, &bus.Status{Sidecar: who})
	}
	r.begin(&ledger.Entry{Revision: 1, At: now}, true)
	p := r.progress(1)
	if p.Expected != fleet || p.Acked != 0 || len(p.Silent) != maxSilent || p.Silent[0].Pod != "pod-001" || p.Silent[maxSilent-1].Pod != "pod-100" {
		t.Fatalf("%d of %d, %d named, from %s", p.Acked, p.Expected, len(p.Silent), p.Silent[0].Pod)
	}
	for i := range fleet - 1 {
		who := bus.Sidecar{Instance: fmt.Sprint("i", i)}
		r.acked(sidecarKey{"sidecar", who.Instance}, &bus.Ack{Sidecar: who, Revision: 1})
	}
	if p := r.progress(1); p.Acked != fleet-1 || len(p.Silent) != 1 {
		t.Fatalf("%d of %d, %d named", p.Acked, p.Expected, len(p.Silent))
	}
}

// BenchmarkAck is what one acknowledgement costs the one goroutine that takes them.
func BenchmarkAck(b *testing.B) {
	const fleet = 10_000
	r := newRoster(time.Now, -time.Second, func(time.Duration) {})
	s := &Service{roster: r, watch: newWatchers()}
	acks := make([]*nats.Msg, fleet)
	for i := range acks {
		who := bus.Sidecar{Instance: rand.Text(), Pod: fmt.Sprint("refunds-6d5f9c7b4-", i), Namespace: "shop", Node: "node-17", Version: "1.2.3", Tools: []string{"draft_refund_request"}}
		r.status(sidecarKey{"sidecar", who.Instance}, &bus.Status{Sidecar: who})
		text, err := json.Marshal(bus.Ack{Sidecar: who, Revision: 1, Head: ledger.Hash("sha256:" + strings.Repeat("0", 64)), EffectIn: time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
		acks[i] = &nats.Msg{Subject: bus.SubjectAck("sidecar", who.Instance), Data: text}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%fleet == 0 {
			delete(r.tracked, 1)
			r.begin(&ledger.Entry{Revision: 1, At: time.Now()}, true)
		}
		s.onAck(acks[i%fleet])
	}
}
