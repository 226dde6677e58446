package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Options are what a Source is made of.
type Options struct {
	Servers         []string    // nats, tls, ws or wss URLs
	CredentialsFile string      // read again at each connection; empty: none
	CredentialsURL  string      // in place of CredentialsFile: where credentials are had for the token in TokenFile
	TokenFile       string      // such as a projected service-account token; read again each time
	CAFile          string      // roots in place of the system's, read again at each connection; set: TLS always
	CA              string      // in place of CAFile: the PEM text itself
	Keys            ledger.Keys // trusted at first; see Source.Trust
	StateDir        string      // empty: nothing outlives the process

	Name     string // of the source in Switch
	Switch   *killswitch.Switch
	MaxStale time.Duration  // the switch's; the control plane is asked well before
	Self     func() Sidecar // who speaks; Instance is filled in
	Log      *slog.Logger
	Observe  func(Event) // must be quick; may be nil
}

// Event is one thing to count.
type Event struct {
	Name   string        // "refused", "propagation", "ack", "state_write" or "credentials"
	Result string        // refused: the ledger.Kind; ack: "ok", "error", "dropped"; state_write and credentials: "ok", "error"
	Took   time.Duration // propagation: from signing to effect, by the signer's clock as estimated
}

// View is what a Source knows, for metrics and readiness.
type View struct {
	Revision  uint64
	Head      ledger.Hash
	Refused   ledger.Kind // the last refusal that still stands
	Connected bool

	proof []byte // see Status.Proof
}

// Source is the sidecar's end of the bus. It follows the signed log, puts what it revokes in force, and tells the control
// plane what became of it. Create it with New.
//
// One goroutine owns the log's state and never waits: for the network, for the disk or for whoever hears our answers.
type Source struct {
	o        Options
	instance string
	user     atomic.Pointer[string]
	conn     *nats.Conn
	inbox    string
	cancel   context.CancelFunc
	running  sync.WaitGroup
	view     atomic.Pointer[View]
	keys     atomic.Pointer[ledger.Keys] // that are trusted now
	leaving  atomic.Bool
	issued   *issued     // nil: credentials are in a file
	renewing atomic.Bool // we have closed a connection to open it with new credentials

	in     chan received
	up     chan struct{} // connected, for the first time or again
	out    chan outgoing
	probes chan *nats.Msg
	tell   chan struct{} // the status has changed
	disk   chan *saved   // the newest state, to be written

	hearing // owned by the goroutine of run
}

// New returns a source. What the state folder holds is verified and in force when it returns; a file that cannot be used is
// logged, set aside and counts as none. It contacts nobody before Start.
func New(o Options) *Source {
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	s := &Source{
		o: o, instance: rand.Text(), inbox: nats.NewInbox(),
		in: make(chan received, 16), up: make(chan struct{}, 1), out: make(chan outgoing, 64),
		probes: make(chan *nats.Msg, 4), tell: make(chan struct{}, 1), disk: make(chan *saved, 1),
		hearing: hearing{warned: map[ledger.Kind]bool{}},
	}
	s.Trust(o.Keys)
	s.name()
	s.load()
	s.show()
	return s
}

// name reads the user from the credentials file. Without a readable one the server admits nobody, and no subject matters.
func (s *Source) name() {
	if s.o.CredentialsURL != "" {
		return // see speaker
	}
	user, err := userOf(s.o.CredentialsFile)
	if err != nil {
		s.o.Log.Error("NATS credentials not usable", "file", s.o.CredentialsFile, "error", err)
		user = defaultUser
	}
	s.user.Store(&user)
}

// speaker is the user that we are to the server. Credentials that were issued are asked each time: the connection may be open before
// its handler has run.
func (s *Source) speaker() string {
	if s.issued != nil {
		return s.issued.user()
	}
	if user := s.user.Load(); user != nil {
		return *user
	}
	return defaultUser
}

// load puts in force what the last process has verified.
func (s *Source) load() {
	if s.o.StateDir == "" {
		return
	}
	if err := os.MkdirAll(s.o.StateDir, 0o700); err != nil {
		s.o.Log.Error("kill switch state folder cannot be made", "error", err)
		s.o.Observe(Event{Name: "state_write", Result: "error"})
	}
	state, kept, err := loadState(s.o.StateDir, s.o.Keys)
	switch {
	case errors.Is(err, ErrNoState):
		s.o.Log.Info("no saved kill switch state; tools of high and critical risk wait for the control plane")
		return
	case err != nil:
		s.o.Log.Error("saved kill switch state refused; no revocation is known until the control plane is reached", "error", err)
		path := filepath.Join(s.o.StateDir, StateFile)
		if err := os.Rename(path, path+".refused"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.o.Log.Error("kill switch state not set aside", "error", err)
		}
		return
	}
	s.state, s.kept, s.dirty, s.whole = *state, *kept, true, true
	s.enforce()
	s.o.Log.Info("saved kill switch state in force", "log_revision", s.state.Revision, "revocations", len(s.state.Active()))
}

// Start connects, and goes on trying for ever, until Close. Its error is one of the options.
func (s *Source) Start() error {
	if s.o.CredentialsURL != "" {
		var err error
		if s.issued, err = newIssued(&s.o); err != nil {
			return fmt.Errorf("kill switch: credentials: %w", err)
		}
	}
	conn, err := s.connect()
	if err != nil {
		return err
	}
	s.conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if err := s.subscribe(ctx); err != nil {
		cancel()
		conn.Close()
		return err
	}
	if s.issued != nil {
		s.running.Go(func() { s.issued.renew(ctx, s.renewed, s.notRenewed) })
	}
	s.running.Go(func() { s.hear(ctx) })
	s.running.Go(func() { s.speak(ctx) })
	s.running.Go(func() { s.persist(ctx) })
	return nil
}

// Close ends the source. What it has put in force stays.
func (s *Source) Close() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.conn.Close()
	s.running.Wait()
}

// View returns what is known now.
func (s *Source) View() View {
	v := *s.view.Load()
	v.Connected = s.conn != nil && s.conn.IsConnected()
	return v
}

// Trust replaces the keys that are trusted, for what is heard from now on. What was verified before stays in force until the process ends,
// also by a key that is trusted no more. The map is not changed afterwards.
func (s *Source) Trust(keys ledger.Keys) { s.keys.Store(&keys) }

// Changed says that what Self returns has changed.
func (s *Source) Changed() {
	select {
	case s.tell <- struct{}{}:
	default:
	}
}

// Leaving tells the control plane that this sidecar drains. Revocations go on until Close. It waits until that is sent, and
// no longer than ctx.
func (s *Source) Leaving(ctx context.Context) {
	s.leaving.Store(true)
	if s.conn == nil || !s.conn.IsConnected() {
		return
	}
	if s.publish(s.status()) == nil {
		_ = s.conn.FlushWithContext(ctx)
	}
}
