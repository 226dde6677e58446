package broker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/redact"
)

func vaultBinding(t testing.TB, v *vaultServer, change func(*Vault)) Binding {
	conf := Vault{
		Address: v.URL + "/", Namespace: vaultNamespace, Role: "toolgate", TokenFile: writeFile(t, workloadJWT),
		Mount: "secret", Path: "orders/api", Field: "key", Header: "X-Api-Key",
	}
	if change != nil {
		change(&conf)
	}
	return Binding{Name: "vaulted", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"}, Vault: &conf}
}

func dynamic(c *Vault) {
	c.Mount, c.Path, c.Field, c.Header, c.UserField, c.PasswordField = "", "database/creds/orders", "", "", "username", "password"
}

// later holds what a binding's leases have put off, for a test to run.
type later struct {
	mu sync.Mutex
	in []time.Duration
	f  []func()
}

func (l *later) after(d time.Duration, f func()) *time.Timer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in, l.f = append(l.in, d), append(l.f, f)
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// next returns when the last one that was put off is due, and what it is.
func (l *later) next(t *testing.T) (time.Duration, func()) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.f) == 0 {
		t.Fatal("nothing was put off")
	}
	return l.in[len(l.in)-1], l.f[len(l.f)-1]
}

// newVaultBroker returns a broker whose time is the server's.
func newVaultBroker(t *testing.T, v *vaultServer, change func(*Vault)) (*Broker, *Binding, *later, *counter) {
	t.Helper()
	seen := new(counter)
	b, bd := mustNew(t, vaultBinding(t, v, change), Options{Now: v.clock.now, Observe: seen.observe})
	l := new(later)
	b.bound[bd].issuer.(*vault).leases.after = l.after
	return b, bd, l, seen
}

// longAlice is a caller whose token outlives what tests wait for.
func longAlice() Subject {
	s := alice()
	s.Expiry = s.Expiry.Add(100 * time.Hour)
	return s
}

func TestVaultIssuer(t *testing.T) {
	for name, change := range map[string]func(*Vault){"kv": nil, "dynamic": dynamic, "caller": func(c *Vault) { c.Caller, c.TokenFile, c.Role = true, "", "caller" }} {
		t.Run(name, func(t *testing.T) {
			testIssuer(t, func(t *testing.T) issuerUnderTest {
				v, over := newVaultServer(t), make(chan struct{})
				secret, leased := kvSecret, name == "dynamic"
				var mu sync.Mutex
				hang := false
				inner := v.Config.Handler
				v.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					h := hang
					mu.Unlock()
					if h {
						<-over
					}
					if leased && r.Method == "GET" {
						_, _ = io.WriteString(w, `{"lease_id":"l","lease_duration":60,"data":{"username":"u","password":"`+secret+`"}}`)
						return
					}
					inner.ServeHTTP(w, r)
				})
				t.Cleanup(func() { close(over) })
				return issuerUnderTest{
					issuer: mustExchanger(t, vaultBinding(t, v, change)), subject: longAlice(), secrets: []string{secret, workloadJWT, subjectSecret, "hvs.login-SECRET"},
					spoil: func() {
						v.do(func() { v.jwts = nil; v.tokens = map[string]time.Time{} })
						leased = false
					},
					hang: func() { mu.Lock(); hang = true; mu.Unlock() },
				}
			})
		})
	}
}

func TestVaultKV(t *testing.T) {
	v := newVaultServer(t)
	b, bd, _, _ := newVaultBroker(t, v, nil)
	for i, want := range []string{kvSecret, kvSecret, "version-four-SECRET"} {
		if i == 2 {
			v.do(func() { v.kv["key"] = want })
			v.clock.advance(time.Minute) // a new version is seen when the old has been kept long enough
		}
		c := mustGet(t, b, bd, longAlice())
		if got := sent(c).Get("X-Api-Key"); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
		if ref := c.Ref(); ref.Kind != "vault" || ref.Cached != (i == 1) || !ref.Expires.IsZero() || !strings.HasSuffix(ref.Audience, "/v1/secret/data/orders/api") {
			t.Errorf("ref %+v", ref)
		}
	}
	if n := v.count("POST /v1/auth/jwt/login"); n != 1 {
		t.Errorf("%d logins", n)
	}
}

func TestVaultPlaces(t *testing.T) {
	v := newVaultServer(t)
	for name, c := range map[string]struct {
		change func(*Vault)
		want   func(r *http.Request) bool
	}{
		"bearer": {func(c *Vault) { c.Header, c.Prefix = "", "Bearer " }, func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+kvSecret }},
		"query":  {func(c *Vault) { c.Header, c.Query = "", "key" }, func(r *http.Request) bool { return r.URL.RawQuery == "key="+kvSecret }},
		"basic": {func(c *Vault) { c.Header, c.Field, c.UserField, c.PasswordField = "", "", "user", "key" }, func(r *http.Request) bool {
			u, p, _ := r.BasicAuth()
			return u == "robot" && p == kvSecret
		}},
		"basic, own user": {func(c *Vault) { c.Header, c.Field, c.Username, c.PasswordField = "", "", "me", "key" }, func(r *http.Request) bool {
			u, p, _ := r.BasicAuth()
			return u == "me" && p == kvSecret
		}},
	} {
		b, bd, _, _ := newVaultBroker(t, v, c.change)
		if r := placed(t, mustGet(t, b, bd, longAlice()), "https://api.orders.test/"); !c.want(r) {
			t.Errorf("%s: sent %v %v", name, r.URL, r.Header)
		}
	}
}

// What Vault holds may be no credential, or none that a header can carry.
func TestVaultAnswers(t *testing.T) {
	for name, value := range map[string]any{
		"missing": nil, "a number": 5, "an object": map[string]any{"a": "b"}, "empty": "", "two lines": "a\r\nX-Evil: 1", "a newline at its end": "a\n", "not ASCII": "ä", "null byte": "a\x00",
		"too long": strings.Repeat("a", maxValue+1),
	} {
		v := newVaultServer(t)
		v.kv["key"] = value
		if value == nil {
			delete(v.kv, "key")
		}
		b, bd, _, _ := newVaultBroker(t, v, nil)
		_, err := b.Credential(t.Context(), bd, longAlice())
		var e *Error
		if !errors.As(err, &e) || e.Reason != BadAnswer {
			t.Errorf("%s: %v", name, err)
		}
		noLeak(t, err, workloadJWT, "login-SECRET")
	}
	for name, c := range map[string]struct {
		change func(v *vaultServer, c *Vault)
		want   Reason
	}{
		"no such secret":     {func(_ *vaultServer, c *Vault) { c.Path = "orders/none" }, InvalidTarget},
		"a role of others":   {func(_ *vaultServer, c *Vault) { c.Role = "caller" }, InvalidGrant},
		"another namespace":  {func(_ *vaultServer, c *Vault) { c.Namespace = "" }, InvalidGrant},
		"sealed":             {func(v *vaultServer, _ *Vault) { v.sealed = true }, ServerError},
		"broken":             {func(v *vaultServer, _ *Vault) { v.fail = "GET" }, ServerError},
		"login broken":       {func(v *vaultServer, _ *Vault) { v.fail = "POST" }, ServerError},
		"KV read as a lease": {func(_ *vaultServer, c *Vault) { c.Mount, c.Path = "", "secret/data/orders/api" }, BadExpiry},
		"a lease read as KV": {func(_ *vaultServer, c *Vault) { c.Mount, c.Path = "secret", "x" }, InvalidTarget},
		"a user with a colon": {func(v *vaultServer, c *Vault) {
			v.kv["user"] = "a:b"
			c.Header, c.Field, c.UserField, c.PasswordField = "", "", "user", "key"
		}, BadAnswer},
	} {
		v := newVaultServer(t)
		b, bd, _, _ := newVaultBroker(t, v, func(conf *Vault) { c.change(v, conf) })
		_, err := b.Credential(t.Context(), bd, longAlice())
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		noLeak(t, err, workloadJWT, kvSecret, "login-SECRET")
	}
}

// A token that Vault does not take any more is replaced once, and only once.
func TestVaultLoginAgain(t *testing.T) {
	v := newVaultServer(t)
	b, bd, _, _ := newVaultBroker(t, v, nil)
	mustGet(t, b, bd, longAlice())
	v.do(func() { v.tokens = map[string]time.Time{} }) // revoked there
	v.clock.advance(time.Minute)
	mustGet(t, b, bd, longAlice())
	if n := v.count("POST /v1/auth/jwt/login"); n != 2 {
		t.Errorf("%d logins, want 2", n)
	}
	v.clock.advance(v.tokenTTL) // its own end is known
	mustGet(t, b, bd, longAlice())
	if n, reads := v.count("POST /v1/auth/jwt/login"), v.count("GET /v1/secret/data/orders/api"); n != 3 || reads != 4 {
		t.Errorf("%d logins and %d reads, want 3 and 4", n, reads)
	}
}

// Every request of a secret that the policy does not allow costs two logins at most, and is then remembered.
func TestVaultForbidden(t *testing.T) {
	v := newVaultServer(t)
	forbid := v.Config.Handler
	v.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			vaultErrors(w, 403, "permission denied")
			return
		}
		forbid.ServeHTTP(w, r)
	})
	b, bd, _, _ := newVaultBroker(t, v, nil)
	for range 3 {
		_, err := b.Credential(t.Context(), bd, longAlice())
		wantReason(t, err, Refused)
	}
	if n := v.count("POST /v1/auth/jwt/login"); n != 2 {
		t.Errorf("%d logins", n)
	}
}

// A rotated workload token is another login, and another bucket.
func TestVaultWorkloadTokenRotates(t *testing.T) {
	v := newVaultServer(t)
	bd := vaultBinding(t, v, nil)
	b, found := mustNew(t, bd, Options{Now: v.clock.now})
	mustGet(t, b, found, longAlice())
	v.do(func() { v.jwts["rotated"] = "toolgate"; delete(v.jwts, workloadJWT) })
	if err := os.WriteFile(bd.Vault.TokenFile, []byte("rotated"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := mustGet(t, b, found, longAlice()); c.Ref().Cached {
		t.Error("what the old token was given was used with the new one")
	}
}

// Where the caller's token is the login, callers share neither login nor secret.
func TestVaultOfTheCaller(t *testing.T) {
	v := newVaultServer(t)
	b, bd, _, _ := newVaultBroker(t, v, func(c *Vault) { dynamic(c); c.Caller, c.TokenFile, c.Role = true, "", "caller" })
	a := mustGet(t, b, bd, longAlice())
	weaker := longAlice() // the same caller with another token
	weaker.Token = redact.New("bobs-token")
	_, err := b.Credential(t.Context(), bd, weaker)
	wantReason(t, err, InvalidGrant)
	v.do(func() { v.jwts["bobs-token"] = "caller" })
	v.clock.advance(negativeMax)
	if c := mustGet(t, b, bd, weaker); c.Ref().Cached || c.value.Equal(a.value) {
		t.Error("two tokens share a secret")
	}
	none := longAlice()
	none.Token = redact.Secret{}
	_, err = b.Credential(t.Context(), bd, none)
	wantReason(t, err, NoSubjectToken)
	if n := v.count("POST /v1/auth/jwt/login"); n != 3 {
		t.Errorf("%d logins, want 3", n)
	}
}

// A lease that is used lives on beyond its own time, and beyond the login's.
func TestVaultLeaseIsRenewed(t *testing.T) {
	v := newVaultServer(t)
	v.tokenTTL = 15 * time.Minute
	b, bd, l, _ := newVaultBroker(t, v, func(c *Vault) { dynamic(c); c.MaxTTL = 24 * time.Hour })
	first := mustGet(t, b, bd, longAlice())
	for range 5 {
		c := mustGet(t, b, bd, longAlice())
		if !c.Ref().Cached || !c.value.Equal(first.value) {
			t.Fatal("the lease was not kept")
		}
		placed(t, c, "https://api.orders.test/")
		due, renew := l.next(t)
		if due <= 6*time.Minute || due > 7*time.Minute {
			t.Errorf("looked at again after %v of 10 min", due)
		}
		v.clock.advance(due)
		renew()
	}
	if n := v.count("PUT /v1/sys/leases/renew"); n != 5 {
		t.Errorf("%d renewals", n)
	}
	// Not used since: it is left to end, but is good until then.
	due, look := l.next(t)
	v.clock.advance(due)
	look()
	if n := v.count("PUT /v1/sys/leases/renew"); n != 5 {
		t.Errorf("an unused lease was renewed")
	}
	if c := mustGet(t, b, bd, longAlice()); !c.value.Equal(first.value) {
		t.Error("it ended early")
	}
	v.clock.advance(4 * time.Minute)
	if c := mustGet(t, b, bd, longAlice()); c.Ref().Cached || c.value.Equal(first.value) {
		t.Error("a lease that has ended was given out")
	}
}

// A lease that Vault has ended is found out at its renewal, and not given out any more.
func TestVaultLeaseEndsThere(t *testing.T) {
	v := newVaultServer(t)
	b, bd, l, _ := newVaultBroker(t, v, dynamic)
	first := mustGet(t, b, bd, longAlice())
	placed(t, first, "https://api.orders.test/")
	due, renew := l.next(t)
	v.clock.advance(due)
	v.do(func() { v.fail = "PUT" }) // for now it is only down
	renew()
	if c := mustGet(t, b, bd, longAlice()); !c.value.Equal(first.value) {
		t.Error("an outage ended the lease")
	}
	v.do(func() { v.fail = ""; v.leases = map[string]vaultLease{} })
	due, renew = l.next(t)
	v.clock.advance(due)
	renew()
	if c := mustGet(t, b, bd, longAlice()); c.value.Equal(first.value) {
		t.Error("a lease that was revoked there is given out")
	}
}

func TestVaultLeaseIsRevoked(t *testing.T) {
	v := newVaultServer(t)
	b, bd, l, seen := newVaultBroker(t, v, dynamic)
	bob := longAlice()
	bob.Subject = "user:bob"
	c := mustGet(t, b, bd, longAlice())
	mustGet(t, b, bd, bob)
	placed(t, c, "https://api.orders.test/")
	due, renew := l.next(t)
	v.clock.advance(due)
	if n := b.Drop(func(k Key) bool { return k.Subject == "user:alice" }); n != 1 {
		t.Errorf("dropped %d", n)
	}
	seen.eventually(t, "revocation ok", 1)
	v.do(func() {
		if len(v.leases) != 1 {
			t.Errorf("%d leases are left", len(v.leases))
		}
	})
	renew() // that was under way; bob's, not used
	if n := v.count("PUT /v1/sys/leases/renew"); n != 0 {
		t.Errorf("%d renewals", n)
	}
}

// At the end nothing is left open at Vault.
func TestVaultClose(t *testing.T) {
	for _, batch := range []bool{false, true} {
		v := newVaultServer(t)
		v.batch = batch
		b, bd, _, _ := newVaultBroker(t, v, dynamic)
		for _, name := range []string{"a", "b", "c"} {
			s := longAlice()
			s.Subject = name
			mustGet(t, b, bd, s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b.Close(ctx)
		v.do(func() {
			if len(v.leases) != 0 || !batch && len(v.tokens) != 0 {
				t.Errorf("batch %v: left %v %v", batch, v.leases, v.tokens)
			}
		})
	}
}

// Many who come at once make one login.
func TestVaultStampede(t *testing.T) {
	v := newVaultServer(t)
	b, bd, _, _ := newVaultBroker(t, v, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s := longAlice()
			s.Subject = string(rune('a' + i))
			if _, err := b.Credential(t.Context(), bd, s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := v.count("POST /v1/auth/jwt/login"); n != 1 {
		t.Errorf("%d logins", n)
	}
}

func TestVaultSettings(t *testing.T) {
	v := newVaultServer(t)
	for name, change := range map[string]func(*Vault){
		"http":                  func(c *Vault) { c.Address = "http://vault.example" },
		"no role":               func(c *Vault) { c.Role = "" },
		"no proof":              func(c *Vault) { c.TokenFile = "" },
		"two proofs":            func(c *Vault) { c.Caller = true },
		"no file":               func(c *Vault) { c.TokenFile += "x" },
		"no path":               func(c *Vault) { c.Path = "" },
		"a path up":             func(c *Vault) { c.Path = "a/../../sys/raw" },
		"a path with a query":   func(c *Vault) { c.Path = "a?list=true" },
		"an encoded path":       func(c *Vault) { c.Path = "a%2f..%2fb" },
		"an absolute path":      func(c *Vault) { c.Path = "/a" },
		"an auth path":          func(c *Vault) { c.AuthPath = "../sys" },
		"a mount":               func(c *Vault) { c.Mount = "a//b" },
		"a namespace":           func(c *Vault) { c.Namespace = "a\r\nb" },
		"no field":              func(c *Vault) { c.Field = "" },
		"two fields":            func(c *Vault) { c.PasswordField = "p" },
		"no user":               func(c *Vault) { dynamic(c); c.UserField = "" },
		"two users":             func(c *Vault) { dynamic(c); c.Username = "u" },
		"a user alone":          func(c *Vault) { c.Username = "u" },
		"a user with a colon":   func(c *Vault) { dynamic(c); c.UserField, c.Username = "", "a:b" },
		"a header for basic":    func(c *Vault) { dynamic(c); c.Header = "X-Key" },
		"a header that frames":  func(c *Vault) { c.Header = "Host" },
		"negative":              func(c *Vault) { c.Timeout = -1 },
		"roots that are absent": func(c *Vault) { c.CAFile = "/nonexistent" },
	} {
		if _, err := New([]Binding{vaultBinding(t, v, change)}, Options{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
