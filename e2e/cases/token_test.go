//go:build linux

package cases

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func tokenCases() []replay {
	return []replay{
		{"TKC-01", "CVE-2026-71326 (traefik), CVE-2026-33496 (oathkeeper)",
			"callers whose tenant and agent make one text when put together: a + bc and ab + c", "two exchanges, and each caller's token on its own requests", borders},
		{"TKC-04", "casdoor/casdoor#5875",
			"a JWT from the token endpoint whose aud is another's, or missing", "it is not sent; the refusal, the record and the metric say wrong_audience", otherAudience},
		{"TKC-06", "BerriAI/litellm#31526",
			"token_type N_A and DPoP, issued_token_type refresh_token and id_token", "nothing is sent", oddTypes},
		{"TKC-07", "RFC 8693 and 6749, odd values",
			"expires_in missing, 0, -1, \"3600\", 1e12, 1.5, a word", "what is over or no number is refused, what is unknown or too short is used once, what is too long is capped", oddExpiry},
		{"TKC-08", "openfga/js-sdk#333",
			"500 first requests of one caller at once", "two exchanges at most; all succeed", stampede},
		{"TKC-09", "zeronsh/zeron#352",
			"20 callers of one token; the first leaves while the endpoint takes a second", "one exchange; the other 19 succeed", firstLeaves},
		{"TKC-11", "CVE-2026-26998 (traefik)",
			"an answer of 1 GiB from the token endpoint", "it is cut after about 1 MiB, nothing is sent, memory stays", endlessAnswer},
		{"TKC-12", "stacklok/toolhive#2045",
			"401 from the upstream to a cached token, once, and for ever; a request with a body", "one exchange more and the request once more; no loop; a streamed body is not sent again", staleToken},
		{"TKC-13", "stacklok/toolhive#6194",
			"a token that is good once, and an upstream that breaks off after it was sent", "an error of the gateway's; the next try has a token of its own and works", brokenAfterExchange},
	}
}

// tokenEndpoint answers with what a case decides.
type tokenEndpoint struct {
	asked atomic.Int64
	url   string
}

// exchanging starts a sidecar that exchanges tokens for x.wild.test at an endpoint of the case's own. answer is called with the number of the
// request, from 1.
func (w *world) exchanging(t *testing.T, answer func(rw http.ResponseWriter, r *http.Request, n int64)) (*world, *tokenEndpoint) {
	t.Helper()
	e := &tokenEndpoint{}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n := e.asked.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		answer(rw, r, n)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	e.url = s.URL
	w.wire.own = append(w.wire.own, netip.MustParseAddrPort(u.Host))
	k := w.lab.world(t, func(set *settings) {
		set.bindings = fmt.Sprintf("    - {name: x, tools: [t1], targets: [\"x.wild.test:443\"], tokenExchange: {mode: impersonation, tokenURL: %q, audience: x, clientAuth: {method: none}}}\n", s.URL)
	})
	return k, e
}

func issued(rw io.Writer, token, more string) {
	_, _ = fmt.Fprintf(rw, `{"access_token":%q,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer"%s}`, token, more)
}

// call makes a request to the bound host and returns status and body.
func (w *world) call(t *testing.T, token, method, body string) (int, string) {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = struct{ io.Reader }{strings.NewReader(body)}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://x.wild.test/", in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.client(t, w.t1, token, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// sent returns what the upstream saw as Authorization.
func (l *lab) sent() (all []string) {
	for _, a := range l.up.arrivals() {
		all = append(all, a.header.Get("Authorization"))
	}
	return all
}

// unsent fails the test unless the call is refused for that reason and nothing reaches the upstream.
func (w *world) unsent(t *testing.T, reason string) {
	t.Helper()
	before := len(w.up.arrivals())
	status, body := w.call(t, w.tokenA, "GET", "")
	if status != http.StatusForbidden || !strings.Contains(body, "credential_denied") || !strings.Contains(body, reason) {
		t.Errorf("%s: %d %s", reason, status, body)
	}
	if len(w.up.arrivals()) != before {
		t.Errorf("%s: the upstream was reached", reason)
	}
}

func borders(t *testing.T, w *world) {
	k, e := w.exchanging(t, func(rw http.ResponseWriter, r *http.Request, _ int64) {
		payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(r.PostFormValue("subject_token"), ".")[1])
		issued(rw, map[bool]string{true: "FOR-A-BC", false: "FOR-AB-C"}[strings.Contains(string(payload), `"bc"`)], `,"expires_in":300`)
	})
	mint := func(tenant, agent string) string {
		return k.mint(t, map[string]any{"sub": "user:alice", "tenant": tenant, "agent_id": agent, "task_id": "k", "run_id": "r", "jti": "same"})
	}
	first, second := mint("a", "bc"), mint("ab", "c")
	for range 2 {
		for _, token := range []string{first, second} {
			if status, body := k.call(t, token, "GET", ""); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	if got := fmt.Sprint(w.sent()); got != "[Bearer FOR-A-BC Bearer FOR-AB-C Bearer FOR-A-BC Bearer FOR-AB-C]" || e.asked.Load() != 2 {
		t.Errorf("%d exchanges; the upstream saw %s", e.asked.Load(), got)
	}
}

func otherAudience(t *testing.T, w *world) {
	token := func(payload string) string {
		enc := base64.RawURLEncoding.EncodeToString
		return enc([]byte(`{"alg":"ES256"}`)) + "." + enc([]byte(payload)) + "." + enc([]byte("signature"))
	}
	for _, payload := range []string{`{"aud":"https://other.example","sub":"user:alice"}`, `{"sub":"user:alice"}`, `{"aud":["y","z"],"sub":"user:alice"}`} {
		k, _ := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, _ int64) {
			issued(rw, token(payload), `,"expires_in":300`)
		})
		k.unsent(t, "wrong_audience")
		if n := k.metric(t, "toolgate_token_exchanges_total", `result="wrong_audience"`); n != 1 {
			t.Errorf("the metric says %d", n)
		}
	}
}

func oddTypes(t *testing.T, w *world) {
	types := [][2]string{
		{"N_A", "urn:ietf:params:oauth:token-type:access_token"}, {"DPoP", "urn:ietf:params:oauth:token-type:access_token"},
		{"Bearer", "urn:ietf:params:oauth:token-type:refresh_token"}, {"Bearer", "urn:ietf:params:oauth:token-type:id_token"}, {"", ""},
	}
	k, _ := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, n int64) {
		_, _ = fmt.Fprintf(rw, `{"access_token":"ODD","issued_token_type":%q,"token_type":%q,"expires_in":300}`, types[n-1][1], types[n-1][0])
	})
	for i := range types {
		k.tokenA = k.mint(t, map[string]any{"sub": "user:alice", "tenant": "A", "task_id": fmt.Sprint(i), "run_id": "r"}) // past the memory of failures
		k.unsent(t, "bad_token_type")
	}
}

func oddExpiry(t *testing.T, w *world) {
	for _, c := range []struct {
		value  string
		reason string // empty: taken
		cached bool
	}{
		{"", "", false}, {"null", "", false}, {"0", "expired", false}, {"-1", "expired", false}, {`"3600"`, "", true}, {"1e12", "", true},
		{"1.5", "", true}, {`"soon"`, "bad_expires_in", false}, {"{}", "bad_expires_in", false},
	} {
		more := ""
		if c.value != "" {
			more = `,"expires_in":` + c.value
		}
		k, e := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, n int64) { issued(rw, fmt.Sprint("TOKEN-", n), more) })
		if c.reason != "" {
			k.unsent(t, c.reason)
			continue
		}
		for range 2 {
			if status, body := k.call(t, k.tokenA, "GET", ""); status != http.StatusOK {
				t.Errorf("%s: %d %s", c.value, status, body)
			}
		}
		if c.value == "1.5" { // kept for so short a time that a slow machine may miss it; but not a second longer
			eventually(t, "the token of 1.5 s is over", func() bool { k.call(t, k.tokenA, "GET", ""); return e.asked.Load() >= 2 })
			continue
		}
		if n := e.asked.Load(); n != map[bool]int64{true: 1, false: 2}[c.cached] {
			t.Errorf("expires_in %s: %d exchanges for two calls", c.value, n)
		}
		if c.value == "1e12" {
			for line := range strings.Lines(k.stdout.String()) {
				if _, after, ok := strings.Cut(line, `"credential_expires":"`); ok {
					if at, err := time.Parse(time.RFC3339, after[:strings.IndexByte(after, '"')]); err != nil || time.Until(at) > 25*time.Hour {
						t.Errorf("it is taken to last until %v, %v", at, err)
					}
				}
			}
		}
	}
}

func stampede(t *testing.T, w *world) {
	k, e := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, n int64) {
		<-time.After(200 * time.Millisecond) // so that all are waiting
		issued(rw, fmt.Sprint("TOKEN-", n), `,"expires_in":300`)
	})
	client := k.client(t, k.t1, k.tokenA, true)
	var wg sync.WaitGroup
	var failed atomic.Int64
	callers := many(500) // each with a handshake of its own
	for range callers {
		wg.Go(func() {
			res, err := client.Get("https://x.wild.test/")
			if err != nil {
				failed.Add(1)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 || e.asked.Load() > 2 {
		t.Errorf("%d of %d failed, %d exchanges", failed.Load(), callers, e.asked.Load())
	}
}

func firstLeaves(t *testing.T, w *world) {
	arrived, release := make(chan struct{}, 64), make(chan struct{})
	k, e := w.exchanging(t, func(rw http.ResponseWriter, r *http.Request, n int64) {
		arrived <- struct{}{}
		select {
		case <-release:
			issued(rw, fmt.Sprint("TOKEN-", n), `,"expires_in":300`)
		case <-r.Context().Done():
		}
	})
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	first := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(leaving, http.MethodGet, "https://x.wild.test/", nil)
		if err == nil {
			_, err = k.client(t, k.t1, k.tokenA, false).Do(req)
		}
		first <- err
	}()
	<-arrived
	var wg sync.WaitGroup
	for range 19 {
		wg.Go(func() {
			if status, body := k.call(t, k.tokenA, "GET", ""); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	eventually(t, "all wait", func() bool { return k.metric(t, "toolgate_token_cache_events_total", `result="miss"`) == 20 })
	leave()
	if err := <-first; err == nil {
		t.Error("the first has not left")
	}
	close(release)
	wg.Wait()
	if e.asked.Load() != 1 {
		t.Errorf("%d exchanges", e.asked.Load())
	}
}

func endlessAnswer(t *testing.T, w *world) {
	var written atomic.Int64
	k, _ := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, _ int64) {
		block := []byte(strings.Repeat("x", 1<<20))
		_, _ = io.WriteString(rw, `{"access_token":"`)
		for range 1 << 10 {
			n, err := rw.Write(block)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	before := k.metric(t, "process_resident_memory_bytes", "")
	k.unsent(t, "bad_answer")
	if n := written.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if grown := k.metric(t, "process_resident_memory_bytes", "") - before; grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}

func staleToken(t *testing.T, w *world) {
	k, e := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, n int64) {
		issued(rw, fmt.Sprint("TOKEN-", n), `,"expires_in":300`)
	})
	stale, always := atomic.Pointer[string]{}, atomic.Bool{}
	var bodies atomic.Int64
	w.up.handle("x.wild.test", func(rw http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); len(b) > 0 {
			bodies.Add(1)
		}
		if s := stale.Load(); always.Load() || s != nil && *s == r.Header.Get("Authorization") {
			rw.WriteHeader(http.StatusUnauthorized)
		}
	})
	want := func(what string, sent int, asked int64) {
		t.Helper()
		if n := len(w.sent()); n != sent || e.asked.Load() != asked {
			t.Errorf("%s: %d requests at the upstream, want %d; %d exchanges, want %d", what, n, sent, e.asked.Load(), asked)
		}
	}
	get := func(method, body string, status int) {
		t.Helper()
		if got, text := k.call(t, k.tokenA, method, body); got != status {
			t.Errorf("%d %s, want %d", got, text, status)
		}
	}
	get("GET", "", 200)
	refuse := "Bearer TOKEN-1"
	stale.Store(&refuse)
	get("GET", "", 200)
	want("a stale token", 3, 2)
	always.Store(true)
	get("GET", "", 401)
	get("GET", "", 401)
	want("an upstream that refuses all", 5, 2)
	always.Store(false)

	k.tokenA = k.mint(t, map[string]any{"sub": "user:alice", "tenant": "A", "task_id": "other", "run_id": "r"})
	get("GET", "", 200)
	refuse3 := "Bearer TOKEN-3"
	stale.Store(&refuse3)
	get("POST", "pay once", 401)
	want("a streamed body", 7, 3)
	if bodies.Load() != 1 {
		t.Errorf("the body was sent %d times", bodies.Load())
	}
	get("POST", "pay once", 200)
	want("the next try", 8, 4)
}

func brokenAfterExchange(t *testing.T, w *world) {
	k, e := w.exchanging(t, func(rw http.ResponseWriter, _ *http.Request, n int64) { issued(rw, fmt.Sprint("ONCE-", n), "") })
	var n atomic.Int64
	w.up.handle("x.wild.test", func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	if status, body := k.call(t, k.tokenA, "POST", "x"); status != http.StatusBadGateway {
		t.Errorf("%d %s", status, body)
	}
	if status, body := k.call(t, k.tokenA, "POST", "x"); status != http.StatusOK {
		t.Errorf("the next try: %d %s", status, body)
	}
	if got := fmt.Sprint(w.sent()); got != "[Bearer ONCE-1 Bearer ONCE-2]" || e.asked.Load() != 2 {
		t.Errorf("%d exchanges; the upstream saw %s", e.asked.Load(), got)
	}
}
