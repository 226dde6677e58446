package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestControlPlaneDies kills the control plane while revocations come in. Each of them is in force at the end; and a sidecar
// that starts while there is no control plane still knows them.
func TestControlPlaneDies(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	p := newPlaneWithTokens(t)
	s := p.sidecar(t, w, "one")
	p.must(t, 0, nil, "revoke", "--subject", "user:mallory", "--id", "first", "--reason", "drill", "--yes")

	const n = 6
	var commands sync.WaitGroup
	ended := make([]result, n)
	for i := range n {
		commands.Go(func() {
			ended[i] = p.run(t, "revoke", "--run", fmt.Sprint("run-x", i), "--id", fmt.Sprint("x", i), "--reason", "drill", "--yes")
		})
	}
	eventually(t, "some are written", func() bool { return strings.Contains(p.log.String(), `"id":"x`) })
	p.end(t, syscall.SIGKILL)
	t.Logf("%d of %d were written before", strings.Count(p.log.String(), `"id":"x`), n)
	p.start(t)
	commands.Wait()
	for i, r := range ended { // each repeats by itself until it has an answer
		if r.code != 0 {
			t.Errorf("x%d: %+v", i, r)
		}
	}
	p.known(t, "one")
	for i := range n { // the same request again
		p.must(t, 0, []string{fmt.Sprintf("revoked x%d already", i)}, "revoke", "--run", fmt.Sprint("run-x", i), "--id", fmt.Sprint("x", i), "--reason", "drill", "--yes")
	}
	p.must(t, 0, []string{fmt.Sprintf(`revoked +%d,`, n+1), "at revision 7"}, "status")
	mallory, alice := w.task(t, "user:mallory"), w.task(t, "user:alice")
	p.must(t, 0, []string{"at revision 8", "acknowledged by 1 of 1"}, "drill")

	p.end(t, syscall.SIGKILL)
	state := filepath.Join(w.dir, "one-state", "killswitch.state")
	eventually(t, "the sidecar has saved all", func() bool {
		b, err := os.ReadFile(state)
		return err == nil && strings.Contains(string(b), `"revision":8,`)
	})
	s.kill()
	s = w.launch(t, "one", p.config(w, "one"))
	if got := connect(t, w, s, mallory); got.status != http.StatusForbidden || !strings.Contains(got.body, `"code":"revoked"`) {
		t.Errorf("after a restart without control plane: %d %s", got.status, got.body)
	}
	if got := connect(t, w, s, alice); got.status != http.StatusOK {
		t.Errorf("somebody else's call of a tool of low risk: %d %s", got.status, got.body)
	}
	if s.ready() {
		t.Error("it is ready without having heard the control plane")
	}
	p.start(t)
	eventually(t, "in touch again", s.ready)
}

// TestOldBackup restores the control plane's store from an old backup. Sidecars do not go back, all can see it, nothing is
// written, and an import repairs it.
func TestOldBackup(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	p := newPlane(t)
	s := w.launch(t, "one", p.config(w, "one", "  maxStale: 3s"))
	eventually(t, "in touch", s.ready)
	token := w.task(t, "user:alice")
	if _, text := page(t, "http://"+s.admin+"/metrics"); !strings.Contains(text, `toolgate_kill_switch_refused_total{kind="rollback"} 0`) {
		t.Error("no zero before the first refusal: an alert on an increase would miss it")
	}
	p.must(t, 0, nil, "revoke", "--tool", "another", "--id", "early", "--reason", "drill", "--yes")
	store, backup := filepath.Join(p.dir, "jetstream"), filepath.Join(t.TempDir(), "jetstream")
	p.end(t, syscall.SIGTERM)
	if err := os.CopyFS(backup, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.known(t, "one")
	p.must(t, 0, []string{"acknowledged by 1 of 1"}, "revoke", "--tool", "orders_reader", "--id", "late", "--reason", "drill", "--yes")
	export := write(t, t.TempDir(), "log.ndjson", p.must(t, 0, nil, "export"))
	p.end(t, syscall.SIGTERM)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, store); err != nil {
		t.Fatal(err)
	}
	p.start(t)

	eventually(t, "the control plane is told", func() bool { return strings.Contains(p.run(t, "status").out, "ALARM") })
	p.must(t, 0, []string{"NOT READY +log_lost", "ALARM +log_lost: the log was signed up to revision 2, and the store ends at 1"}, "status")
	if p.ready(t) {
		t.Error("the control plane is ready")
	}
	eventually(t, "the list says why", func() bool {
		return regexp.MustCompile(`live +shop/one .* rollback\n`).MatchString(p.run(t, "sidecars").out)
	})
	p.must(t, 1, []string{"log_lost"}, "revoke", "--tool", "x", "--reason", "r", "--yes")
	p.must(t, 1, []string{"log_lost"}, "restore", "early")
	eventually(t, "the sidecar is not ready", func() bool {
		_, text := page(t, "http://"+s.admin+"/readyz")
		return strings.Contains(text, "the control plane's log was refused: rollback")
	})
	if _, text := page(t, "http://"+s.admin+"/metrics"); !strings.Contains(text, `toolgate_kill_switch_refused_total{kind="rollback"}`) || strings.Contains(text, `{kind="rollback"} 0`) {
		t.Error("the sidecar's metrics do not tell")
	}
	if _, text := page(t, p.api+"/metrics"); !strings.Contains(text, `toolgate_central_alarm{kind="log_lost"} 1`) || !strings.Contains(text, `toolgate_central_alarm{kind="unproven_claim"} 0`) {
		t.Error("the control plane's metrics do not tell")
	}
	if got := connect(t, w, s, token); !strings.Contains(got.body, `"code":"revoked"`) {
		t.Errorf("the sidecar has gone back: %d %s", got.status, got.body)
	}

	p.must(t, 0, []string{"1 entry added"}, "import", export)
	eventually(t, "in touch again", func() bool { return s.ready() && p.ready(t) })
	p.must(t, 0, []string{"restored late at revision 3", "acknowledged by 1 of 1"}, "restore", "late")
	if !allowed(t, w, s, token) {
		t.Error("a call is refused after the restore")
	}
}

// page returns the status and the body of a page.
func page(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// TestFileAndControlPlane: either revokes, and neither undoes the other.
func TestFileAndControlPlane(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	p := newPlane(t)
	s := p.sidecar(t, w, "one", fmt.Sprintf("  file: %q", filepath.Join(w.dir, "revocations.yaml")))
	token := w.task(t, "user:alice")
	revoked := func() bool { return strings.Contains(connect(t, w, s, token).body, `"code":"revoked"`) }
	seen := func(n int) { // the file's changes have no acknowledgement; its own metric tells
		eventually(t, fmt.Sprint(n, " in force"), func() bool {
			_, text := page(t, "http://"+s.admin+"/metrics")
			return strings.Contains(text, fmt.Sprintf("toolgate_kill_switch_active %d\n", n))
		})
	}
	is := func(want bool, when string) {
		t.Helper()
		if got := revoked(); got != want {
			t.Errorf("%s: revoked %v", when, got)
		}
	}
	p.must(t, 0, nil, "revoke", "--tool", "orders_reader", "--id", "both", "--reason", "r", "--yes")
	is(true, "by the control plane")
	w.setRevocations(t, revocation)
	seen(2)
	p.must(t, 0, nil, "restore", "both")
	is(true, "by the file alone")
	w.setRevocations(t, noRevocation)
	seen(0)
	is(false, "by none")
	w.setRevocations(t, revocation)
	seen(1)
	p.must(t, 0, nil, "revoke", "--tool", "orders_reader", "--id", "again", "--reason", "r", "--yes")
	w.setRevocations(t, noRevocation)
	seen(1)
	is(true, "by the control plane alone")
	p.must(t, 0, nil, "restore", "again")
	is(false, "by none")
}

// TestThief has a sidecar's credentials, and then those of the control plane without its signing key.
func TestThief(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	p := newPlane(t)
	s := p.sidecar(t, w, "one")
	token := w.task(t, "user:alice")
	p.must(t, 0, nil, "revoke", "--tool", "orders_reader", "--id", "stop", "--reason", "drill", "--yes")
	other := newPlane(t) // signs with a key of its own
	other.must(t, 0, nil, "revoke", "--tool", "orders_reader", "--id", "stop", "--reason", "drill", "--yes")
	other.must(t, 0, nil, "restore", "stop")
	lines := strings.Split(strings.TrimSpace(other.must(t, 0, nil, "export")), "\n")
	restore := []byte(lines[1])
	heartbeat := make(chan *nats.Msg, 16)
	listener := bus(t, other, "control.creds", nil)
	if _, err := listener.ChanSubscribe("toolgate.killswitch.heartbeat", heartbeat); err != nil {
		t.Fatal(err)
	}

	refused := make(chan string, 64)
	stolen := bus(t, p, "sidecar.creds", refused)
	for _, subject := range []string{
		"toolgate.killswitch.live", "toolgate.killswitch.log", "toolgate.killswitch.heartbeat", "toolgate.killswitch.checkpoint",
		"toolgate.killswitch.ack.team-b.one", "toolgate.killswitch.status.team-b.one", "$JS.API.STREAM.DELETE.TOOLGATE_KILLSWITCH",
		"$JS.API.STREAM.MSG.GET.TOOLGATE_KILLSWITCH",
	} {
		if err := stolen.Publish(subject, restore); err != nil {
			t.Fatal(err)
		}
		select {
		case text := <-refused:
			if !strings.Contains(text, "ermissions Violation for Publish") || !strings.Contains(text, subject) {
				t.Errorf("%s: %s", subject, text)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("the server lets a sidecar publish to %s", subject)
		}
	}

	control := bus(t, p, "control.creds", refused)
	var forged []byte
	select {
	case m := <-heartbeat:
		forged = m.Data
	case <-time.After(20 * time.Second):
		t.Fatal("no heartbeat of the other control plane")
	}
	for n, m := range []struct {
		subject string
		data    []byte
	}{{"toolgate.killswitch.live", restore}, {"toolgate.killswitch.heartbeat", forged}} {
		if err := control.Publish(m.subject, m.data); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is refused by its signature", func() bool {
			_, text := page(t, "http://"+s.admin+"/metrics")
			return strings.Contains(text, fmt.Sprintf("toolgate_kill_switch_refused_total{kind=\"unknown_key\"} %d\n", n+1))
		})
	}
	if got := connect(t, w, s, token); !strings.Contains(got.body, `"code":"revoked"`) {
		t.Errorf("the revocation is gone: %d %s", got.status, got.body)
	}
	p.must(t, 0, []string{`^stop +|\nstop +`}, "list")
	eventually(t, "all agree again", func() bool { return s.ready() && p.ready(t) })
}

// bus connects to a control plane's NATS server with one of its credentials. What is refused goes to a channel.
func bus(t *testing.T, p *plane, creds string, refused chan<- string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(p.nats, nats.UserCredentials(filepath.Join(p.dir, creds)), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if refused != nil {
			refused <- err.Error()
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
