package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

const reviewer = "a-token-for-the-key-set"

// cluster is an issuer of service-account tokens behind TLS, whose keys need a token as an API server's do.
type cluster struct {
	*testing.T
	idp *devissuer.Issuer
	web *httptest.Server
	dir string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, dir: t.TempDir()}
	c.web = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+reviewer {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c.idp.ServeHTTP(w, r)
	}))
	t.Cleanup(c.web.Close)
	idp, err := devissuer.New(devissuer.Options{URL: c.web.URL})
	check(t, err)
	c.idp = idp
	c.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.web.Certificate().Raw})))
	c.write("reviewer", reviewer+"\n")
	return c
}

func (c *cluster) write(name, text string) string {
	c.Helper()
	path := filepath.Join(c.dir, name)
	check(c, os.WriteFile(path+".new", []byte(text), 0o600))
	check(c, os.Rename(path+".new", path))
	return path
}

func (c *cluster) enrolment() enrolment {
	return enrolment{
		issuer: c.web.URL, audience: "toolgate-killswitch", jwksURL: c.web.URL + devissuer.PathJWKS, caFile: filepath.Join(c.dir, "ca.pem"),
		tokenFile: filepath.Join(c.dir, "reviewer"),
	}
}

// token is a pod's projected token, with changes over its claims.
func (c *cluster) token(pod string, over map[string]any) string {
	c.Helper()
	claims := map[string]any{
		"aud": []string{"toolgate-killswitch"}, "sub": "system:serviceaccount:shop:refunds",
		"kubernetes.io": map[string]any{"namespace": "shop", "pod": map[string]any{"name": pod, "uid": "u"}, "serviceaccount": map[string]any{"name": "refunds"}},
	}
	for k, v := range over {
		claims[k] = v
	}
	token, err := c.idp.Mint(claims)
	check(c, err)
	return token
}

// enrolled is a control plane in this process that gives credentials.
type enrolled struct {
	*cluster
	dir     string
	service *central.Service
	nats    string
	web     *httptest.Server
	key     string
}

func enrol(t *testing.T, life time.Duration) *enrolled {
	t.Helper()
	l := &enrolled{cluster: newCluster(t), dir: t.TempDir()}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ns, err := natsd.Start(natsd.Options{Dir: l.dir, Listen: "127.0.0.1:0", Log: log, TLS: &tls.Config{Certificates: l.cluster.web.TLS.Certificates, MinVersion: tls.VersionTLS12}})
	check(t, err)
	t.Cleanup(ns.Stop)
	l.nats = ns.URL()
	conn, err := ns.Connect()
	check(t, err)
	t.Cleanup(conn.Close)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	o := central.Options{Conn: conn, Signer: ledger.NewSigner(key), Log: log, WarmUp: time.Nanosecond}
	l.key = o.Signer.PublicKey()
	l.service, err = central.New(o)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.service.Run(ctx) }()
	t.Cleanup(func() { cancel(); check(t, <-ended) })
	e := l.enrolment()
	e.life = life
	h, err := e.handler(l.dir, l.service, o)
	check(t, err)
	l.web = httptest.NewTLSServer(h)
	t.Cleanup(l.web.Close)
	return l
}

// ask asks for credentials as a sidecar does.
func (l *enrolled) ask(token, body string) (int, api.CredentialsAnswer) {
	l.Helper()
	req, err := http.NewRequest(http.MethodPost, l.web.URL+api.CredentialsPath, strings.NewReader(body))
	check(l, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := l.web.Client().Do(req)
	check(l, err)
	defer func() { _ = res.Body.Close() }()
	var a api.CredentialsAnswer
	if res.StatusCode == http.StatusOK {
		check(l, json.NewDecoder(res.Body).Decode(&a))
	}
	return res.StatusCode, a
}

func user(t *testing.T) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	check(t, err)
	public, err := key.PublicKey()
	check(t, err)
	return key, `{"public_key":"` + public + `"}`
}

// TestCredentialsForAToken: what a good token gives, and what tokens and bodies that are not good give.
func TestCredentialsForAToken(t *testing.T) {
	l := enrol(t, 0)
	_, body := user(t)
	other := newCluster(t)
	for name, c := range map[string]struct {
		token, body string
		status      int
	}{
		"none":               {"", body, 401},
		"no token":           {"x.y.z", body, 401},
		"expired":            {l.token("p", map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "iat": time.Now().Add(-2 * time.Hour).Unix()}), body, 401},
		"for another":        {l.token("p", map[string]any{"aud": "https://kubernetes.default.svc"}), body, 401},
		"no audience":        {l.token("p", map[string]any{"aud": nil}), body, 401},
		"of another issuer":  {other.token("p", nil), body, 401},
		"signed by another":  {other.token("p", map[string]any{"iss": l.idp.URL()}), body, 401},
		"no key":             {l.token("p", nil), `{}`, 400},
		"an account's key":   {l.token("p", nil), `{"public_key":"A` + strings.Repeat("A", 55) + `"}`, 400},
		"more than a key":    {l.token("p", nil), `{"public_key":"","name":"control"}`, 400},
		"a large body":       {l.token("p", nil), `{"public_key":"` + strings.Repeat("U", 4000) + `"}`, 413},
		"good":               {l.token("p", nil), body, 200},
		"good, without pods": {l.token("p", map[string]any{"kubernetes.io": nil}), body, 200},
	} {
		if status, _ := l.ask(c.token, c.body); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
	_, a := l.ask(l.token("refunds-1", nil), body)
	if left := time.Until(a.Expires); left > api.CredentialsLife || left < api.CredentialsLife-time.Minute {
		t.Errorf("it expires in %s", left)
	}
}

func TestSidecarNames(t *testing.T) {
	names := map[string]bool{}
	for _, c := range []identity.Caller{
		{Tenant: "shop", Agent: "refunds-6d5f"}, {Tenant: "shop-refunds", Agent: "6d5f"}, {Tenant: "a", Agent: "b.c"}, {Tenant: "a", Agent: "b"},
		{Subject: "shop_refunds-6d5f"}, {Subject: "shop-refunds"}, {Tenant: "shop", Subject: "x"}, {Agent: "refunds", Subject: "y"},
		{Tenant: "shop.a", Agent: "b", Subject: "1"}, {Tenant: "shop", Agent: "b_c", Subject: "2"}, {Subject: "h_x"}, {Subject: "system:serviceaccount:shop:refunds"},
		{Subject: "a.b"}, {Subject: "a>b"}, {Subject: "*"},
	} {
		name := sidecarName(&c)
		if names[name] || name != bus.Token(name) {
			t.Errorf("%+v: %q is another's, or no token of a subject", c, name)
		}
		names[name] = true
	}
	if !names["shop_refunds-6d5f"] || !names["a_b_c"] {
		t.Errorf("%v", names)
	}
}

// TestCredentialsAreASidecars: a stolen token is worth what any sidecar's credentials are.
func TestCredentialsAreASidecars(t *testing.T) {
	l := enrol(t, 0)
	key, body := user(t)
	_, a := l.ask(l.token("refunds-1", nil), body)
	denied := make(chan error, 16)
	conn, err := nats.Connect(l.nats, nats.UserJWT(func() (string, error) { return a.JWT, nil }, key.Sign), nats.RootCAs(l.cluster.dir+"/ca.pem"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	check(t, err)
	defer conn.Close()
	for _, subject := range []string{
		bus.SubjectLog, bus.SubjectLive, bus.SubjectHeartbeat, bus.SubjectCheckpoint, bus.SubjectStatus("sidecar", "x"), bus.SubjectStatus("shop_refunds-2", "x"),
		"$JS.API.STREAM.PURGE." + bus.Stream, "_INBOX.x",
	} {
		check(t, conn.Publish(subject, []byte("x")))
		check(t, conn.Flush())
		select {
		case err := <-denied:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: allowed", subject)
		}
	}
	check(t, conn.Publish(bus.SubjectStatus("shop_refunds-1", "x"), []byte(`{"instance":"x","version":"t","tools":[]}`)))
	check(t, conn.Flush())
	all := central.Principal{Name: "all", Roles: []central.Role{central.Viewer}}
	eventually(t, "it is heard under its name", func() bool {
		roster, err := l.service.Roster(all)
		return err == nil && len(roster) == 1 && roster[0].User == "shop_refunds-1"
	})
	// The JWT is nothing without the key that it is for.
	stranger, _ := user(t)
	if c, err := nats.Connect(l.nats, nats.UserJWT(func() (string, error) { return a.JWT, nil }, stranger.Sign), nats.RootCAs(l.cluster.dir+"/ca.pem")); err == nil {
		c.Close()
		t.Error("it connects with another key")
	}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	(&plane{T: t}).eventually(what, so)
}

// TestCredentialsFlood: one address or one pod cannot keep the control plane busy, and the others still come through.
func TestCredentialsFlood(t *testing.T) {
	l := enrol(t, 0)
	_, body := user(t)
	token, limited := l.token("greedy", nil), 0
	for range 15 {
		if status, _ := l.ask(token, body); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 4 {
		t.Errorf("%d of 15 requests of one pod were refused", limited)
	}
	if status, _ := l.ask(l.token("modest", nil), body); status != http.StatusOK {
		t.Errorf("another pod: %d", status)
	}
	before := l.idp.Count(devissuer.PathJWKS)
	refused := false
	for range 2000 {
		if status, _ := l.ask("x.y.z", body); status == http.StatusTooManyRequests {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("a flood of bad tokens is looked at one by one")
	}
	if n := l.idp.Count(devissuer.PathJWKS) - before; n > 0 {
		t.Errorf("bad tokens made %d requests to the issuer", n)
	}
}

// TestCredentialsAreRenewed: a sidecar with credentials of a few seconds stays in sync, never counts as stale and misses nothing.
func TestCredentialsAreRenewed(t *testing.T) {
	l := enrol(t, 3*time.Second)
	eventually(t, "the control plane is ready", func() bool { return l.service.Ready() == nil })
	keys, err := ledger.ParseKeys(l.key)
	check(t, err)
	kill := killswitch.New(2*time.Second, "nats")
	var renewed, failed atomic.Int32
	source := bus.New(bus.Options{
		Servers: []string{l.nats}, Keys: keys, Name: "nats", Switch: kill, MaxStale: 2 * time.Second,
		CredentialsURL: l.web.URL + api.CredentialsPath, TokenFile: l.write("token", l.token("refunds-1", nil)+"\n"),
		CA:   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.web.Certificate().Raw})),
		Self: func() bus.Sidecar { return bus.Sidecar{Version: "test", Tools: []string{"orders"}} },
		Log:  slog.New(slog.NewTextHandler(t.Output(), nil)),
		Observe: func(e bus.Event) {
			switch {
			case e.Name == "credentials" && e.Result == "ok":
				renewed.Add(1)
			case e.Name == "credentials":
				failed.Add(1)
			}
		},
	})
	check(t, source.Start())
	defer source.Close()
	stale := func() bool {
		var s *killswitch.Stale
		return errors.As(kill.Check(killswitch.Scope{Tool: "t", Risk: "high"}), &s)
	}
	eventually(t, "it is in sync", func() bool { return !stale() })
	admin := central.Principal{Name: "admin", Roles: []central.Role{central.Admin}}
	revisions := uint64(0)
	eventually(t, "the credentials were renewed three times, and it follows", func() bool {
		if stale() {
			t.Fatal("it has become stale")
		}
		if source.View().Revision == revisions && renewed.Load() > int32(revisions) {
			o, err := l.service.Drill(t.Context(), admin, "", central.Reason{Reason: "a change"})
			check(t, err)
			revisions = o.Entry.Revision
		}
		return renewed.Load() >= 4 && source.View().Revision == revisions && revisions >= 3
	})
	if failed.Load() > 0 {
		t.Errorf("%d requests have failed", failed.Load())
	}
}

// TestServeGivesCredentials runs the program with the flags.
func TestServeGivesCredentials(t *testing.T) {
	c := newCluster(t)
	e := c.enrolment()
	p := &plane{T: t, dir: t.TempDir(), flags: []string{
		"--sidecar-issuer", e.issuer, "--sidecar-jwks-url", e.jwksURL, "--sidecar-issuer-ca-file", e.caFile, "--sidecar-issuer-token-file", e.tokenFile,
	}}
	p.start()
	defer func() { p.kill() }()
	_, body := user(t)
	if status, text := p.post(api.CredentialsPath, c.token("refunds-1", nil), "application/json", body); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := p.post(api.CredentialsPath, c.token("refunds-1", map[string]any{"aud": "sts.amazonaws.com"}), "application/json", body); status != http.StatusUnauthorized {
		t.Errorf("a token for another audience: %d", status)
	}
}
