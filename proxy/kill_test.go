package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/killswitch"
)

// stream makes the upstream send one event and then hold the stream open.
func (l *lab) stream() {
	l.mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

func TestRevocationCutsRunningStreams(t *testing.T) {
	for name, c := range map[string]struct {
		h2     bool
		scheme string
		host   string
	}{
		"h1 intercepted": {false, "https", "bound.ok.test"},
		"h2 intercepted": {true, "https", "bound.ok.test"},
		"plain":          {false, "http", "plain.ok.test"},
		"relayed":        {true, "https", "pass.ok.test"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.stream()
			client := l.client(l.token, c.h2)
			res, err := client.Get(l.url(c.scheme, c.host, "/stream"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body := bufio.NewReader(res.Body)
			if line, err := body.ReadString('\n'); err != nil || line != "data: one\n" {
				t.Fatalf("%q %v", line, err)
			}
			began := time.Now()
			l.revoke(killswitch.Selector{Tenant: []string{"acme"}})
			if _, err := io.ReadAll(body); err == nil {
				t.Error("the cut stream looked complete")
			}
			t.Logf("cut after %v", time.Since(began))
			rec := l.next()
			if rec.str("code") != "revoked" || rec.str("revocation_id") != "r0" || rec.str("decision") != "allow" || rec.str("error_class") != "cut" {
				t.Errorf("record %v", rec)
			}
			l.noMore() // the tunnel that carried the stream is no call of its own
			_, _, err = get(client, l.url("https", "pass.ok.test", "/"))
			if err == nil || !strings.Contains(err.Error(), "revoked") {
				t.Errorf("a new call: %v", err)
			}
			if rec := l.next(); rec.str("code") != "revoked" || rec.str("decision") != "deny" {
				t.Errorf("record %v", rec)
			}
		})
	}
}

func TestRevocationLeavesOthersAlone(t *testing.T) {
	l := newLab(t)
	l.stream()
	other := l.mint(map[string]any{"tenant": "globex", "run_id": "run-2"})
	res, err := l.client(other, true).Get(l.url("https", "bound.ok.test", "/stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	l.revoke(killswitch.Selector{Tenant: []string{"acme"}}, killswitch.Selector{Run: []string{"run-1"}}, killswitch.Selector{Tool: []string{"t2"}})
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != "data: one\n" {
		t.Errorf("%q %v", line, err)
	}
	l.noMore()
}

// TestRevocationAnswersAPendingCall: no header was sent yet, so the agent can be told why.
func TestRevocationAnswersAPendingCall(t *testing.T) {
	l := newLab(t)
	arrived := make(chan struct{})
	l.mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() })
	go func() {
		<-arrived
		l.revoke(killswitch.Selector{Host: []string{"plain.ok.test"}})
	}()
	status, body, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/hang"))
	if err != nil || status != 403 || problemOf(t, body).Code != Revoked {
		t.Errorf("%d %q %v", status, body, err)
	}
	if rec := l.next(); rec.str("code") != "revoked" || rec.str("decision") != "allow" || rec.str("error_class") != "cut" {
		t.Errorf("record %v", rec) // the upstream has it
	}
}

// TestRevocationBeforeAnythingWasSent: a call that is still being connected when it is revoked is one that was denied.
func TestRevocationBeforeAnythingWasSent(t *testing.T) {
	l := newLab(t)
	l.names.hold = make(chan struct{})
	defer close(l.names.hold)
	go func() {
		waitUntil(t, func() bool { return len(l.names.asked()) > 0 })
		l.revoke(killswitch.Selector{Host: []string{"plain.ok.test"}})
	}()
	status, body, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/"))
	if err != nil || status != 403 || problemOf(t, body).Code != Revoked {
		t.Errorf("%d %q %v", status, body, err)
	}
	if rec := l.next(); rec.str("code") != "revoked" || rec.str("decision") != "deny" || rec.str("error_class") != "cut" {
		t.Errorf("record %v", rec)
	}
}

func TestRevocationDropsCachedTokens(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	client := l.client(l.token, false)
	call := func() {
		t.Helper()
		if status, body, err := get(client, l.url("https", "bound.ok.test", "/")); err != nil || status != 200 {
			t.Fatalf("%d %q %v", status, body, err)
		}
	}
	call()
	call()
	if n := l.issuer.Count("/token"); n != 1 {
		t.Fatalf("%d exchanges for two calls, expected 1", n)
	}
	for i, s := range []killswitch.Selector{
		{Tool: []string{"t1"}}, {Risk: []string{"high"}}, {Host: []string{"bound.ok.test"}}, {All: true}, {CapabilityClass: []string{"read_private"}},
	} {
		l.revoke(s)
		l.revoke() // restored
		call()
		if n := l.issuer.Count("/token"); n != i+2 {
			t.Errorf("after revoking %+v and restoring: %d exchanges, expected %d", s, n, i+2)
		}
	}
	l.revoke(killswitch.Selector{Tenant: []string{"globex"}})
	call()
	if n := l.issuer.Count("/token"); n != 6 {
		t.Errorf("another tenant's revocation dropped the token")
	}
	if n := l.proxy.gates.Load().drop(func(broker.Key) bool { return true }); n != 1 {
		t.Errorf("%d cached tokens, expected 1", n)
	}
}

func TestStaleKillSwitchDeniesHighRisk(t *testing.T) {
	for risk, code := range map[string]string{"high": "kill_switch_stale", "critical": "kill_switch_stale", "low": "", "medium": ""} {
		t.Run(risk, func(t *testing.T) {
			l := newLab(t, replaced(t, "risk: high", "risk: "+risk))
			l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			l.proxy.kill = killswitch.New(time.Minute, "never heard")
			res, err := l.client(l.token, false).Get(l.url("http", "plain.ok.test", "/"))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("Toolgate-Denial"); got != code || code != "" && (res.StatusCode != 503 || res.Header.Get("Retry-After") == "") {
				t.Errorf("status %d, code %q", res.StatusCode, got)
			}
			l.next()
			status, body, err := get(http.DefaultClient, l.admin.URL+"/readyz")
			if err != nil || status != 503 || !strings.Contains(body, "stale") {
				t.Errorf("readyz: %d %q %v", status, body, err)
			}
		})
	}
}
