// Package bustest is a control plane for tests: an embedded NATS server with the log's streams, a signing key, heartbeats
// and answers, each of which a test can forge, hold back or take away.
//
// Limits: for tests only, since it links a NATS server, which the sidecar must not. It has no users, no quorum and no API.
// It imports killswitch/bus and killswitch/ledger; only tests may import it.
package bustest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Central is a control plane with one signing key.
type Central struct {
	testing.TB
	Signer *ledger.Signer
	Every  time.Duration // between heartbeats

	// Silent keeps it from sending heartbeats and from answering.
	Silent atomic.Bool
	// Skew is added to its clock, in nanoseconds.
	Skew atomic.Int64

	dir    string
	port   int
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	state  ledger.State
	rewind *ledger.Entry
}

// Start starts a control plane that ends with the test. every is the time between heartbeats; 0: none of itself. It signs
// with a key of its own unless it is given one.
func Start(t testing.TB, every time.Duration, signer ...*ledger.Signer) *Central {
	t.Helper()
	if len(signer) == 0 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signer = []*ledger.Signer{ledger.NewSigner(key)}
	}
	c := &Central{TB: t, Signer: signer[0], Every: every, dir: t.TempDir(), port: -1, state: ledger.State{Log: "log-" + rand.Text()}}
	t.Cleanup(c.Stop)
	c.Run()
	return c
}

// Keys trusts the control plane's key.
func (c *Central) Keys() ledger.Keys {
	keys, err := ledger.ParseKeys(c.Signer.PublicKey())
	if err != nil {
		c.Fatal(err)
	}
	return keys
}

// URL is where sidecars connect. It stays the same over Stop and Run.
func (c *Central) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(c.port) }

// Run starts it, again after Stop.
func (c *Central) Run() {
	c.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: c.port, JetStream: true, StoreDir: c.dir, NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		c.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(20 * time.Second) {
		c.Fatal("the NATS server does not start")
	}
	c.server, c.port = ns, ns.Addr().(*net.TCPAddr).Port
	if c.conn, err = nats.Connect(c.URL()); err != nil {
		c.Fatal(err)
	}
	if c.js, err = jetstream.New(c.conn); err != nil {
		c.Fatal(err)
	}
	c.Live(true)
	c.stream(jetstream.StreamConfig{
		Name: bus.CheckpointStream, Subjects: []string{bus.SubjectCheckpoint}, MaxMsgsPerSubject: bus.KeptCheckpoints, AllowDirect: true,
	})
	_, err = c.conn.QueueSubscribe(bus.SubjectSync, bus.QueueCentral, func(m *nats.Msg) {
		var q bus.SyncRequest
		if json.Unmarshal(m.Data, &q) == nil && !c.Silent.Load() {
			_ = m.Respond(c.Heartbeat(q.Nonce))
		}
	})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	if c.Every > 0 {
		c.done.Go(func() { c.beat(ctx) })
	}
}

// Live says whether entries that are stored from now on reach those who listen. Without it they are lost on the way.
func (c *Central) Live(on bool) {
	c.Helper()
	conf := jetstream.StreamConfig{Name: bus.Stream, Subjects: []string{bus.SubjectLog}, AllowDirect: true}
	if on {
		conf.RePublish = &jetstream.RePublish{Source: bus.SubjectLog, Destination: bus.SubjectLive}
	}
	c.stream(conf)
}

func (c *Central) stream(conf jetstream.StreamConfig) {
	c.Helper()
	if _, err := c.js.CreateOrUpdateStream(context.Background(), conf); err != nil {
		c.Fatal(err)
	}
}

func (c *Central) beat(ctx context.Context) {
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !c.Silent.Load() {
				_ = c.conn.Publish(bus.SubjectHeartbeat, c.Heartbeat(""))
			}
		}
	}
}

// Stop takes it away, as a network failure or a crash would. It may be called again.
func (c *Central) Stop() {
	if c.server == nil {
		return
	}
	c.stop()
	c.done.Wait()
	c.conn.Close()
	c.server.Shutdown()
	c.server.WaitForShutdown()
	c.server = nil
}

// Now is its clock.
func (c *Central) Now() time.Time {
	return time.Now().Add(time.Duration(c.Skew.Load())).Round(0).UTC()
}

// Heartbeat returns a signed heartbeat of this moment.
func (c *Central) Heartbeat(nonce string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &ledger.Heartbeat{
		Version: 1, Log: c.state.Log, Revision: c.state.Revision, Head: c.state.Head, At: c.Now(), Instance: "central-1", Nonce: nonce,
	}
	if c.rewind != nil {
		h.Revision, h.Head = c.rewind.Revision, c.rewind.Hash()
	}
	if err := c.Signer.SignHeartbeat(h); err != nil {
		c.Error(err)
	}
	return h.Encode()
}

// Rewind has it say that its log ends with e, as one that was restored from a backup does. Nil: what is so.
func (c *Central) Rewind(e *ledger.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rewind = e
}

// Entry signs the entry that follows the log, without appending it.
func (c *Central) Entry(fill func(*ledger.Entry)) *ledger.Entry {
	c.Helper()
	e := c.state.Next(c.Now())
	e.By = "responder@example.com"
	fill(e)
	if err := c.Signer.Sign(e); err != nil {
		c.Fatal(err)
	}
	return e
}

// Append signs an entry, stores it and so publishes it.
func (c *Central) Append(fill func(*ledger.Entry)) *ledger.Entry {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.Entry(fill)
	if _, err := c.js.Publish(context.Background(), bus.SubjectLog, e.Encode(), jetstream.WithExpectLastSequence(e.Revision-1)); err != nil {
		c.Fatal(err)
	}
	if err := c.state.Apply(e); err != nil {
		c.Fatal(err)
	}
	return e
}

// Revoke appends a revocation.
func (c *Central) Revoke(id string, s ledger.Selector) *ledger.Entry {
	c.Helper()
	return c.Append(func(e *ledger.Entry) { e.Op, e.ID, e.Selector, e.Reason = ledger.Revoke, id, &s, "test" })
}

// Restore appends a restoration.
func (c *Central) Restore(id string) *ledger.Entry {
	c.Helper()
	return c.Append(func(e *ledger.Entry) { e.Op, e.ID = ledger.Restore, id })
}

// Checkpoint signs and stores one of the present state.
func (c *Central) Checkpoint() *ledger.Checkpoint {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.state.Checkpoint(c.Now())
	if err := c.Signer.SignCheckpoint(p); err != nil {
		c.Fatal(err)
	}
	parts, err := bus.Parts(p.Encode(), bus.PartBytes)
	if err != nil {
		c.Fatal(err)
	}
	for _, part := range parts {
		if _, err := c.js.PublishMsg(context.Background(), &nats.Msg{Subject: bus.SubjectCheckpoint, Header: part.Header, Data: part.Data}); err != nil {
			c.Fatal(err)
		}
	}
	return p
}

// TornCheckpoint stores the beginning of one, as a control plane does that ends at that moment.
func (c *Central) TornCheckpoint() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.state.Checkpoint(c.Now())
	if err := c.Signer.SignCheckpoint(p); err != nil {
		c.Fatal(err)
	}
	parts, err := bus.Parts(p.Encode(), 1024)
	if err != nil || len(parts) < 2 {
		c.Fatalf("%d parts, %v", len(parts), err)
	}
	if _, err := c.js.PublishMsg(context.Background(), &nats.Msg{Subject: bus.SubjectCheckpoint, Header: parts[0].Header, Data: parts[0].Data}); err != nil {
		c.Fatal(err)
	}
}

// Conn is a connection that may publish anything, as a thief of credentials would wish.
func (c *Central) Conn() *nats.Conn { return c.conn }

// Publish sends raw bytes to a subject, and returns when the server has them.
func (c *Central) Publish(subject string, data []byte) {
	c.Helper()
	if err := c.conn.Publish(subject, data); err != nil {
		c.Fatal(err)
	}
	if err := c.conn.Flush(); err != nil {
		c.Fatal(err)
	}
}

// Address is host and port of URL.
func (c *Central) Address() string {
	u, err := url.Parse(c.URL())
	if err != nil {
		c.Fatal(err)
	}
	return u.Host
}
