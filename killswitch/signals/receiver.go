package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
)

// Options are what a Receiver works with.
type Options struct {
	Revoker Revoker
	Count   func(Outcome) // is called once for each event and alert; nil: nobody counts
	Log     *slog.Logger  // never told whom an event is about; nil: slog.Default()
}

// Receiver takes events and alerts. Make it with New. It is safe for concurrent use.
type Receiver struct {
	o             Options
	now           func() time.Time
	transmitters  map[string]*transmitter
	alertmanagers map[string]*Alertmanager
	slots         chan struct{} // bounds requests that are worked on at once
}

// transmitter is a Transmitter with its keys and what was heard of it.
type transmitter struct {
	config  Transmitter
	issuers []string // whose sub values may be used
	keys    *identity.Keys

	mu    sync.Mutex
	state Status
}

// Status is what is known of a transmitter. Times are zero for never.
type Status struct {
	Name     string
	Keys     identity.KeyStatus
	Heard    time.Time // the last accepted event
	Polled   time.Time // the last poll that was answered
	PollErr  string    // why the newest poll failed; empty when it did not
	Verified time.Time // the last verification event
	State    string    // its state, to be compared with what the verification was asked for with
	Stream   string    // the status that the last stream-updated event gave: enabled, paused, disabled
}

const (
	maxAtOnce  = 32
	effectTime = 10 * time.Second // for one revocation
)

// New returns a receiver that has contacted nobody. Errors name the part of c that cannot be used.
func New(c Config, o Options) (*Receiver, error) { return newReceiver(c, o, time.Now) }

func newReceiver(c Config, o Options, now func() time.Time) (*Receiver, error) {
	if o.Revoker == nil {
		return nil, errors.New("signals: no revoker")
	}
	r := &Receiver{o: o, now: now, transmitters: map[string]*transmitter{}, alertmanagers: map[string]*Alertmanager{}, slots: make(chan struct{}, maxAtOnce)}
	r.o.Log = cmp.Or(o.Log, slog.Default())
	for _, config := range c.Transmitters {
		t, err := newTransmitter(config)
		if err == nil && r.transmitters[config.Name] != nil {
			err = errors.New("given twice")
		}
		if err != nil {
			return nil, fmt.Errorf("transmitter %q: %w", config.Name, err)
		}
		r.transmitters[config.Name] = t
	}
	for _, a := range c.Alertmanagers {
		err := a.Check()
		if err == nil && r.alertmanagers[a.Name] != nil {
			err = errors.New("given twice")
		}
		if err != nil {
			return nil, fmt.Errorf("alertmanager %q: %w", a.Name, err)
		}
		r.alertmanagers[a.Name] = &a
	}
	return r, nil
}

func newTransmitter(c Transmitter) (*transmitter, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	// The type is what tells a SET from an access or ID token of the same issuer (RFC 8417, section 4.5).
	c.Keys.Types = []string{"secevent+jwt"}
	keys, err := identity.NewKeys(c.Keys)
	if err != nil {
		return nil, err
	}
	issuers := c.SubjectIssuers
	if len(issuers) == 0 {
		issuers = []string{c.Keys.URL}
	}
	return &transmitter{config: c, issuers: issuers, keys: keys, state: Status{Name: c.Name}}, nil
}

// acts reports whether any rule is about e.
func (t *transmitter) acts(e Event) bool {
	return slices.ContainsFunc(t.config.Rules, func(r Rule) bool { return slices.Contains(r.Events, e.rule()) })
}

// mapped returns the first rule for e that fits the subject.
func (t *transmitter) mapped(e Event, s subject) (*Rule, killswitch.Selector, error) {
	for i := range t.config.Rules {
		r := &t.config.Rules[i]
		if !slices.Contains(r.Events, e.rule()) {
			continue
		}
		if selector, ok := r.selector(s); ok {
			return r, selector, nil
		}
	}
	return nil, killswitch.Selector{}, refuse(Unmapped, "no rule fits the subject of this event")
}

// take verifies one SET, carries out what it asks for, and counts it. want is the jti that it must have; empty: any. The error is a
// refusal.
func (r *Receiver) take(ctx context.Context, t *transmitter, token, want string) (err error) {
	var d decision
	defer func() { r.done(t, &d, err) }()
	payload, err := t.open(ctx, token)
	if err != nil {
		return err
	}
	if d, err = t.decide(payload, r.now()); err != nil {
		return err
	}
	if want != "" && d.id != want {
		return refuse(Malformed, "the jti is not the one that the event was delivered under")
	}
	if d.result != Revoked {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	return fromRevoker(r.o.Revoker.Revoke(ctx, d.request))
}

// done counts and logs the outcome of a SET, of which the log names only the revocation.
func (r *Receiver) done(t *transmitter, d *decision, err error) {
	result := d.result
	level := slog.LevelInfo
	if err != nil {
		result, level = asRefusal(err).result, slog.LevelWarn
	}
	t.heard(d, err, r.now())
	event := string(cmp.Or(d.event, "other"))
	r.count(t.config.Name, event, result)
	attrs := []slog.Attr{slog.String("sender", t.config.Name), slog.String("event", event), slog.String("result", string(result))}
	if d.request.ID != "" {
		attrs = append(attrs, slog.String("id", d.request.ID))
	}
	if d.note != "" {
		attrs = append(attrs, slog.String("note", d.note))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	r.o.Log.LogAttrs(context.Background(), level, "security event", attrs...)
}

func (r *Receiver) count(sender, event string, result Result) {
	if r.o.Count != nil {
		r.o.Count(Outcome{sender, event, result})
	}
}

func (t *transmitter) heard(d *decision, err error, now time.Time) {
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Heard = now
	switch d.event {
	case verification:
		t.state.Verified, t.state.State = now, d.note
	case streamUpdated:
		t.state.Stream = d.note
	}
}

// Status returns what is known of each transmitter, by name. It contacts nobody.
func (r *Receiver) Status() []Status {
	out := []Status{}
	for _, t := range r.transmitters {
		t.mu.Lock()
		s := t.state
		t.mu.Unlock()
		s.Keys = t.keys.Status()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Handler serves POST /v1/signals/{name} for transmitters that push and POST /v1/alerts/{name} for Alertmanagers. It must be
// reached over TLS only, since bearer tokens cross it.
func (r *Receiver) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/signals/{name}", r.limited(r.push))
	mux.HandleFunc("POST /v1/alerts/{name}", r.limited(r.alerts))
	return mux
}

// limited turns away what would make more than maxAtOnce requests at once.
func (r *Receiver) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
			next(w, req)
		default:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}
