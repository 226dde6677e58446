package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/killswitch"
)

// refuser is an upstream that answers 401 to the tokens that it is told to, and remembers what it saw.
type refuser struct {
	mu      sync.Mutex
	refused map[string]bool
	all     bool // refuse whatever comes
	seen    []string
	bodies  []string
}

func (u *refuser) serve(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("Authorization")
	b, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.seen, u.bodies = append(u.seen, token), append(u.bodies, string(b))
	refuse := u.all || u.refused[token]
	before := u.seen[max(0, len(u.seen)-2)]
	u.mu.Unlock()
	w.Header().Set("X-Before", before)
	if refuse {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "refused "+token)
		return
	}
	_, _ = io.WriteString(w, "welcome, formerly "+before)
}

// refuseLast has the token that was seen last refused from now on.
func (u *refuser) refuseLast() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refused[u.seen[len(u.seen)-1]] = true
}

func (u *refuser) tokens() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.seen...)
}

func newRefuser(l *lab) *refuser {
	u := &refuser{refused: map[string]bool{}}
	l.mux.HandleFunc("/guarded", u.serve)
	return u
}

// TestStaleCredentialIsRenewed: a cached token that the upstream refuses is replaced, once, and unnoticed where the request can be sent again.
func TestStaleCredentialIsRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		h2           bool
		method, body string
		renewed      bool
	}{
		"h1 GET":            {false, "GET", "", true},
		"h2 GET":            {true, "GET", "", true},
		"DELETE":            {false, "DELETE", "", true},
		"POST without body": {false, "POST", "", true},
		"streamed":          {false, "POST", "pay once", false},
		"streamed in h2":    {true, "POST", "pay once", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			u := newRefuser(l)
			client := l.client(l.token, c.h2)
			do := func() (int, record) {
				var body io.Reader
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				req, err := http.NewRequest(c.method, l.url("https", "bound.ok.test", "/guarded"), body)
				if err != nil {
					t.Fatal(err)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				text, err := io.ReadAll(res.Body)
				if err != nil || c.renewed && strings.Contains(string(text)+res.Header.Get("X-Before"), "Bearer ey") {
					t.Fatalf("%q %v %v", text, res.Header, err)
				}
				return res.StatusCode, l.next()
			}
			if status, rec := do(); status != 200 || rec["attempt"] != nil {
				t.Fatalf("%d, %v", status, rec)
			}
			u.refuseLast()
			status, rec := do()
			seen := u.tokens()
			if !c.renewed {
				if status != 401 || len(seen) != 2 || rec["attempt"] != nil {
					t.Errorf("status %d, record %v, upstream saw %d requests", status, rec, len(seen))
				}
				if status, _ := do(); status != 200 {
					t.Errorf("status %d: the refused token was kept", status)
				}
				return
			}
			if status != 200 || rec["attempt"] != 2.0 || rec["status"] != 200.0 || len(seen) != 3 || seen[1] != seen[0] || seen[2] == seen[1] {
				t.Errorf("status %d, record %v, upstream saw %d requests", status, rec, len(seen))
			}
			if n := l.issuer.Count(devissuer.PathToken); n != 2 {
				t.Errorf("%d exchanges", n)
			}
		})
	}
}

// TestRefusalIsNoLoop: an upstream that refuses everything gets each request twice at most, and the issuer is not asked for each.
func TestRefusalIsNoLoop(t *testing.T) {
	l := newLab(t)
	u := newRefuser(l)
	client := l.client(l.token, false)
	if status, _, err := get(client, l.url("https", "bound.ok.test", "/guarded")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	u.mu.Lock()
	u.all = true
	u.mu.Unlock()
	for i := range 10 {
		status, body, err := get(client, l.url("https", "bound.ok.test", "/guarded"))
		if err != nil || status != 401 || !strings.HasPrefix(body, "refused Bearer") || strings.Contains(body, "ey") {
			t.Fatalf("%d: %d %q %v", i, status, body, err)
		}
	}
	if n := len(u.tokens()); n != 1+2+9 {
		t.Errorf("the upstream saw %d requests", n)
	}
	if n := l.issuer.Count(devissuer.PathToken); n != 2 {
		t.Errorf("%d exchanges", n)
	}
}

// TestRenewalThatFailsKeepsTheAnswer: the tool gets the upstream's 401, whole, when there is no other credential.
func TestRenewalThatFailsKeepsTheAnswer(t *testing.T) {
	for name, f := range map[string]devissuer.Faults{
		"issuer down": {TokenStatus: 503}, "refused": {TokenStatus: 400, TokenBody: `{"error":"invalid_grant"}`},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			u := newRefuser(l)
			client := l.client(l.token, false)
			if status, _, err := get(client, l.url("https", "bound.ok.test", "/guarded")); err != nil || status != 200 {
				t.Fatal(status, err)
			}
			l.next()
			u.refuseLast()
			l.issuer.SetFaults(f)
			status, body, err := get(client, l.url("https", "bound.ok.test", "/guarded"))
			if err != nil || status != 401 || !strings.HasPrefix(body, "refused Bearer [REDACTED:credential]***") {
				t.Errorf("%d %q %v", status, body, err)
			}
			if rec := l.next(); rec["attempt"] != nil || rec["status"] != 401.0 {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestNoRenewalForRevoked: a call that is revoked while the upstream thinks about its 401 gets no other credential.
func TestNoRenewalForRevoked(t *testing.T) {
	l := newLab(t)
	var once sync.Once
	first, reached, answer := "", make(chan struct{}), make(chan struct{})
	l.mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { first = r.Header.Get("Authorization") })
		if r.URL.RawQuery == "wait" {
			close(reached)
			<-answer
			w.WriteHeader(401)
		}
	})
	client := l.client(l.token, false)
	if status, _, err := get(client, l.url("https", "bound.ok.test", "/late")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	l.next()
	done := make(chan string)
	go func() {
		status, _, err := get(client, l.url("https", "bound.ok.test", "/late?wait"))
		done <- fmt.Sprint(status, err != nil)
	}()
	<-reached
	l.revoke(killswitch.Selector{Tenant: []string{"acme"}})
	close(answer)
	if got := <-done; got == "401 false" || got == "200 false" {
		t.Errorf("the revoked call got %s", got)
	}
	if rec := l.next(); rec.str("code") != "revoked" || rec["attempt"] != nil {
		t.Errorf("record %v", rec)
	}
	if n := l.issuer.Count(devissuer.PathToken); n != 1 || first == "" {
		t.Errorf("%d exchanges", n)
	}
}

// TestHeldBodyIsSentAgain: a body that was held can be sent twice, but not before it is out once.
func TestHeldBodyIsSentAgain(t *testing.T) {
	b := &requestBody{in: io.NopCloser(strings.NewReader("as it came")), length: -1}
	if b.resendable() {
		t.Error("a body that is streamed is taken for one that can be sent again")
	}
	held, err := b.hold(64)
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"first", "second"} {
		b.send([]byte(as + string(b.held)))
		if b.resendable() {
			t.Error("may be sent again while it is being read")
		}
		got, err := io.ReadAll(b)
		if err != nil || string(got) != as+string(held) || !b.resendable() {
			t.Errorf("%q, %v", got, err)
		}
	}
}
