package identity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

func TestJunkDoesNotFetch(t *testing.T) {
	w := newWorld(t, nil)
	good := w.mint(t, nil)
	if err := w.verify(good); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Hour / 2)
	other := startIssuer(t, w.clock)
	foreign, err := other.Mint(claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	genuine := strings.Split(w.mint(t, nil), ".")
	wrong := strings.Split(w.mint(t, nil), ".")
	for _, tc := range []struct {
		name, token string
		max         int
	}{
		{"another issuer's", foreign, 0},
		{"bad signature", genuine[0] + "." + genuine[1] + "." + wrong[2], 0},
		{"wrong audience, unknown kid", w.mintWith(t, map[string]any{"kid": "x"}, map[string]any{"aud": "other"}, "ES256"), 0},
		{"unknown kid", w.mintWith(t, map[string]any{"kid": "x"}, nil, "ES256"), 1},
	} {
		before := w.fetches()
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() {
				if w.verify(tc.token) == nil {
					t.Error("accepted")
				}
			})
		}
		all.Wait()
		if n := w.fetches() - before; n > tc.max {
			t.Errorf("%s: 400 tokens, %d fetches", tc.name, n)
		}
	}
	if n := other.Count(devissuer.PathJWKS); n != 0 {
		t.Errorf("%d fetches from the other issuer", n)
	}
}

func TestRotation(t *testing.T) {
	w := newWorld(t, nil)
	old := w.mint(t, nil)
	if err := w.verify(old); err != nil {
		t.Fatal(err)
	}
	if err := w.idp.Rotate(); err != nil {
		t.Fatal(err)
	}
	fresh := w.mint(t, nil)
	wantReason(t, w.verify(fresh), "key", fresh) // too early for a second fetch
	w.advance(29 * time.Second)
	wantReason(t, w.verify(fresh), "key", fresh)
	if err := w.verify(old); err != nil {
		t.Error(err) // cached, and its key is held still
	}
	w.advance(time.Second)
	if err := w.verify(fresh); err != nil {
		t.Error(err)
	}
	// The old token was cached and would have been good for 30 s more.
	wantReason(t, w.verify(old), "key", old)
	if n := w.fetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// A key that the issuer withdraws is forgotten though no unknown kid shows up.
func TestSoftTTL(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.SoftTTL = 10 * time.Minute })
	token := w.mint(t, map[string]any{"exp": w.Now().Unix() + 3600})
	if err := w.verify(token); err != nil {
		t.Fatal(err)
	}
	if err := w.idp.Rotate(); err != nil {
		t.Fatal(err)
	}
	w.advance(9 * time.Minute)
	if err := w.verify(token); err != nil || w.fetches() != 1 {
		t.Errorf("before the soft TTL: %v, %d fetches", err, w.fetches())
	}
	w.advance(time.Minute)
	w.idp.SetFaults(devissuer.Faults{Hang: true})
	if err := w.verify(token); err != nil {
		t.Errorf("the refresh is waited for: %v", err)
	}
	w.idp.SetFaults(devissuer.Faults{})
	w.idp.Close() // ends the hanging request
	w.settle()
	w.advance(30 * time.Second)
	w.v.cache.lru.Purge()
	_ = w.verify(token)
	w.settle()
	wantReason(t, w.verify(token), "key", token)
}

func TestOutage(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.SoftTTL, i.HardTTL = time.Hour, 5*time.Hour })
	token := w.mint(t, map[string]any{"exp": w.Now().Unix() + 1e6})
	if err := w.verify(token); err != nil {
		t.Fatal(err)
	}
	huge := devissuer.Faults{HugeBody: 100 << 20}
	for _, f := range []devissuer.Faults{{JWKSStatus: 500}, {DiscoveryStatus: 503}, {Reset: true}, {JWKSBody: "<html>"}, {JWKSBody: `{"keys":[]}`}, huge, {DiscoveryBody: `{"issuer":"https://evil.test","jwks_uri":"https://evil.test"}`}} {
		w.idp.SetFaults(f)
		w.advance(40 * time.Minute) // 7 times: 280 min
		if err := w.verify(token); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
		unknown := w.mintWith(t, map[string]any{"kid": "x"}, map[string]any{"exp": w.Now().Unix() + 300}, "ES256")
		w.settle()
		w.advance(30 * time.Second)
		if err := w.verify(unknown); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%+v, unknown kid: %v", f, err)
		}
		if s := w.v.Status()[0]; s.Err == nil || s.Keys != 1 {
			t.Errorf("%+v: status %+v", f, s)
		}
		if err := w.v.Ready(ctx); err != nil {
			t.Errorf("%+v: ready: %v", f, err)
		}
	}
	w.advance(20 * time.Minute) // over 5 h: even what is cached
	if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("over the hard TTL: %v", err)
	}
	if err := w.v.Ready(ctx); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), w.idp.URL()) {
		t.Errorf("ready: %v", err)
	}
	w.idp.SetFaults(devissuer.Faults{})
	w.settle()
	w.advance(30 * time.Second)
	if err := w.verify(token); err != nil {
		t.Errorf("after recovery: %v", err)
	}
	if s := w.v.Status()[0]; s.Err != nil || !s.Fetched.Equal(w.Now()) {
		t.Errorf("status %+v", s)
	}
}

// The hard TTL also ends what the cache of tokens holds.
func TestHardTTLEndsCachedTokens(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.HardTTL = 20 * time.Second })
	token := w.mint(t, nil)
	if err := w.verify(token); err != nil {
		t.Fatal(err)
	}
	w.idp.SetFaults(devissuer.Faults{JWKSStatus: 500})
	w.advance(20 * time.Second)
	if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

func TestColdStartWithIssuerDown(t *testing.T) {
	w := newWorld(t, nil)
	w.idp.SetFaults(devissuer.Faults{Reset: true})
	token := w.mint(t, nil)
	for range 50 {
		if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
	}
	if err := w.v.Ready(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if n := w.idp.Count(devissuer.PathDiscovery); n > 2 { // net/http may repeat a GET once
		t.Errorf("%d attempts", n)
	}
	w.idp.SetFaults(devissuer.Faults{})
	w.advance(30 * time.Second)
	if err := w.v.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	if err := w.verify(token); err != nil {
		t.Error(err)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer evil.Close()
	// A client whose own policy would follow.
	w := newWorld(t, func(i *Issuer) { i.Client = &http.Client{} })
	token := w.mint(t, nil)
	w.idp.SetFaults(devissuer.Faults{Redirect: evil.URL})
	if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if err := w.v.Status()[0].Err; err == nil || !strings.Contains(err.Error(), "status 307") || strings.Contains(err.Error(), evil.URL) {
		t.Errorf("status: %v", err)
	}
	if asked.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

func TestHangAndRecovery(t *testing.T) {
	w := newWorld(t, nil)
	w.v.order[0].keys.wait = 50 * time.Millisecond
	w.idp.SetFaults(devissuer.Faults{Hang: true})
	token := w.mint(t, nil)
	began := time.Now()
	if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	if d := time.Since(began); d > fetchTimeout/2 {
		t.Errorf("waited %s", d)
	}
	w.idp.SetFaults(devissuer.Faults{})
	w.advance(30 * time.Second)
	if err := w.verify(token); err != nil {
		t.Error(err)
	}
}

// A caller that gives up gets away at once, and does not take the others' fetch with it.
func TestWaitersAreIndependent(t *testing.T) {
	release := make(chan struct{})
	idp := startIssuer(t, newClock())
	asked := make(chan struct{}, 4)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		r.URL.Path = devissuer.PathJWKS
		idp.ServeHTTP(w, r)
	}))
	defer front.Close()
	c := newClock()
	v := newTestVerifier(t, c, Issuer{URL: idp.URL(), JWKSURL: front.URL, Audiences: []string{"toolgate"}})
	token, err := idp.Mint(claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	first, cancel := context.WithCancel(ctx)
	gone, stayed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := v.Verify(first, token); gone <- err }()
	<-asked
	go func() { _, err := v.Verify(ctx, token); stayed <- err }()
	cancel()
	if err := <-gone; !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that gave up: %v", err)
	}
	close(release)
	if err := <-stayed; err != nil {
		t.Errorf("the caller that stayed: %v", err)
	}
	if len(asked) != 0 {
		t.Error("asked again")
	}
}

func TestHugeBodyIsCutOff(t *testing.T) {
	w := newWorld(t, nil)
	for _, f := range []devissuer.Faults{{HugeBody: 100 << 20}, {JWKSBody: `{"keys":[]` + strings.Repeat(" ", maxBody) + "}"}} {
		w.idp.SetFaults(f)
		if err := w.verify(w.mint(t, nil)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		if err := w.v.Status()[0].Err; err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("status %v", err)
		}
		w.advance(30 * time.Second)
	}
}

// Discovery answers that would move the trust elsewhere.
func TestDiscoveryIsChecked(t *testing.T) {
	w := newWorld(t, nil)
	evil := startIssuer(t, w.clock)
	for _, body := range []string{
		`{"issuer":"` + evil.URL() + `","jwks_uri":"` + evil.URL() + `/jwks"}`,
		`{"ISSUER":"` + w.idp.URL() + `","jwks_uri":"` + evil.URL() + `/jwks"}`,
		`{"issuer":"` + w.idp.URL() + `","jwks_uri":"` + w.idp.URL() + `/jwks","jwks_uri":"` + evil.URL() + `/jwks"}`,
		`{"issuer":"` + w.idp.URL() + `","jwks_uri":"http://169.254.169.254/jwks"}`,
		`{"issuer":"` + w.idp.URL() + `","jwks_uri":"file:///etc/passwd"}`,
		`{"issuer":"` + w.idp.URL() + `","jwks_uri":5}`,
		`{"issuer":"` + w.idp.URL() + `"}`,
		`[]`,
	} {
		w.idp.SetFaults(devissuer.Faults{DiscoveryBody: body})
		if err := w.verify(w.mint(t, nil)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", body, err)
		}
		if err := w.v.Status()[0].Err; err == nil || !strings.HasPrefix(err.Error(), "discovery: ") {
			t.Errorf("%s: not stopped at discovery: %v", body, err)
		}
		w.advance(30 * time.Second)
	}
	if n := evil.Count(devissuer.PathJWKS); n != 0 {
		t.Errorf("%d requests to the other place", n)
	}
	if err := checkKeyURL("http://127.0.0.1/jwks", false); err == nil {
		t.Error("an issuer over TLS may send us to this host")
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	used := false
	proxied := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { used = true; return nil, nil }}
	w := newWorld(t, func(i *Issuer) { i.Client = &http.Client{Transport: proxied} })
	if err := w.verify(w.mint(t, nil)); err != nil || used {
		t.Errorf("error %v, proxy asked %t", err, used)
	}
	if keyClient(nil).Transport.(*http.Transport).Proxy != nil || keyClient(http.DefaultClient).Transport == nil || keyClient(nil).Timeout == 0 {
		t.Error("the own client is open")
	}
	if http.DefaultClient.CheckRedirect != nil {
		t.Error("the given client was changed")
	}
}

func TestReadyFetchesOnce(t *testing.T) {
	w := newWorld(t, nil)
	if s := w.v.Status()[0]; s.Issuer != w.idp.URL() || s.Keys != 0 || !s.Fetched.IsZero() || s.Err != nil {
		t.Errorf("status %+v", s)
	}
	for range 3 {
		if err := w.v.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
	w.idp.SetFaults(devissuer.Faults{JWKSBody: `{"keys":[]}`})
	w.advance(2 * time.Hour)
	if err := w.v.Ready(ctx); err != nil { // due, and the keys held are good still
		t.Error(err)
	}
	w.settle()
	if w.fetches() != 2 || w.v.Status()[0].Keys != 1 {
		t.Errorf("%d fetches, status %+v", w.fetches(), w.v.Status()[0])
	}
}
