package broker

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// An issuer takes a token for longer than the cache gives it out. A revocation has to end those as well whose place another has taken.
func TestTokensBeforeAreRevoked(t *testing.T) {
	for name, next := range map[string]func(clk *clock, b *Broker, c *Credential){
		"kept for less than they live": func(clk *clock, _ *Broker, _ *Credential) { clk.advance(20 * time.Minute) },
		"refused by an upstream": func(clk *clock, b *Broker, c *Credential) {
			clk.advance(time.Minute)
			if !b.Forget(c) {
				t.Error("not forgotten")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			tokens := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, n int) {
				write(w, 200, fmt.Sprintf(`{"access_token":"token-%d","issued_token_type":%q,"token_type":"Bearer","expires_in":3000}`, n, typeAccessToken))
			})
			b, bd, revocations, c := revocableAt(t, clk, tokens)
			s := alice()
			s.Expiry = clk.now().Add(24 * time.Hour)
			for range 3 {
				mustGet(t, b, bd, s)
				next(clk, b, mustGet(t, b, bd, s))
			}
			if n := b.Drop(func(Key) bool { return true }); n != 1 {
				t.Errorf("dropped %d", n)
			}
			var want, got []string
			for i := range tokens.seen() {
				if name == "refused by an upstream" || i > 0 { // the first is over by itself
					want = append(want, fmt.Sprint("token-", i+1))
				}
			}
			c.eventually(t, "revocation ok", len(want))
			for _, r := range revocations.seen() {
				got = append(got, r.form.Get("token"))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("revoked %v, want %v", got, want)
			}
		})
	}
}

// Whoever is refused again and again leaves no more than a bounded number behind.
func TestTokensBeforeAreBounded(t *testing.T) {
	now := time.Now()
	var last *entry
	for i := range 10 * maxBefore {
		e := &entry{cred: fresh(fmt.Sprint(i), now.Add(time.Hour))}
		e.follow(last, now)
		last = e
	}
	n := 0
	for e := last.before; e != nil; e = e.before {
		n++
	}
	if n != maxBefore {
		t.Errorf("%d kept", n)
	}
	e := &entry{cred: fresh("new", now.Add(2*time.Hour))}
	if e.follow(last, now.Add(time.Hour)); e.before != nil {
		t.Error("what is over is kept")
	}
}

func revocableAt(t *testing.T, clk *clock, tokens *tokenServer) (*Broker, *Binding, *tokenServer, *counter) {
	t.Helper()
	revocations := newTokenServer(t, nil)
	bd := exchangeBinding(tokens.URL)
	bd.TokenExchange.RevocationURL = revocations.URL
	c := new(counter)
	b, found := mustNew(t, bd, Options{Observe: c.observe, Now: clk.now})
	return b, found, revocations, c
}

// Whoever explains a call must not leave a token behind each time.
func TestTriedTokenIsRevoked(t *testing.T) {
	b, bd, revocations, _ := revocableAt(t, newClock(), newTokenServer(t, nil))
	if trial := b.Try(t.Context(), bd, alice()); trial.Reason != "" || trial.Expires.IsZero() {
		t.Errorf("%+v", trial)
	}
	if seen := revocations.seen(); len(seen) != 1 || seen[0].form.Get("token") != issuedSecret {
		t.Errorf("revoked %v", seen)
	}
}

// A reload makes another broker. What the one before has issued is good at the issuer all the same.
func TestTokensOfEarlierBrokersAreRevoked(t *testing.T) {
	clk, tokens := newClock(), newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		write(w, 200, fmt.Sprintf(`{"access_token":"token-%d","issued_token_type":%q,"token_type":"Bearer","expires_in":3000}`, n, typeAccessToken))
	})
	var last *Broker
	var servers []*tokenServer
	for i := range maxEarlier + 2 {
		b, bd, revocations, _ := revocableAt(t, clk, tokens)
		b.Succeed(last)
		b.Succeed(b)
		if last = b; i > 0 { // the first has issued nothing, and need not be remembered
			mustGet(t, b, bd, alice())
		}
		servers = append(servers, revocations)
	}
	if n := last.Drop(func(k Key) bool { return k.Subject == "user:bob" }); n != 0 {
		t.Errorf("dropped %d of others", n)
	}
	if n := last.Drop(func(Key) bool { return true }); n != maxEarlier+1 {
		t.Errorf("dropped %d", n)
	}
	for i, s := range servers[1:] {
		eventually(t, func() bool { return len(s.seen()) == 1 })
		if got := s.seen()[0].form.Get("token"); got != fmt.Sprint("token-", i+1) {
			t.Errorf("%d: revoked %s", i, got)
		}
	}
	next, _, _, _ := revocableAt(t, clk, tokens)
	if next.Succeed(last); next.earlier != nil {
		t.Error("who has nothing left is remembered")
	}
}

// However often the configuration is loaded anew, a bounded number of brokers is remembered.
func TestEarlierBrokersAreBounded(t *testing.T) {
	clk, tokens := newClock(), newTokenServer(t, nil)
	var last *Broker
	for range 3 * maxEarlier {
		b, bd, _, _ := revocableAt(t, clk, tokens)
		b.Succeed(last)
		mustGet(t, b, bd, alice())
		last = b
	}
	n := 0
	for b := last.earlier; b != nil; b = b.earlier {
		n++
	}
	if n != maxEarlier {
		t.Errorf("%d are remembered", n)
	}
}
