package bus_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// side is a sidecar's kill switch with its source.
type side struct {
	*bus.Source
	kill *killswitch.Switch
	log  *lines

	mu     sync.Mutex
	events map[string]int // by name and result
	slow   time.Duration  // the longest propagation
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func open(t *testing.T, c *bustest.Central, maxStale time.Duration, more ...func(*bus.Options)) *side {
	t.Helper()
	s := &side{kill: killswitch.New(maxStale, "nats"), log: new(lines), events: map[string]int{}}
	o := bus.Options{
		Servers: []string{c.URL()}, Keys: c.Keys(), Name: "nats", Switch: s.kill, MaxStale: maxStale,
		Self: func() bus.Sidecar { return bus.Sidecar{Version: "test", Tools: []string{"orders"}} },
		Log:  slog.New(slog.NewTextHandler(s.log, nil)),
		Observe: func(e bus.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events[strings.TrimSuffix(e.Name+" "+e.Result, " ")]++
			s.slow = max(s.slow, e.Took)
		},
	}
	for _, m := range more {
		m(&o)
	}
	s.Source = bus.New(o)
	return s
}

func begin(t *testing.T, c *bustest.Central, maxStale time.Duration, more ...func(*bus.Options)) *side {
	t.Helper()
	s := open(t, c, maxStale, more...)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *side) count(event string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[event]
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func (s *side) revoked(tool string) bool {
	var tripped *killswitch.Tripped
	return errors.As(s.kill.Check(killswitch.Scope{Tool: tool, Risk: "low"}), &tripped)
}

func (s *side) stale() bool {
	var stale *killswitch.Stale
	return errors.As(s.kill.Check(killswitch.Scope{Tool: "nobody", Risk: "high"}), &stale)
}

func (s *side) inSync(t *testing.T) {
	t.Helper()
	eventually(t, "in sync", func() bool { return !s.stale() })
}

func tool(name string) ledger.Selector { return ledger.Selector{Tool: []string{name}} }

func TestRevokeCutsAndRestores(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	acks := subscribe(t, c, bus.AllAcks)
	s := begin(t, c, time.Minute)
	if !s.stale() {
		t.Fatal("not stale before the control plane was heard")
	}
	s.inSync(t)
	ctx, end, err := s.kill.Guard(t.Context(), killswitch.Scope{Tool: "orders", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	defer end(nil)
	began := time.Now()
	e := c.Revoke("r1", tool("orders"))
	select {
	case <-ctx.Done():
		t.Logf("cut %v after the revocation was asked for", time.Since(began))
	case <-time.After(10 * time.Second):
		t.Fatal("the running call was not cut")
	}
	var ack bus.Ack
	next(t, acks, &ack)
	if ack.Revision != 1 || ack.Head != e.Hash() || ack.Cut != 1 || ack.EffectIn <= 0 || ack.EffectIn > time.Minute || ack.Instance == "" || ack.Version != "test" {
		t.Errorf("acknowledged %+v", ack)
	}
	c.Restore("r1")
	eventually(t, "restored", func() bool { return !s.revoked("orders") })
	eventually(t, "counted", func() bool { return s.count("ack ok") == 2 && s.count("propagation") == 2 })
	if s.slow > 10*time.Second {
		t.Errorf("propagation took %v", s.slow)
	}
}

func subscribe(t *testing.T, c *bustest.Central, subject string) *nats.Subscription {
	t.Helper()
	sub, err := c.Conn().SubscribeSync(subject)
	if err == nil {
		err = c.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func next(t *testing.T, sub *nats.Subscription, v any) {
	t.Helper()
	m, err := sub.NextMsg(20 * time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A sidecar that was away for a day misses more entries than one request brings, and has the log from its beginning, since
// no checkpoint is there. Its first effect is the whole.
func TestManyEntriesMissing(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	for i := range 1300 {
		c.Revoke(fmt.Sprint("r", i), tool(fmt.Sprint("t", i)))
	}
	s := begin(t, c, time.Minute)
	s.inSync(t)
	if !s.revoked("t0") || !s.revoked("t1299") || s.View().Revision != 1300 {
		t.Fatalf("in sync at revision %d", s.View().Revision)
	}
	if n := s.count("ack ok"); n > 100 {
		t.Errorf("%d acknowledgements of old entries", n)
	}
}

func TestBeginsWithTheCheckpointAndFollows(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	for i := range 20 {
		c.Revoke(fmt.Sprint("r", i), tool(fmt.Sprint("t", i)))
	}
	c.Restore("r3")
	c.Checkpoint()
	c.Revoke("later", tool("later"))
	s := begin(t, c, time.Minute)
	s.inSync(t)
	if !s.revoked("t0") || s.revoked("t3") || !s.revoked("later") {
		t.Error("the checkpoint and what came after it are not in force")
	}
}

// Live messages that are lost, doubled or out of order change nothing but the way by which entries come.
func TestLostDoubledAndReordered(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	s := begin(t, c, time.Minute)
	s.inSync(t)
	one := c.Revoke("r1", tool("a"))
	eventually(t, "r1", func() bool { return s.revoked("a") })
	for range 3 {
		c.Publish(bus.SubjectLive, one.Encode())
	}
	eventually(t, "the double is refused", func() bool { return s.count("refused behind") == 3 })

	// Lost on the way, and nothing comes after it: a heartbeat tells.
	c.Live(false)
	c.Revoke("lost", tool("lost"))
	eventually(t, "what was lost is fetched", func() bool { return s.revoked("lost") })
	// Lost, and the next one arrives.
	c.Silent.Store(true)
	c.Revoke("lost2", tool("lost2"))
	c.Live(true)
	c.Revoke("after", tool("after"))
	eventually(t, "both", func() bool { return s.revoked("lost2") && s.revoked("after") })
	if s.count("refused gap") == 0 {
		t.Error("no gap was seen")
	}
	c.Silent.Store(false)

	two := c.Revoke("r2", tool("b"))
	three := c.Revoke("r3", tool("c"))
	c.Publish(bus.SubjectLive, three.Encode())
	c.Publish(bus.SubjectLive, two.Encode())
	eventually(t, "both", func() bool { return s.revoked("b") && s.revoked("c") })
	eventually(t, "in sync", func() bool { return s.View().Refused == "" })
	if s.View().Head != three.Hash() {
		t.Error("another head")
	}
}

// TestTrust: keys are replaced while the source runs, for what is heard from then on.
func TestTrust(t *testing.T) {
	c, other := bustest.Start(t, 50*time.Millisecond), bustest.Start(t, 0)
	s := begin(t, c, time.Minute, func(o *bus.Options) { o.Keys = other.Keys() })
	c.Revoke("r1", tool("a"))
	eventually(t, "refused", func() bool { return s.View().Refused == ledger.UnknownKey })
	s.Trust(c.Keys())
	eventually(t, "r1", func() bool { return s.revoked("a") && s.View().Refused == "" })
	s.Trust(other.Keys())
	before := s.count("refused unknown_key")
	c.Revoke("r2", tool("b"))
	eventually(t, "refused again", func() bool { return s.count("refused unknown_key") > before })
	if !s.revoked("a") || s.revoked("b") {
		t.Error("what was verified is gone, or what was not is in force")
	}
}

func TestForgedAndForeign(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	thief := bustest.Start(t, 0) // has a key of its own, and stolen credentials for the bus
	s := begin(t, c, time.Minute)
	c.Revoke("r1", tool("a"))
	s.inSync(t)
	eventually(t, "r1", func() bool { return s.revoked("a") })

	forged := c.Entry(func(e *ledger.Entry) { e.Op, e.ID = ledger.Restore, "r1" })
	forged.ID = "r1 "
	own := thief.Entry(func(e *ledger.Entry) { e.Op, e.ID = ledger.Restore, "r1" })
	for kind, b := range map[ledger.Kind][]byte{
		ledger.Forged: forged.Encode(), ledger.UnknownKey: own.Encode(), ledger.Malformed: []byte(`{"v":1}`),
	} {
		c.Publish(bus.SubjectLive, b)
		eventually(t, string(kind), func() bool { return s.count("refused "+string(kind)) == 1 })
	}
	c.Publish(bus.SubjectHeartbeat, thief.Heartbeat(""))
	eventually(t, "the forged heartbeat is refused", func() bool { return s.count("refused unknown_key") == 2 })
	if !s.revoked("a") {
		t.Error("the revocation is gone")
	}
	eventually(t, "in sync again", func() bool { return s.View().Refused == "" })
	if s.log.count("kind=forged") != 1 {
		t.Errorf("the forged entry was logged %d times", s.log.count("kind=forged"))
	}
}

// A heartbeat that is heard again proves nothing, whoever sends it and as often as he likes.
func TestReplayedHeartbeats(t *testing.T) {
	const maxStale = time.Second
	c := bustest.Start(t, 0)
	s := begin(t, c, maxStale)
	s.inSync(t)
	old := c.Heartbeat("")
	c.Publish(bus.SubjectHeartbeat, old)
	c.Silent.Store(true)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				_ = c.Conn().Publish(bus.SubjectHeartbeat, old)
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	eventually(t, "stale in spite of the replays", s.stale)
	eventually(t, "counted", func() bool { return s.count("refused replayed") > 10 })
	if n := s.log.count("kind=replayed"); n > 2 {
		t.Errorf("%d lines about replays", n)
	}
	c.Silent.Store(false)
	s.inSync(t)
}

// An older copy of the log is not followed, and the sidecar that sees one goes stale.
func TestRollbackAndFork(t *testing.T) {
	const maxStale = time.Second
	c := bustest.Start(t, 50*time.Millisecond)
	s := begin(t, c, maxStale)
	six := c.Revoke("r6", tool("a"))
	seven := c.Revoke("r7", tool("b"))
	eventually(t, "both", func() bool { return s.revoked("a") && s.revoked("b") })
	s.inSync(t)
	c.Publish(bus.SubjectLive, six.Encode())
	eventually(t, "the older entry is refused", func() bool { return s.count("refused behind") > 0 })

	// A control plane that was restored from a backup, with the same key: its log ends before ours.
	statuses := subscribe(t, c, bus.AllStatuses)
	c.Rewind(six)
	eventually(t, "a rollback is seen", func() bool { return s.View().Refused == ledger.Rollback })
	eventually(t, "stale", s.stale)
	proves(t, c, statuses, ledger.Rollback, seven)
	c.Silent.Store(true)
	fork := *seven
	fork.ID, fork.Signature = "other", ledger.Signature{}
	if err := c.Signer.Sign(&fork); err != nil {
		t.Fatal(err)
	}
	c.Publish(bus.SubjectLive, fork.Encode())
	eventually(t, "a fork is seen", func() bool { return s.View().Refused == ledger.Fork })
	proves(t, c, statuses, ledger.Fork, seven)
	if !s.revoked("a") || !s.revoked("b") || s.revoked("other") {
		t.Error("what was revoked has changed")
	}
	if s.log.count("kind=fork") != 1 || s.log.count("kind=rollback") != 1 {
		t.Errorf("not logged once each:\n%s", s.log.b.String())
	}
}

// proves waits for a status that refuses and proves what was signed as e.
func proves(t *testing.T, c *bustest.Central, statuses *nats.Subscription, refused ledger.Kind, e *ledger.Entry) {
	t.Helper()
	var st bus.Status
	for next(t, statuses, &st); st.Refused != refused; next(t, statuses, &st) {
	}
	if signed, err := c.Keys().Decode(st.Proof); err == nil {
		if signed.Hash() != e.Hash() {
			t.Errorf("the proof is entry %d", signed.Revision)
		}
		return
	}
	if h, err := c.Keys().DecodeHeartbeat(st.Proof); err != nil || h.Revision != e.Revision || h.Head != e.Hash() {
		t.Errorf("the proof %s: %v", st.Proof, err)
	}
}

// A sidecar that was started with a saved state, and agreed with nobody since, proves by what it has saved: an entry, or
// the checkpoint.
func TestProofFromTheSavedState(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		c := bustest.Start(t, 50*time.Millisecond)
		statuses := subscribe(t, c, bus.AllStatuses)
		one := c.Revoke("r1", tool("a"))
		two := c.Revoke("r2", tool("b"))
		if checkpoint {
			c.Checkpoint()
		}
		dir, _ := savedState(t, c)
		c.Rewind(one)
		s := begin(t, c, time.Minute, inDir(dir))
		eventually(t, "a rollback is seen", func() bool { return s.View().Refused == ledger.Rollback })
		var st bus.Status
		for next(t, statuses, &st); st.Refused == ""; next(t, statuses, &st) {
		}
		log, revision, head := "", uint64(0), ledger.Hash("")
		if p, err := c.Keys().DecodeCheckpoint(st.Proof); err == nil && checkpoint {
			log, revision, head = p.Log, p.Revision, p.Head
		} else if e, err := c.Keys().Decode(st.Proof); err == nil && !checkpoint {
			log, revision, head = e.Log, e.Revision, e.Hash()
		}
		if log != two.Log || revision != 2 || head != two.Hash() {
			t.Errorf("checkpoint %v: the proof %s", checkpoint, st.Proof)
		}
		s.Close()
		c.Stop()
	}
}

// A replica that has not read the newest entry yet says that the log ends before it. That is no rollback, however its clock
// stands: whoever is asked afterwards knows better.
func TestALateReplicaIsNoRollback(t *testing.T) {
	c := bustest.Start(t, 0)
	asked := subscribe(t, c, bus.SubjectSync)
	s := begin(t, c, time.Minute)
	one := c.Revoke("r1", tool("a"))
	c.Revoke("r2", tool("b"))
	eventually(t, "both", func() bool { return s.revoked("a") && s.revoked("b") })
	s.inSync(t)
	for { // what was asked until now
		if _, err := asked.NextMsg(2 * time.Second); err != nil {
			break
		}
	}
	late := ledger.Heartbeat{Version: 1, Log: one.Log, Revision: 1, Head: one.Hash(), At: c.Now().Add(7 * time.Second), Instance: "late"}
	if err := c.Signer.SignHeartbeat(&late); err != nil {
		t.Fatal(err)
	}
	c.Publish(bus.SubjectHeartbeat, late.Encode())
	var q bus.SyncRequest
	next(t, asked, &q)
	three := c.Revoke("r3", tool("c"))
	eventually(t, "in sync at the next one", func() bool { return s.View().Head == three.Hash() })
	if s.View().Refused != "" || s.count("refused rollback") != 0 {
		t.Error("a rollback was reported")
	}
}

// A clock that is two hours off, ours or the signer's, neither ends a revocation early nor keeps it.
func TestExpiryByTheSignersClock(t *testing.T) {
	for _, skew := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			c := bustest.Start(t, 50*time.Millisecond)
			c.Skew.Store(int64(skew))
			s := begin(t, c, time.Minute)
			s.inSync(t)
			c.Append(func(e *ledger.Entry) {
				e.Op, e.ID, e.Selector, e.Expires = ledger.Revoke, "long", &ledger.Selector{Tool: []string{"long"}}, e.At.Add(time.Hour)
			})
			c.Append(func(e *ledger.Entry) {
				e.Op, e.ID, e.Selector, e.Expires = ledger.Revoke, "short", &ledger.Selector{Tool: []string{"short"}}, e.At.Add(2*time.Second)
			})
			eventually(t, "both in force", func() bool { return s.revoked("short") && s.revoked("long") })
			eventually(t, "the short one has expired", func() bool { return !s.revoked("short") })
			if !s.revoked("long") {
				t.Error("the long one has expired as well")
			}
		})
	}
}

func TestStatusProbeAndLeaving(t *testing.T) {
	c := bustest.Start(t, 50*time.Millisecond)
	statuses, replies := subscribe(t, c, bus.AllStatuses), subscribe(t, c, bus.AllAnswers)
	s := begin(t, c, time.Minute)
	s.inSync(t)
	_, end, err := s.kill.Guard(t.Context(), killswitch.Scope{Tool: "orders", Tenant: "acme", Risk: "low"})
	if err != nil {
		t.Fatal(err)
	}
	defer end(nil)
	var st bus.Status
	next(t, statuses, &st)
	if st.Revision != 0 || !slices.Equal(st.Tools, []string{"orders"}) || st.Leaving {
		t.Errorf("status %+v", st)
	}
	probe, _ := json.Marshal(bus.Probe{ID: "p1", Selector: ledger.Selector{Tenant: []string{"acme"}}})
	c.Publish(bus.SubjectProbe, probe)
	var a bus.Answer
	next(t, replies, &a)
	if a.ID != "p1" || a.Calls != 1 || a.Instance != st.Instance {
		t.Errorf("answer %+v", a)
	}
	s.Leaving(t.Context())
	for !st.Leaving {
		next(t, statuses, &st)
	}
	if !slices.Equal(st.Running, []bus.Running{{Tool: "orders", Tenant: "acme", Calls: 1}}) {
		t.Errorf("running %+v", st.Running)
	}
}
