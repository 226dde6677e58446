package broker

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// counter collects events; it may be asked from any goroutine.
type counter struct {
	mu     sync.Mutex
	events map[string]int
}

func (c *counter) observe(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		c.events = map[string]int{}
	}
	c.events[e.Name+" "+e.Result]++
}

func (c *counter) eventually(t *testing.T, event string, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(20 * time.Second); ; {
		c.mu.Lock()
		got := c.events[event]
		c.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%q came %d times in 20 s, want %d", event, got, n)
		}
	}
}

func revocable(t *testing.T, tokens *tokenServer, answer func(w http.ResponseWriter, r *http.Request, n int)) (*Broker, *Binding, *tokenServer, *counter) {
	t.Helper()
	revocations := newTokenServer(t, answer)
	bd := exchangeBinding(tokens.URL)
	bd.TokenExchange.RevocationURL = revocations.URL
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "client_secret_basic", ClientID: "toolgate", SecretFile: writeFile(t, "client-SECRET")}
	c := new(counter)
	b, found := mustNew(t, bd, Options{Observe: c.observe})
	return b, found, revocations, c
}

func TestDroppedTokensAreRevoked(t *testing.T) {
	b, bd, revocations, c := revocable(t, newTokenServer(t, nil), func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	bob := alice()
	bob.Subject = "user:bob"
	mustGet(t, b, bd, alice())
	mustGet(t, b, bd, bob)
	if n := b.Drop(func(k Key) bool { return k.Subject == "user:alice" }); n != 1 {
		t.Fatalf("dropped %d", n)
	}
	c.eventually(t, "revocation ok", 1)
	seen := revocations.seen()
	if len(seen) != 2 { // one was answered 503
		t.Fatalf("%d requests", len(seen))
	}
	for _, r := range seen {
		if r.form.Get("token") != issuedSecret || r.form.Get("token_type_hint") != "access_token" {
			t.Errorf("form %v", r.form)
		}
		if _, _, ok := (&http.Request{Header: r.header}).BasicAuth(); !ok {
			t.Error("without client authentication")
		}
	}
}

// The exchange has been made at the issuer when the revocation comes: the token is nobody's, and must not live on.
func TestTokenOfADroppedFlightIsRevoked(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	b, bd, revocations, c := revocable(t, newTokenServer(t, nil), nil)
	inner := b.bound[bd].issuer
	b.bound[bd].issuer = heedless{inner, arrived, release}
	done := make(chan error, 1)
	ctx, cut := context.WithCancel(t.Context())
	go func() {
		_, err := b.Credential(ctx, bd, alice())
		done <- err
	}()
	<-arrived
	cut()
	b.Drop(func(Key) bool { return true })
	if err := <-done; err == nil {
		t.Error("the call that was cut has a credential")
	}
	close(release)
	c.eventually(t, "revocation ok", 1)
	if got := revocations.seen()[0].form.Get("token"); got != issuedSecret {
		t.Errorf("revoked %q", got)
	}
}

// heedless goes on with an exchange that was cancelled, as one does whose answer has just come.
type heedless struct {
	Issuer
	arrived, release chan struct{}
}

func (h heedless) Issue(_ context.Context, s Subject) (*Credential, error) {
	close(h.arrived)
	<-h.release
	return h.Issuer.Issue(context.Background(), s)
}

// An issuer that does not answer neither holds up a revocation nor fills the memory.
func TestRevocationsAreBoundedAndNeverWait(t *testing.T) {
	release := make(chan struct{})
	b, bd, _, c := revocable(t, newTokenServer(t, nil), func(http.ResponseWriter, *http.Request, int) { <-release })
	t.Cleanup(func() { close(release) }) // before the server is closed, which waits for its answers
	r := b.revokers[bd.Name]
	cred := newCredential(Ref{}, "Authorization", "Bearer ", "x")
	for range maxRevocations + maxRevokers + 10 {
		r.push(cred, "acme")
	}
	c.eventually(t, "revocation dropped", 6)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) > maxRevocations || r.running > maxRevokers {
		t.Errorf("%d wait, %d run", len(r.pending), r.running)
	}
}

func TestRevocationResults(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		left   time.Duration // of the token
		want   string
	}{
		{"unknown there", http.StatusOK, time.Hour, "ok"},
		{"not supported", http.StatusBadRequest, time.Hour, "refused"},
		{"over by itself", http.StatusServiceUnavailable, 1500 * time.Millisecond, "expired"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, bd, _, c := revocable(t, newTokenServer(t, nil), func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(test.status) })
			b.revokers[bd.Name].push(newCredential(Ref{Expires: time.Now().Add(test.left)}, "Authorization", "Bearer ", "x"), "acme")
			c.eventually(t, "revocation "+test.want, 1)
		})
	}
}
