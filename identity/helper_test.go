package identity

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_800_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a verifier and the real issuer that it trusts, on one clock.
type world struct {
	*clock
	idp *devissuer.Issuer
	v   *Verifier
}

func newWorld(t testing.TB, change func(*Issuer), algorithms ...string) *world {
	t.Helper()
	w := &world{clock: newClock()}
	w.idp = startIssuer(t, w.clock, algorithms...)
	config := Issuer{URL: w.idp.URL(), Audiences: []string{"toolgate"}}
	if change != nil {
		change(&config)
	}
	w.v = newTestVerifier(t, w.clock, config)
	return w
}

func startIssuer(t testing.TB, c *clock, algorithms ...string) *devissuer.Issuer {
	t.Helper()
	idp, stop, err := devissuer.Start(devissuer.Options{Now: c.Now, Algorithms: algorithms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return idp
}

func newTestVerifier(t testing.TB, c *clock, configs ...Issuer) *Verifier {
	t.Helper()
	v, err := newVerifier(configs, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claims returns those of a good token with changes over them.
func claims(over map[string]any) map[string]any {
	c := map[string]any{"sub": "user:alice", "aud": "toolgate", "tenant": "acme", "agent_id": "helper", "task_id": "t-1", "run_id": "r-1", "scope": "orders:read refunds:draft"}
	for k, v := range over {
		c[k] = v
	}
	return c
}

func (w *world) mint(t testing.TB, over map[string]any) string {
	t.Helper()
	return w.mintWith(t, nil, over, "ES256")
}

func (w *world) mintWith(t testing.TB, header, over map[string]any, alg string) string {
	t.Helper()
	token, err := w.idp.MintWith(header, claims(over), alg)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// sign signs a payload that need not be JSON, with the issuer's own key.
func (w *world) sign(t testing.TB, payload string) string {
	t.Helper()
	return w.signAs(t, `{"alg":"ES256","kid":"`+w.kid()+`"}`, payload)
}

func (w *world) signAs(t testing.TB, header, payload string) string {
	t.Helper()
	token, err := w.idp.Sign([]byte(header), []byte(payload), "ES256")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *world) kid() string {
	for _, k := range w.idp.Keys().Keys {
		if k.Algorithm == "ES256" {
			return k.KeyID
		}
	}
	return ""
}

func (w *world) verify(token string) error {
	_, err := w.v.Verify(ctx, token)
	return err
}

func (w *world) fetches() int { return w.idp.Count(devissuer.PathJWKS) }

// settle waits until no fetch runs.
func (w *world) settle() {
	for _, iss := range w.v.order {
		for {
			iss.keys.mu.Lock()
			f := iss.keys.running
			iss.keys.mu.Unlock()
			if f == nil {
				break
			}
			<-f.done
		}
	}
}

// wantReason fails unless err is an InvalidError with the reason, and unless it keeps the token to itself.
func wantReason(t testing.TB, err error, reason, token string) {
	t.Helper()
	var bad *InvalidError
	if !errors.As(err, &bad) || bad.Reason != reason {
		t.Errorf("error %v, want reason %q", err, reason)
	}
	wantNoText(t, err, token)
}

func wantNoText(t testing.TB, err error, token string) {
	t.Helper()
	if err == nil {
		return
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 && strings.Contains(err.Error(), part[:8]) {
			t.Errorf("the error quotes the token: %v", err)
		}
	}
}
