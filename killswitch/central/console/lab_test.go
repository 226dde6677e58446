package console_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/console"
	"github.com/toolgate/toolgate/killswitch/central/login"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

const patience = 30 * time.Second

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// site is the console over a real service, store and socket.
type site struct {
	*testing.T
	*central.Service
	url    string
	nats   *natsd.Server
	creds  string
	signer *ledger.Signer
	tokens api.Tokens
	known  map[string]string // tokens by name
}

type options struct {
	service func(*central.Options)
	life    time.Duration
	tls     bool
	people  map[string]central.Principal
}

func responder(tenants ...string) central.Principal {
	return central.Principal{Roles: []central.Role{central.Responder}, Tenants: tenants}
}

func newSite(t *testing.T, o options) *site {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	dir := t.TempDir()
	ns, err := natsd.Start(natsd.Options{Dir: dir, Listen: "127.0.0.1:0", Log: log})
	check(t, err)
	t.Cleanup(ns.Stop)
	conn, err := ns.Connect()
	check(t, err)
	t.Cleanup(conn.Close)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	s := &site{T: t, nats: ns, creds: natsd.SidecarCredentials(dir), signer: ledger.NewSigner(key), tokens: api.Tokens{}, known: map[string]string{}}
	settings := central.Options{Conn: conn, Signer: s.signer, Log: log, WarmUp: time.Nanosecond}
	if o.service != nil {
		o.service(&settings)
	}
	s.Service, err = central.New(settings)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Service.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	people := map[string]central.Principal{
		"alice": responder(), "bob": responder(), "acme": responder("acme"), "viewer": {Roles: []central.Role{central.Viewer}},
	}
	for name, p := range o.people {
		people[name] = p
	}
	for name, p := range people {
		p.Name = name
		s.known[name] = "tgks_" + rand.Text()
		s.tokens.Add(s.known[name], p)
	}
	if o.life == 0 {
		o.life = login.Life
	}
	sessions, err := login.NewSessions(s.signer.Derive("test"), o.tls, o.life, s.tokens, nil)
	check(t, err)
	web := httptest.NewUnstartedServer((&console.Console{Service: s.Service, Sessions: sessions, Secure: o.tls, Log: log}).Handler())
	if o.tls {
		web.StartTLS()
	} else {
		web.Start()
	}
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	s.url = web.URL
	eventually(t, "the service is ready", func() bool { return s.Ready() == nil })
	return s
}

// pod is a small sidecar that acknowledges everything, and counts its calls by tool.
func (s *site) pod(name string, running []bus.Running, tools ...string) {
	s.Helper()
	conn, who := s.deaf(name, running, tools...)
	keys, err := ledger.ParseKeys(s.signer.PublicKey())
	check(s, err)
	_, err = conn.Subscribe(bus.SubjectLive, func(m *nats.Msg) {
		if e, err := keys.Decode(m.Data); err == nil {
			s.say(conn, bus.SubjectAck("sidecar", bus.Token(name)), bus.Ack{Sidecar: who, Revision: e.Revision, Head: e.Hash(), Cut: 2})
		}
	})
	check(s, err)
	_, err = conn.Subscribe(bus.SubjectProbe, func(m *nats.Msg) {
		var q bus.Probe
		if json.Unmarshal(m.Data, &q) != nil {
			return
		}
		calls := 0
		for _, run := range running {
			if len(q.Selector.Tool) == 0 || slices.Contains(q.Selector.Tool, run.Tool) {
				calls += run.Calls
			}
		}
		s.say(conn, bus.SubjectAnswer("sidecar", bus.Token(name)), bus.Answer{Sidecar: who, ID: q.ID, Calls: calls})
	})
	check(s, err)
	check(s, conn.Flush())
}

// deaf is a sidecar that has said once that it is there.
func (s *site) deaf(name string, running []bus.Running, tools ...string) (*nats.Conn, bus.Sidecar) {
	s.Helper()
	conn, err := nats.Connect(s.nats.URL(), nats.UserCredentials(s.creds))
	check(s, err)
	s.Cleanup(conn.Close)
	who := bus.Sidecar{Instance: name, Pod: name, Namespace: "shop", Version: "test", Tools: tools}
	look := func() central.Overview {
		o, err := s.Overview(central.Principal{Name: "test", Roles: []central.Role{central.Viewer}})
		check(s, err)
		return o
	}
	o := look()
	s.say(conn, bus.SubjectStatus("sidecar", bus.Token(name)), bus.Status{Sidecar: who, Running: running, Revision: o.Revision, Head: o.Head})
	eventually(s, "the sidecar is known", func() bool { return look().Sidecars.Live > o.Sidecars.Live })
	return conn, who
}

func (s *site) say(conn *nats.Conn, subject string, v any) {
	b, err := json.Marshal(v)
	check(s, err)
	if err := conn.Publish(subject, b); !errors.Is(err, nats.ErrConnectionClosed) { // a sidecar may be asked while it leaves
		check(s, err)
	}
}

// browser keeps one cookie, follows no redirect and says where its forms come from.
type browser struct {
	*site
	cookie string
	header http.Header // set on every request; nil values remove
}

type answer struct {
	status   int
	body     string
	location string
	header   http.Header
}

func (s *site) login(name string) *browser {
	s.Helper()
	b := &browser{site: s}
	if a := b.post("/login", url.Values{"token": {s.known[name]}}); a.status != http.StatusSeeOther || b.cookie == "" {
		s.Fatalf("%s cannot log in: %d %s", name, a.status, a.body)
	}
	return b
}

func (b *browser) get(path string) answer { b.Helper(); return b.send(http.MethodGet, path, nil) }

func (b *browser) post(path string, form url.Values) answer {
	b.Helper()
	return b.send(http.MethodPost, path, form)
}

func (b *browser) send(method, path string, form url.Values) answer {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	check(b, err)
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.url)
	}
	if b.cookie != "" {
		req.Header.Set("Cookie", b.cookie)
	}
	for name, values := range b.header {
		if values == nil {
			req.Header.Del(name)
			continue
		}
		req.Header[name] = values
	}
	res, err := (&http.Transport{TLSClientConfig: insecure(b.url), DisableKeepAlives: true}).RoundTrip(req)
	check(b, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	check(b, err)
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			b.cookie = ""
		} else {
			b.cookie = c.Name + "=" + c.Value
		}
	}
	return answer{res.StatusCode, string(body), res.Header.Get("Location"), res.Header}
}

func (b *browser) want(a answer, status int, texts ...string) {
	b.Helper()
	if a.status != status {
		b.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			b.Fatalf("the page lacks %q:\n%s", text, a.body)
		}
	}
}

// entries is the whole log, newest first.
func (s *site) entries() []*ledger.Entry {
	s.Helper()
	list, err := s.History(central.Principal{Name: "test", Roles: []central.Role{central.Viewer}}, 0, 0, "")
	check(s, err)
	return list
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// form is what the page with the red button would send, filled in.
func (b *browser) form(query string, fill url.Values) url.Values {
	b.Helper()
	a := b.get("/stop?preview=1&" + query)
	m := hiddenID.FindStringSubmatch(a.body)
	if a.status != http.StatusOK || m == nil {
		b.Fatalf("no form: %d %s", a.status, a.body)
	}
	form, err := url.ParseQuery(query)
	check(b, err)
	form.Set("id", m[1])
	for name, values := range fill {
		form[name] = values
	}
	return form
}

// revoke puts a revocation in force by the service itself.
func (s *site) revoke(by string, id string, sel ledger.Selector, reason string) {
	s.Helper()
	_, err := s.Revoke(s.Context(), central.Principal{Name: by, Roles: []central.Role{central.Responder}}, central.Request{ID: id, Selector: sel, Reason: reason, Ticket: reason})
	check(s, err)
}
