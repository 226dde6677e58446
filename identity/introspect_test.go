package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// secretBasic is the proof of the client "gate".
func secretBasic(_ url.Values, h http.Header) error {
	h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("gate:secret")))
	return nil
}

// newOpaqueWorld is a world whose issuer tells about opaque tokens.
func newOpaqueWorld(t testing.TB, change func(*Issuer)) *world {
	w := newWorld(t, func(i *Issuer) {
		i.Introspection = &Introspection{URL: i.URL + devissuer.PathIntrospect, Authenticate: secretBasic}
		if change != nil {
			change(i)
		}
	})
	w.idp.RegisterClient(devissuer.Client{ID: "gate", Secret: "secret"})
	return w
}

func (w *world) asked() int { return w.idp.Count(devissuer.PathIntrospect) }

func TestOpaqueTokens(t *testing.T) {
	w := newOpaqueWorld(t, nil)
	token := w.idp.MintOpaque(claims(nil))
	for range 3 {
		who, err := w.v.Verify(ctx, token)
		if err != nil {
			t.Fatal(err)
		}
		if who.TokenHash != sha256.Sum256([]byte(token)) {
			t.Error("the hash is not the token's")
		}
		if who.Issuer != w.idp.URL() || who.Subject != "user:alice" || who.Tenant != "acme" || who.Agent != "helper" || who.Task != "t-1" || len(who.Scopes) != 2 || who.Expiry.Unix() != w.Now().Unix()+300 {
			t.Errorf("%+v", who)
		}
	}
	if w.asked() != 1 || w.fetches() != 0 {
		t.Errorf("%d questions, %d fetches of keys", w.asked(), w.fetches())
	}
	// What the issuer revoked is refused within thirty seconds, and asked about again soon.
	w.idp.Deactivate(token)
	w.advance(29 * time.Second)
	if err := w.verify(token); err != nil {
		t.Errorf("an answer of 29 s: %v", err)
	}
	w.advance(time.Second)
	for range 3 {
		wantReason(t, w.verify(token), "inactive", token)
	}
	if w.asked() != 2 {
		t.Errorf("%d questions", w.asked())
	}
	w.advance(badFor)
	wantReason(t, w.verify(token), "inactive", token)
	if w.asked() != 3 {
		t.Errorf("%d questions", w.asked())
	}
}

// TestOpaqueTokenEnds: an answer is not used past the token's exp, though the issuer may have called it active a moment ago.
func TestOpaqueTokenEnds(t *testing.T) {
	w := newOpaqueWorld(t, nil)
	token := w.idp.MintOpaque(claims(map[string]any{"exp": w.Now().Unix() + 10}))
	if err := w.verify(token); err != nil {
		t.Fatal(err)
	}
	w.advance(10 * time.Second)
	w.idp.Deactivate(token)
	wantReason(t, w.verify(token), "inactive", token)
	late := w.idp.MintOpaque(claims(map[string]any{"exp": w.Now().Unix() - 31}))
	wantReason(t, w.verify(late), "expired", late)
}

// TestAnswersAreJudged as claims are, and a little more.
func TestAnswersAreJudged(t *testing.T) {
	w := newOpaqueWorld(t, func(i *Issuer) { i.Require = []string{"iat"} })
	now := w.Now().Unix()
	for name, tc := range map[string]struct {
		over   map[string]any
		reason string
	}{
		"active as text":          {map[string]any{"active": "true"}, "claim"},
		"active as a number":      {map[string]any{"active": 1}, "claim"},
		"no active":               {map[string]any{"active": nil}, "claim"},
		"inactive with claims":    {map[string]any{"active": false}, "inactive"},
		"another active":          {map[string]any{"active": true, "Active": false}, "claim"},
		"no aud":                  {map[string]any{"aud": nil}, "audience"},
		"another's aud":           {map[string]any{"aud": []string{"other"}}, "audience"},
		"no exp":                  {map[string]any{"exp": nil}, "claim"},
		"exp as text":             {map[string]any{"exp": "1900000000"}, "claim"},
		"not yet":                 {map[string]any{"nbf": now + 600}, "not_yet_valid"},
		"another issuer":          {map[string]any{"iss": "https://other.example"}, "issuer"},
		"iss as a list":           {map[string]any{"iss": []string{w.idp.URL()}}, "issuer"},
		"no sub":                  {map[string]any{"sub": nil}, "claim"},
		"no iat, which is needed": {map[string]any{"iat": nil}, "claim"},
		"two spellings":           {map[string]any{"SUB": "user:mallory"}, "claim"},
		"tenant of another type":  {map[string]any{"tenant": []string{"acme"}}, "claim"},
		"for a DPoP key":          {map[string]any{"token_type": "DPoP"}, "bound"},
		"for a key":               {map[string]any{"cnf": map[string]any{"jkt": "x"}}, "bound"},
		"for a certificate":       {map[string]any{"cnf": map[string]any{"x5t#S256": "x"}}, "bound"},
		"no access token":         {map[string]any{"token_type": "N_A"}, "type"},
		"type of another type":    {map[string]any{"token_type": []string{"Bearer"}}, "type"},
		"a refresh token":         {map[string]any{"token_use": "refresh_token"}, "type"},
		"for one actor only":      {map[string]any{"may_act": map[string]any{"sub": "other"}}, "claim"},
		"the same, in capitals":   {map[string]any{"MAY_ACT": map[string]any{"sub": "other"}}, "claim"},
		"none of these, without":  {map[string]any{"iss": nil, "token_type": nil, "client_id": nil}, ""},
		"none of these, with":     {map[string]any{"token_type": "bearer", "token_use": "access_token", "aud": []string{"other", "toolgate"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.advance(time.Second) // for places
			token := w.idp.MintOpaque(claims(tc.over))
			if err := w.verify(token); tc.reason != "" {
				wantReason(t, err, tc.reason, token)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	parties := newOpaqueWorld(t, func(i *Issuer) { i.AuthorizedParties = []string{"runtime"} })
	if err := parties.verify(parties.idp.MintOpaque(claims(nil))); err != nil {
		t.Errorf("the client is an authorized party: %v", err)
	}
	token := parties.idp.MintOpaque(claims(map[string]any{"client_id": "stranger"}))
	wantReason(t, parties.verify(token), "azp", token)
}

// TestJWTsAreNotIntrospected: who forges one must not get a second opinion. Without introspection nothing is.
func TestJWTsAreNotIntrospected(t *testing.T) {
	w := newOpaqueWorld(t, nil)
	good := w.mint(t, nil)
	if err := w.verify(good); err != nil {
		t.Fatal(err)
	}
	none := w.mintWith(t, nil, nil, "none")
	for _, token := range []string{none, good[:len(good)-4] + "AAAA", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJub25lIn0.e30.a.b.c", "a.b.c"} {
		if err := w.verify(token); err == nil {
			t.Errorf("%s: accepted", token)
		}
	}
	if w.asked() != 0 {
		t.Errorf("%d questions", w.asked())
	}
	without := newWorld(t, nil)
	wantReason(t, without.verify("opaque-token"), "malformed", "opaque-token")
	if _, err := w.v.Inspect("opaque-token"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("inspected: %v", err)
	}
}

// TestIntrospectionFaults: no answer that is none opens anything, follows a redirect, or is remembered.
func TestIntrospectionFaults(t *testing.T) {
	w := newOpaqueWorld(t, nil)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	token := w.idp.MintOpaque(claims(nil))
	good := `"sub":"user:alice","aud":"toolgate","exp":1900000000`
	for name, f := range map[string]devissuer.Faults{
		"500": {IntrospectStatus: 500}, "401": {IntrospectStatus: 401}, "204": {IntrospectStatus: 204}, "reset": {Reset: true},
		"redirect": {Redirect: elsewhere.URL}, "huge": {HugeBody: 1 << 20}, "html": {IntrospectBody: "<html>"}, "a list": {IntrospectBody: "[true]"}, "good and too large": {IntrospectBody: `{"active":true,` + good + `}` + strings.Repeat(" ", maxAnswer)},
		"two values": {IntrospectBody: `{"active":true,` + good + `}{}`}, "500 that says yes": {IntrospectStatus: 500, IntrospectBody: `{"active":true,` + good + `}`},
	} {
		w.idp.SetFaults(f)
		w.advance(time.Second)
		if err := w.verify(token); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.idp.SetFaults(devissuer.Faults{IntrospectBody: `{"active":false,"active":true,` + good + `}`})
	wantReason(t, w.verify(token), "claim", token)
	w.idp.SetFaults(devissuer.Faults{})
	w.advance(badFor)
	if err := w.verify(token); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestIntrospectionNeedsAProof(t *testing.T) {
	w := newOpaqueWorld(t, func(i *Issuer) {
		i.Introspection.Authenticate = func(url.Values, http.Header) error { return errors.New("secret file: gone") }
	})
	if err := w.verify("opaque-token"); !errors.Is(err, ErrUnavailable) || w.asked() != 0 {
		t.Errorf("%v, %d questions", err, w.asked())
	}
	for _, in := range []Introspection{{URL: "https://a.example"}, {URL: "http://a.example", Authenticate: secretBasic}, {URL: "https://a.example", Authenticate: secretBasic, Timeout: -1}} {
		if _, err := New([]Issuer{{URL: w.idp.URL(), Audiences: []string{"a"}, Introspection: &in}}); err == nil {
			t.Errorf("accepted %+v", in)
		}
	}
	in := &Introspection{URL: "https://a.example", Authenticate: secretBasic}
	if _, err := New([]Issuer{{URL: "https://a.example", Audiences: []string{"a"}, Introspection: in}, {URL: "https://b.example", Audiences: []string{"a"}, Introspection: in}}); err == nil {
		t.Error("two issuers with introspection")
	}
}

// TestOpaqueFlood: junk, each token of which is another, makes few requests and does not lock out who is known.
func TestOpaqueFlood(t *testing.T) {
	w := newOpaqueWorld(t, nil)
	known := w.idp.MintOpaque(claims(map[string]any{"exp": w.Now().Unix() + 3600}))
	if err := w.verify(known); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for second := range 60 {
		for i := range 100 {
			err := w.verify(fmt.Sprintf("junk-%d-%d", second, i))
			if err == nil {
				t.Fatal("junk was accepted")
			}
			if errors.Is(err, ErrUnavailable) {
				refused++
			}
		}
		if err := w.verify(known); err != nil { // also when its answer is too old
			t.Fatalf("second %d: %v", second, err)
		}
		w.advance(time.Second)
	}
	if n := w.asked(); n > maxUnknown+60*20+4 || refused < 4500 {
		t.Errorf("%d questions for 6,000 junk tokens, %d were not asked about", n, refused)
	}
	// Good ones cost no place.
	w.advance(time.Minute)
	for i := range 10 * maxUnknown {
		if err := w.verify(w.idp.MintOpaque(claims(map[string]any{"task_id": strconv.Itoa(i)}))); err != nil {
			t.Fatalf("good token %d: %v", i, err)
		}
	}
}

// TestHungIntrospection: a few requests wait, what comes on top is told at once, and callers of one token share one request.
func TestHungIntrospection(t *testing.T) {
	var open, most atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		_ = r.ParseForm()
		_, _ = fmt.Fprintf(w, `{"active":true,"sub":%q,"aud":"toolgate","exp":1800000300}`, r.PostForm.Get("token"))
	}))
	defer server.Close()
	c := newClock()
	v := newTestVerifier(t, c, Issuer{URL: "https://idp.example", Audiences: []string{"toolgate"},
		Introspection: &Introspection{URL: server.URL, Authenticate: secretBasic, Timeout: time.Minute}})
	var good, busy atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			who, err := v.Verify(ctx, "token-"+strconv.Itoa(i%50))
			switch {
			case errors.Is(err, ErrUnavailable):
				busy.Add(1)
			case err == nil && who.Subject == "token-"+strconv.Itoa(i%50):
				good.Add(1)
			default:
				t.Errorf("%+v %v", who, err)
			}
			if busy.Load() == 4*(50-maxStrangers) {
				select {
				case <-release:
				default:
					close(release)
				}
			}
		})
	}
	all.Wait()
	if good.Load() != 4*maxStrangers || most.Load() > maxStrangers {
		t.Errorf("%d good, %d at once", good.Load(), most.Load())
	}
	if strings.Contains(fmt.Sprint(v.opaque.asking), "token") || len(v.opaque.asking) != 0 {
		t.Errorf("%d questions are left", len(v.opaque.asking))
	}
}

// TestKnownTokensBesideSlowStrangers: while the issuer takes its time over junk, who was known before is asked about all the same.
func TestKnownTokensBesideSlowStrangers(t *testing.T) {
	var open atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if token := r.PostForm.Get("token"); token != "known" {
			open.Add(1)
			<-release
		}
		_, _ = io.WriteString(w, `{"active":true,"sub":"user:alice","aud":"toolgate","exp":1800000300}`)
	}))
	defer server.Close()
	c := newClock()
	v := newTestVerifier(t, c, Issuer{URL: "https://idp.example", Audiences: []string{"toolgate"},
		Introspection: &Introspection{URL: server.URL, Authenticate: secretBasic, Timeout: time.Minute}})
	if _, err := v.Verify(ctx, "known"); err != nil {
		t.Fatal(err)
	}
	c.advance(goodFor)
	var all sync.WaitGroup
	for i := range 2 * maxAsking {
		all.Go(func() { _, _ = v.Verify(ctx, "junk-"+strconv.Itoa(i)) })
	}
	for open.Load() < 12 {
		runtime.Gosched()
	}
	if _, err := v.Verify(ctx, "known"); err != nil {
		t.Errorf("who is known: %v", err)
	}
	close(release)
	all.Wait()
	if v.opaque.strange != 0 {
		t.Errorf("%d are still counted", v.opaque.strange)
	}
}
