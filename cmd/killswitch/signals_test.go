package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
	"github.com/toolgate/toolgate/killswitch/signals"
)

// post sends a body as a sender does and returns the status and the answer.
func (p *plane) post(path, token, media, body string) (int, string) {
	p.Helper()
	req, err := http.NewRequest(http.MethodPost, p.client.base+path, strings.NewReader(body))
	check(p, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", media)
	res, err := http.DefaultClient.Do(req)
	check(p, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	check(p, err)
	return res.StatusCode, string(b)
}

func (p *plane) push(name, token, set string) (int, string) {
	p.Helper()
	return p.post("/v1/signals/"+name, token, "application/secevent+jwt", set)
}

func (p *plane) alert(token, status string) (int, string) {
	p.Helper()
	return p.alertAt("prod", token, status, "")
}

// alertAt posts an alert with more labels.
func (p *plane) alertAt(name, token, status, labels string) (int, string) {
	p.Helper()
	return p.post("/v1/alerts/"+name, token, "application/json", `{"version":"4","alerts":[{"status":"`+status+`",
		"labels":{"alertname":"RunsWild","toolgate_tool":"refunds"`+labels+`},"startsAt":"2026-11-29T10:00:00Z","fingerprint":"0badcafe0badcafe"}]}`)
}

// run runs a command of the program against p and returns what it prints.
func (p *plane) run(args ...string) string {
	p.Helper()
	cmd := exec.Command("killswitch", args...)
	cmd.Env = append(os.Environ(), envServer+"="+p.client.base, envToken+"="+filepath.Join(p.dir, "admin.token"))
	b, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("killswitch %v: %v\n%s", args, err, b)
	}
	return string(b)
}

func (p *plane) eventually(what string, so func() bool) {
	p.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(limit) {
			p.Fatalf("it does not come to pass that %s", what)
		}
	}
}

// listens starts a control plane that listens to x.
func listens(t *testing.T, x *transmitter, flags ...string) *plane {
	p := &plane{T: t, dir: t.TempDir()}
	p.flags = append([]string{"--signals", x.files(t.TempDir())}, flags...)
	p.start()
	t.Cleanup(p.kill)
	p.eventually("it is ready", func() bool {
		res, err := http.Get(p.client.base + "/readyz")
		check(t, err)
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p
}

// TestSignalsPush: an event that is pushed is a revocation, once, and nobody else's token makes one.
func TestSignalsPush(t *testing.T) {
	x := newTransmitter(t)
	p := listens(t, x)
	admin := p.client.token
	alice := x.set("1", "alice@example.com", nil)
	for name, try := range map[string]func() (int, string){
		"a wrong token":    func() (int, string) { return p.push("pushes", "another-token-of-the-tests", alice) },
		"an admin's token": func() (int, string) { return p.push("pushes", admin, alice) },
		"another audience": func() (int, string) {
			return p.push("pushes", pushToken, x.set("2", "a@example.com", map[string]any{"aud": "x"}))
		},
		"no SET":                  func() (int, string) { return p.push("pushes", pushToken, "x") },
		"one that only is polled": func() (int, string) { return p.push("polled", pollToken, alice) },
		"one that nobody knows":   func() (int, string) { return p.push("other", pushToken, alice) },
		"the push token at the API": func() (int, string) {
			return p.post("/v1/revocations", pushToken, "application/json", `{"selector":{"all":true},"reason":"r"}`)
		},
		"an alert's wrong token": func() (int, string) { return p.alert("another-token-of-the-tests", "firing") },
	} {
		want := http.StatusBadRequest
		switch name {
		case "one that only is polled", "one that nobody knows":
			want = http.StatusNotFound
		case "the push token at the API", "an alert's wrong token":
			want = http.StatusUnauthorized
		}
		if status, body := try(); status != want {
			t.Errorf("%s: status %d, want %d; %s", name, status, want, body)
		}
	}
	if list := p.run("list"); !strings.Contains(list, "nothing is revoked") {
		t.Fatalf("revoked:\n%s", list)
	}
	for range 2 {
		if status, body := p.push("pushes", pushToken, alice); status != http.StatusAccepted {
			t.Fatalf("status %d, %s", status, body)
		}
	}
	list, history := p.run("list"), p.run("history")
	for _, want := range []string{"subject=user:alice@example.com", "session-revoked at pushes ", "signals:pushes"} {
		if strings.Count(list, want) != 1 || strings.Count(history, want) != 1 {
			t.Errorf("not once %q:\n%s%s", want, list, history)
		}
	}
	if strings.Contains(list, "helpdesk") {
		t.Errorf("callers would read what is for administrators:\n%s", list)
	}
	// Tokens are changed by changing the file.
	check(t, os.WriteFile(filepath.Join(filepath.Dir(p.flags[1]), "push"), []byte("the-next-token-of-the-tests\n"), 0o600))
	if status, _ := p.push("pushes", pushToken, alice); status != http.StatusBadRequest {
		t.Errorf("the old token: status %d", status)
	}
	if status, _ := p.push("pushes", "the-next-token-of-the-tests", x.set("3", "bob@example.com", nil)); status != http.StatusAccepted {
		t.Errorf("the new token: status %d", status)
	}
	p.counts(
		`{event="session-revoked",result="revoked",sender="pushes"} 3`, `{event="other",result="unauthenticated",sender="pushes"} 3`,
		`{event="other",result="bad_audience",sender="pushes"} 1`, `{event="alert",result="unauthenticated",sender="prod"} 1`,
	)
	if status := p.run("status"); !strings.Contains(status, "pushes: heard 2") {
		t.Errorf("status:\n%s", status)
	}
}

// counts fails unless the metric of signals has these lines.
func (p *plane) counts(want ...string) {
	p.Helper()
	res, err := http.Get(p.client.base + "/metrics")
	check(p, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	check(p, err)
	for _, line := range want {
		if !strings.Contains(string(b), "toolgate_central_signals_total"+line+"\n") {
			p.Errorf("no %s in\n%s", line, b)
		}
	}
}

// TestSignalsAlert: an alert revokes; resolved, it restores, or proposes to where a second person must approve, and says so.
func TestSignalsAlert(t *testing.T) {
	for name, tc := range map[string]struct {
		flags  []string
		result string
		active bool
	}{
		"alone":           {nil, "restored", false},
		"a second person": {[]string{"--second-person", "restore"}, "proposed", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := listens(t, newTransmitter(t), tc.flags...)
			for range 2 {
				if status, body := p.alert(pushToken, "firing"); status != http.StatusOK {
					t.Fatalf("status %d, %s", status, body)
				}
			}
			if list := p.run("list"); strings.Count(list, "tool=refunds") != 1 || !strings.Contains(list, "alert RunsWild at prod") || !strings.Contains(list, "alerts:prod") {
				t.Errorf("revoked:\n%s", list)
			}
			for range 2 {
				if status, body := p.alert(pushToken, "resolved"); status != http.StatusOK {
					t.Fatalf("status %d, %s", status, body)
				}
			}
			if list := p.run("list"); strings.Contains(list, "tool=refunds") != tc.active {
				t.Errorf("then:\n%s", list)
			}
			if list := p.run("proposals"); (strings.Count(list, "propose restore") == 1) != tc.active {
				t.Errorf("proposals:\n%s", list)
			}
			p.counts(`{event="alert",result="revoked",sender="prod"} 2`, `{event="alert",result="`+tc.result+`",sender="prod"} 2`)
		})
	}
}

// TestSignalsTenants: a sender that is limited to tenants stops nothing of others.
func TestSignalsTenants(t *testing.T) {
	x := newTransmitter(t)
	p := listens(t, x)
	if status, body := p.push("limited", pushToken, x.set("1", "alice@example.com", nil)); status != http.StatusBadRequest {
		t.Errorf("an event for all tenants: status %d, %s", status, body)
	}
	for _, labels := range []string{"", `,"toolgate_tenant":"globex"`} {
		if status, body := p.alertAt("acme", pushToken, "firing", labels); status != http.StatusBadRequest || !strings.Contains(body, `"refused"`) {
			t.Errorf("labels %s: status %d, %s", labels, status, body)
		}
	}
	if list := p.run("list"); !strings.Contains(list, "nothing is revoked") {
		t.Errorf("revoked:\n%s", list)
	}
	if status, body := p.alertAt("acme", pushToken, "firing", `,"toolgate_tenant":"acme"`); status != http.StatusOK {
		t.Errorf("its own tenant: status %d, %s", status, body)
	}
	if list := p.run("list"); !strings.Contains(list, "tenant=acme") {
		t.Errorf("revoked:\n%s", list)
	}
}

// TestSignalsPoll: an event that is given to a poll is acknowledged once it is a revocation, and a held poll ends with serve.
func TestSignalsPoll(t *testing.T) {
	x := newTransmitter(t)
	p := listens(t, x)
	x.poll <- map[string]string{"7": x.set("7", "carol@example.com", nil)}
	p.eventually("the event is acknowledged", func() bool { return x.acked("7") })
	if list := p.run("list"); !strings.Contains(list, "subject=user:carol@example.com") || !strings.Contains(list, "signals:polled") {
		t.Errorf("revoked:\n%s", list)
	}
	p.eventually("the status tells of the poll", func() bool {
		var o central.Overview
		check(t, p.client.do(context.Background(), "GET", "/v1/overview", nil, &o))
		return len(o.Senders) == 3 && o.Senders[1].Name == "polled" && !o.Senders[1].Polled.IsZero() && o.Senders[1].Problem == ""
	})
	check(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestSettled: only what repeating cannot mend is a refusal for good; of anything else the sender must try again.
func TestSettled(t *testing.T) {
	for code, want := range map[central.Code]error{
		central.Conflict: signals.ErrTaken, central.NotFound: signals.ErrUnknown, central.Invalid: signals.ErrRefused, central.Forbidden: signals.ErrRefused,
		central.Unavailable: nil, central.UnknownOutcome: nil, central.LogBroken: nil, central.LogLost: nil,
	} {
		err := settled(central.Outcome{}, &central.Error{Code: code})
		if want == nil {
			want = &central.Error{Code: code}
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
	}
	if err := settled(central.Outcome{}, context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	if err := settled(central.Outcome{Entry: &ledger.Entry{Op: ledger.Propose}}, nil); !errors.Is(err, signals.ErrProposed) {
		t.Errorf("a proposal: %v", err)
	}
	if err := settled(central.Outcome{Entry: &ledger.Entry{Op: ledger.Revoke}}, nil); err != nil {
		t.Errorf("done: %v", err)
	}
}
