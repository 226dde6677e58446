package signals

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sender is a transmitter that is polled: it gives what was neither acknowledged nor refused (RFC 8936).
type sender struct {
	t   *testing.T
	web *httptest.Server

	mu    sync.Mutex
	sets  map[string]string
	acks  []string
	errs  map[string]failure
	asked []map[string]any
	more  bool
	// fault answers in place of the sender when it is set.
	fault func(http.ResponseWriter, *http.Request)
}

func newSender(t *testing.T) *sender {
	s := &sender{t: t, sets: map[string]string{}, errs: map[string]failure{}}
	s.web = httptest.NewTLSServer(s)
	t.Cleanup(s.web.Close)
	return s
}

func (s *sender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+pollToken || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var q struct {
		Ack  []string           `json:"ack"`
		Errs map[string]failure `json:"setErrs"`
	}
	var all map[string]any
	d := json.NewDecoder(r.Body)
	var raw json.RawMessage
	if d.Decode(&raw) != nil || json.Unmarshal(raw, &q) != nil || json.Unmarshal(raw, &all) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.asked = append(s.asked, all)
	if s.fault != nil {
		s.fault(w, r)
		return
	}
	for _, jti := range q.Ack {
		s.acks = append(s.acks, jti)
		delete(s.sets, jti)
	}
	for jti, e := range q.Errs {
		s.errs[jti] = e
		delete(s.sets, jti)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"sets": s.sets, "moreAvailable": s.more})
}

func (s *sender) set(f func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *sender) give(jti, set string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[jti] = set
}

// polled is a world with a poller of s.
func polled(t *testing.T, s *sender) (*world, *poller) {
	w := newWorld(t, nil)
	tr := w.r.transmitters["idp"]
	tr.config.Push = nil
	tr.config.Poll = &Poll{URL: s.web.URL + "/poll", TokenFile: w.write("poll", pollToken), MaxEvents: 7, Client: s.web.Client()}
	if err := tr.config.Check(); err != nil {
		t.Fatal(err)
	}
	return w, newPoller(w.r, tr)
}

func once(t *testing.T, p *poller) time.Duration {
	t.Helper()
	d, err := p.once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPoll(t *testing.T) {
	s := newSender(t)
	w, p := polled(t, s)
	good := func(jti, address string) string { return w.set(claimSet{"jti": jti, "sub_id": email(address)}) }
	s.give("1", good("1", "a@x.example"))
	s.give("2", w.set(claimSet{"jti": "2", "sub_id": claimSet{"format": "opaque", "id": "x"}}))
	s.give("3", w.set(claimSet{"jti": "3", "aud": "https://other.example"}))
	s.give("4", good("other", "b@x.example")) // delivered under a name that is not its own
	s.give("5", w.set(claimSet{"jti": "5", "events": claimSet{ssf + "verification": claimSet{"state": "s"}}}))
	s.give("6", w.setWith(nil, claimSet{"jti": "6"}, "none"))
	if d := once(t, p); d != minPause {
		t.Errorf("wait %s although acknowledgements are to be said", d)
	}
	if len(s.acks) != 0 || len(w.revoked.all()) != 1 || w.revoked.all()[0].Selector.Subject[0] != "user:a@x.example" {
		t.Fatalf("acknowledged %v before the effect was asked for; revoked %+v", s.acks, w.revoked.all())
	}
	if d := once(t, p); d != pollPause {
		t.Errorf("wait %s with nothing to say", d)
	}
	if !slices.Equal(s.acks, []string{"1", "5"}) {
		t.Errorf("acknowledged %v", s.acks)
	}
	codes := map[string]string{}
	for jti, e := range s.errs {
		codes[jti] = e.Err
	}
	if want := map[string]string{"2": "invalid_request", "3": "invalid_audience", "4": "invalid_request", "6": "invalid_key"}; !maps.Equal(codes, want) {
		t.Errorf("errors %v", codes)
	}
	if q := s.asked[0]; q["maxEvents"] != 7.0 || q["returnImmediately"] != false || q["ack"] != nil || q["setErrs"] != nil {
		t.Errorf("asked %v", q)
	}
	if once(t, p); s.asked[2]["ack"] != nil {
		t.Errorf("acknowledged twice: %v", s.asked[2])
	}
	s.more = true
	if d := once(t, p); d != minPause {
		t.Errorf("wait %s although more is there", d)
	}
}

// TestPollLater: what had no effect is given again, and what had is acknowledged meanwhile.
func TestPollLater(t *testing.T) {
	s := newSender(t)
	w, p := polled(t, s)
	s.give("1", w.set(claimSet{"jti": "1"}))
	w.revoked.fail(errDown)
	if _, err := p.once(t.Context()); err == nil {
		t.Error("no error")
	}
	w.revoked.fail(nil)
	once(t, p)
	if len(s.acks)+len(s.errs) != 0 || len(w.revoked.all()) != 1 {
		t.Fatalf("acknowledged %v, refused %v", s.acks, s.errs)
	}
	// An answer that never comes leaves the acknowledgement to be said again.
	s.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := p.once(t.Context()); err == nil || err.Error() != "status 502" {
		t.Errorf("error %v", err)
	}
	s.set(nil)
	once(t, p)
	if !slices.Equal(s.acks, []string{"1"}) {
		t.Errorf("acknowledged %v", s.acks)
	}
}

func TestPollBadAnswers(t *testing.T) {
	s := newSender(t)
	_, p := polled(t, s)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	send := func(media, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"accepted":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"media type":   send("text/html", `{"sets":{}}`),
		"not JSON":     send("application/json", `{"sets":`),
		"doubled name": send("application/json", `{"sets":{"1":"a","1":"b"}}`),
		"a list":       send("application/json", `{"sets":["a"]}`),
		"too large":    send("application/json", `{"sets":{"1":"`+strings.Repeat("x", 1<<20)+`"}}`),
		"a long name":  send("application/json", `{"sets":{"`+strings.Repeat("x", maxJTI+1)+`":"a"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			s.set(fault)
			if _, err := p.once(t.Context()); err == nil || strings.Contains(err.Error(), "http") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestPollRun: the loop backs off, comes back at once when all is well, and ends with its context.
func TestPollRun(t *testing.T) {
	s := newSender(t)
	w, p := polled(t, s)
	s.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	ctx, stop := context.WithCancel(t.Context())
	var waits []time.Duration
	p.wait = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		switch len(waits) {
		case 12:
			if got := w.r.Status()[0]; got.PollErr != "status 503" || !got.Polled.IsZero() {
				t.Errorf("status %+v", got)
			}
			s.set(nil)
			s.give("1", w.set(claimSet{"jti": "1"}))
		case 15:
			stop()
			return ctx.Err()
		}
		return nil
	}
	p.run(ctx)
	for i, d := range waits[:12] {
		full := min(time.Second<<i, maxBackoff)
		if d < full/2 || d > full {
			t.Errorf("wait %d is %s, want within %s and %s", i, d, full/2, full)
		}
	}
	if want := []time.Duration{minPause, pollPause, pollPause}; !slices.Equal(waits[12:], want) {
		t.Errorf("then %v", waits[12:])
	}
	if !slices.Equal(s.acks, []string{"1"}) || w.r.Status()[0].PollErr != "" || w.r.Status()[0].Polled.IsZero() || w.counted("poll", Unavailable) != 12 {
		t.Errorf("acknowledged %v, status %+v, counted %v", s.acks, w.r.Status(), w.counts)
	}
	if s.asked[12]["returnImmediately"] != true {
		t.Errorf("after a failure it waits to say what it has: %v", s.asked[12])
	}
}

// TestRunEnds: a request that the transmitter holds ends with the context.
func TestRunEnds(t *testing.T) {
	s := newSender(t)
	held := make(chan struct{})
	s.fault = func(_ http.ResponseWriter, r *http.Request) {
		close(held)
		<-r.Context().Done()
	}
	w, _ := polled(t, s)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.r.Run(ctx); close(done) }()
	<-held
	stop()
	<-done
	if w.r.Status()[0].PollErr != "" {
		t.Errorf("stopping counts as a failure: %+v", w.r.Status())
	}
}

func TestPollConfig(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://idp.example/poll?s=1": true, "http://127.0.0.1:1/poll": true, "http://idp.example/poll": false, "http://localhost/poll": false,
		"ftp://idp.example": false, "https://u:p@idp.example/": false, "/poll": false, "": false, "https://idp.example/#x": false,
	} {
		if err := (&Poll{URL: url, TokenFile: "t"}).check(); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Config{Transmitters: []Transmitter{{}}}, Options{Revoker: &ledger{}}); err == nil {
		t.Error("the zero transmitter is accepted")
	}
	if _, err := New(Config{Alertmanagers: []Alertmanager{{}}}, Options{Revoker: &ledger{}}); err == nil {
		t.Error("the zero Alertmanager is accepted")
	}
	if _, err := New(Config{}, Options{}); err == nil {
		t.Error("no revoker is accepted")
	}
	if err := pause(canceled(t), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("pause: %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
