package signals

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/identity"
)

const (
	pushToken = "a-push-token-of-the-tests"
	pollToken = "a-poll-token-of-the-tests"
	audience  = "https://killswitch.example/v1/signals/idp"
	caep      = eventTypes + "caep/event-type/"
	risc      = eventTypes + "risc/event-type/"
	ssf       = eventTypes + "ssf/event-type/"
)

// ledger is a Revoker that keeps what it was asked, by id, as the control plane does.
type ledger struct {
	mu       sync.Mutex
	made     map[string]Request
	restored []string
	calls    int
	err      error // of the next calls
}

func (l *ledger) Revoke(ctx context.Context, r Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.err != nil {
		return l.err
	}
	if r.Selector.All || r.Selector.Validate() != nil || r.Reason == "" || r.By == "" || len(r.ID) > 64 {
		return ErrRefused
	}
	if before, ok := l.made[r.ID]; ok && !before.same(r) {
		return ErrTaken
	}
	l.made[r.ID] = r
	return ctx.Err()
}

func (r Request) same(o Request) bool {
	return r.Reason == o.Reason && r.Ticket == o.Ticket && r.Expires.Equal(o.Expires) && slices.Equal(r.Selector.Subject, o.Selector.Subject)
}

func (l *ledger) Restore(_ context.Context, id, _, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if _, ok := l.made[id]; !ok {
		return ErrUnknown
	}
	l.restored = append(l.restored, id)
	return nil
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// all returns what was revoked, by id.
func (l *ledger) all() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.made), func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
}

// world is a receiver behind TLS, with a real issuer.
type world struct {
	t       *testing.T
	idp     *devissuer.Issuer
	r       *Receiver
	web     *httptest.Server
	revoked *ledger
	tokens  string // folder of the token files
	now     time.Time

	mu     sync.Mutex
	counts map[Outcome]int
	logged bytes.Buffer
}

func rule(t testing.TB, fields string, events ...Event) Rule {
	t.Helper()
	r := Rule{Events: events}
	to := map[string]*Template{"subject": &r.Subject, "agent": &r.Agent, "tenant": &r.Tenant, "task": &r.Task, "run": &r.Run, "tool": &r.Tool}
	for field := range strings.FieldsSeq(fields) {
		name, text, _ := strings.Cut(field, "=")
		if name == "broader" {
			r.Broader = strings.Split(text, ",")
			continue
		}
		parsed, err := ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		*to[name] = parsed
	}
	return r
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, revoked: &ledger{made: map[string]Request{}}, tokens: t.TempDir(), now: time.Now(), counts: map[Outcome]int{}}
	idp, stop, err := devissuer.Start(devissuer.Options{Algorithms: []string{"ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.idp = idp
	user := rule(t, "subject=user:{email}", SessionRevoked, CredentialChange, AccountDisabled)
	user.Expires = 24 * time.Hour
	c := Config{
		Transmitters: []Transmitter{{
			Name: "idp", Keys: identity.Issuer{URL: idp.URL(), Audiences: []string{audience}},
			Push: &Push{w.write("push", pushToken)}, Rules: []Rule{user, rule(t, "subject={sub}", SessionRevoked)},
		}},
		Alertmanagers: []Alertmanager{{Name: "am", TokenFile: w.write("am", pushToken)}},
	}
	if change != nil {
		change(&c)
	}
	o := Options{Revoker: w.revoked, Count: w.count, Log: slog.New(slog.NewJSONHandler(&syncWriter{w: w}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if w.r, err = newReceiver(c, o, func() time.Time { return w.now }); err != nil {
		t.Fatal(err)
	}
	w.web = httptest.NewTLSServer(w.r.Handler())
	t.Cleanup(w.web.Close)
	return w
}

type syncWriter struct{ w *world }

func (s *syncWriter) Write(b []byte) (int, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.logged.Write(b)
}

func (w *world) count(o Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[o]++
}

func (w *world) counted(event string, r Result) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for o, count := range w.counts {
		if o.Event == event && o.Result == r {
			n += count
		}
	}
	return n
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	file := filepath.Join(w.tokens, name)
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

type claimSet = map[string]any

func email(address string) claimSet { return claimSet{"format": "email", "email": address} }

// set signs a good SET with changes over its claims.
func (w *world) set(over claimSet) string { return w.setWith(nil, over, "ES256") }

func (w *world) setWith(header, over claimSet, alg string) string {
	w.t.Helper()
	h := claimSet{"typ": "secevent+jwt"}
	maps.Copy(h, header)
	claims := claimSet{
		"exp": nil, "aud": audience, "iat": w.now.Unix() - 60, "sub_id": email("alice@example.com"),
		"events": claimSet{caep + "session-revoked": claimSet{"reason_admin": claimSet{"en": "impossible travel"}}},
	}
	maps.Copy(claims, over)
	token, err := w.idp.MintWith(h, claims, alg)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// push posts a SET as a transmitter does and returns the status and the body.
func (w *world) push(set string, change ...func(*http.Request)) (int, string) {
	w.t.Helper()
	return w.post("/v1/signals/idp", "application/secevent+jwt", set, change...)
}

func (w *world) post(path, media, body string, change ...func(*http.Request)) (int, string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Authorization", "Bearer "+pushToken)
	for _, c := range change {
		c(req)
	}
	res, err := w.web.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

var errDown = errors.New("the store is down")

func devFaults(status int) devissuer.Faults { return devissuer.Faults{JWKSStatus: status} }
