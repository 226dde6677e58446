package central_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

const patience = 40 * time.Second

// lab is a NATS server on disk, and a signing key.
type lab struct {
	*testing.T
	dir    string
	listen string
	server *natsd.Server
	signer *ledger.Signer
	log    *slog.Logger
}

func newLab(t *testing.T) *lab {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	l := &lab{T: t, dir: t.TempDir(), listen: "127.0.0.1:0", signer: ledger.NewSigner(key), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	l.start()
	return l
}

func (l *lab) start() {
	l.Helper()
	s, err := natsd.Start(natsd.Options{Dir: l.dir, Listen: l.listen, Log: l.log})
	check(l, err)
	l.server, l.listen = s, strings.TrimPrefix(s.URL(), "nats://") // the same when it starts again
	l.Cleanup(s.Stop)
}

// replica is a running Service.
type replica struct {
	*central.Service
	conn *nats.Conn
	stop func()
}

func (l *lab) service(change func(*central.Options)) *replica {
	l.Helper()
	conn, err := l.server.Connect()
	check(l, err)
	return l.serviceOn(conn, change)
}

func (l *lab) serviceOn(conn *nats.Conn, change func(*central.Options)) *replica {
	l.Helper()
	o := central.Options{Conn: conn, Signer: l.signer, Log: l.log, WarmUp: time.Nanosecond}
	if change != nil {
		change(&o)
	}
	s, err := central.New(o)
	check(l, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r := &replica{Service: s, conn: conn, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			l.Error(err)
		}
		conn.Close()
	})}
	l.Cleanup(r.stop)
	return r
}

func (l *lab) ready(r *replica) *replica {
	l.Helper()
	eventually(l, "the service is ready", func() bool { return r.Ready() == nil })
	return r
}

// pod is a small sidecar: it follows the log by the bus and acknowledges.
type pod struct {
	*testing.T
	bus.Sidecar
	user string
	conn *nats.Conn
	keys ledger.Keys

	mu     sync.Mutex
	state  ledger.State
	last   []byte
	deaf   bool // hears nothing and says nothing
	calls  int
	denied []string // permission violations
}

func (l *lab) pod(instance string, tools ...string) *pod {
	l.Helper()
	return l.podAs("sidecar", natsd.SidecarCredentials(l.dir), instance, tools...)
}

func (l *lab) podAs(user, creds, instance string, tools ...string) *pod {
	l.Helper()
	conn, err := nats.Connect(l.server.URL(), nats.UserCredentials(creds), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	check(l, err)
	l.Cleanup(conn.Close)
	return l.podOn(conn, user, instance, tools...)
}

func (l *lab) podOn(conn *nats.Conn, user, instance string, tools ...string) *pod {
	l.Helper()
	keys, err := ledger.ParseKeys(l.signer.PublicKey())
	check(l, err)
	p := &pod{T: l.T, Sidecar: bus.Sidecar{Instance: instance, Pod: instance, Version: "test", Tools: tools}, user: user, keys: keys, conn: conn}
	conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.denied = append(p.denied, err.Error())
	})
	p.listen()
	return p
}

// connect returns a connection that only does what the test does.
func (l *lab) connect(creds string) *nats.Conn {
	l.Helper()
	conn, err := nats.Connect(l.server.URL(), nats.UserCredentials(creds))
	check(l, err)
	l.Cleanup(conn.Close)
	return conn
}

func (p *pod) listen() {
	p.Helper()
	for subject, f := range map[string]nats.MsgHandler{bus.SubjectLive: p.onLive, bus.SubjectProbe: p.onProbe, bus.SubjectHeartbeat: p.onHeartbeat} {
		_, err := p.conn.Subscribe(subject, f)
		check(p, err)
	}
	check(p, p.conn.Flush())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetch()
	p.say(bus.SubjectStatus(p.user, p.Instance), p.now())
}

func (p *pod) onLive(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf {
		return
	}
	e, err := p.keys.Decode(m.Data)
	if err != nil {
		p.Errorf("%s: %v", p.Instance, err)
		return
	}
	if err := p.apply(e, m.Data); errors.Is(err, &ledger.Error{Kind: ledger.Gap}) {
		p.fetch()
	}
}

func (p *pod) apply(e *ledger.Entry, b []byte) error {
	if err := p.state.Apply(e); err != nil {
		return err
	}
	p.last = append([]byte(nil), b...)
	p.say(bus.SubjectAck(p.user, p.Instance), bus.Ack{Sidecar: p.Sidecar, Revision: e.Revision, Head: p.state.Head, EffectIn: time.Millisecond})
	return nil
}

// runs sets how many calls are running.
func (p *pod) runs(calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = calls
}

func (p *pod) onProbe(m *nats.Msg) {
	var q bus.Probe
	check(p, json.Unmarshal(m.Data, &q))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(bus.SubjectAnswer(p.user, p.Instance), bus.Answer{Sidecar: p.Sidecar, ID: q.ID, Calls: p.calls})
}

// onHeartbeat says what it makes of a log that ends early, with proof.
func (p *pod) onHeartbeat(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.keys.DecodeHeartbeat(m.Data)
	if err != nil || p.deaf {
		return
	}
	var refusal *ledger.Error
	if errors.As(p.state.Compare(h), &refusal) && refusal.Kind == ledger.Gap {
		p.fetch()
		return
	}
	st := p.now()
	if refusal != nil {
		st.Refused, st.Proof = refusal.Kind, p.last
	}
	p.say(bus.SubjectStatus(p.user, p.Instance), st)
}

// fetch reads what is missing from the stream.
func (p *pod) fetch() {
	for {
		m, err := p.conn.Request("$JS.API.DIRECT.GET."+bus.Stream, []byte(`{"seq":`+strconv.FormatUint(p.state.Revision+1, 10)+`}`), 5*time.Second)
		if err != nil || m.Header.Get("Status") != "" {
			return
		}
		e, err := p.keys.Decode(m.Data)
		check(p, err)
		if p.apply(e, m.Data) != nil {
			return
		}
	}
}

// statusNow is for tests; whoever holds the lock asks now.
func (p *pod) statusNow() bus.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}

func (p *pod) now() bus.Status {
	return bus.Status{Sidecar: p.Sidecar, Revision: p.state.Revision, Head: p.state.Head}
}

func (p *pod) say(subject string, v any) {
	b, err := json.Marshal(v)
	check(p, err)
	if err := p.conn.Publish(subject, b); !errors.Is(err, nats.ErrConnectionClosed) { // which is the test's end
		check(p, err)
	}
}

// revoked returns the ids that are in force at the sidecar.
func (p *pod) revoked() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.state.Active() {
		ids = append(ids, r.ID)
	}
	return ids
}

func (p *pod) revision() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Revision
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func wantCode(t testing.TB, err error, c central.Code) {
	t.Helper()
	if !errors.Is(err, &central.Error{Code: c}) {
		t.Fatalf("got %v, want %s", err, c)
	}
}

var (
	alice = central.Principal{Name: "alice@example.com", Roles: []central.Role{central.Responder}}
	bob   = central.Principal{Name: "bob@example.com", Roles: []central.Role{central.Responder}}
	root  = central.Principal{Name: "root@example.com", Roles: []central.Role{central.Admin}}
)

func tool(name string) ledger.Selector { return ledger.Selector{Tool: []string{name}} }

func revoke(t testing.TB, r *replica, id string) *ledger.Entry {
	t.Helper()
	out, err := r.Revoke(t.Context(), alice, central.Request{ID: id, Selector: tool(id), Reason: "test"})
	check(t, err)
	return out.Entry
}
