package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// plane is the real program as its own process.
type plane struct {
	*testing.T
	dir    string
	cmd    *exec.Cmd
	client *client
	keys   ledger.Keys
	flags  []string // more of serve's
}

func (p *plane) start() {
	p.Helper()
	out, err := os.CreateTemp(p.TempDir(), "out")
	check(p, err)
	p.cmd = exec.Command("killswitch", append([]string{"serve", "--dir", p.dir, "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}, p.flags...)...)
	p.cmd.Stdout = out
	check(p, p.cmd.Start())
	re := regexp.MustCompile(`listening on (\S+)[\s\S]*publicKey: "([^"]+)"`)
	var m [][]byte
	for limit := time.Now().Add(patience); m == nil; {
		b, err := os.ReadFile(out.Name())
		check(p, err)
		if m = re.FindSubmatch(b); m == nil && time.Now().After(limit) {
			p.Fatalf("it does not start: %s", b)
		}
	}
	p.client, err = (&remote{server: string(m[1]), tokenFile: filepath.Join(p.dir, "admin.token")}).dial()
	check(p, err)
	p.keys, err = ledger.ParseKeys(string(m[2]))
	check(p, err)
}

func (p *plane) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *plane) revoke(id string) error {
	var o central.Outcome
	return p.client.do(context.Background(), "POST", "/v1/revocations", central.Request{ID: id, Selector: ledger.Selector{Tool: []string{id}}, Reason: "r"}, &o)
}

// TestKilledDuringRevocations: what was confirmed before a kill -9 is there after it, and what was not is there once when
// it is asked for again.
func TestKilledDuringRevocations(t *testing.T) {
	p := &plane{T: t, dir: t.TempDir()}
	p.start()
	defer func() { p.kill() }()
	confirmed := map[string]bool{}
	asked := map[string]bool{}
	for round := range 3 {
		var mu sync.Mutex
		var all sync.WaitGroup
		enough := make(chan struct{})
		for worker := range 4 {
			all.Go(func() {
				for n := 0; ; n++ {
					id := fmt.Sprintf("r%d-w%d-%d", round, worker, n)
					mu.Lock()
					asked[id] = true
					mu.Unlock()
					err := p.insistUntilUp(id, n == 0)
					mu.Lock()
					if err == nil {
						confirmed[id] = true
						if len(confirmed) == 20*(round+1) {
							close(enough)
						}
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		<-enough
		p.kill()
		all.Wait()
		p.start()
	}
	check(t, p.insistUntilUp("last", true))
	asked["last"] = true
	inForce := p.verified()
	for id := range confirmed {
		if !inForce[id] {
			t.Errorf("%s was confirmed and is lost", id)
		}
	}
	for id := range asked {
		check(t, p.revoke(id))
	}
	if inForce = p.verified(); len(inForce) != len(asked) {
		t.Errorf("%d in force, %d asked for", len(inForce), len(asked))
	}
	t.Logf("%d confirmed of %d asked for", len(confirmed), len(asked))
}

// insistUntilUp asks again while the control plane is starting, which it says.
func (p *plane) insistUntilUp(id string, starting bool) error {
	for limit := time.Now().Add(patience); ; {
		err := p.revoke(id)
		if err == nil || !starting || isUnreached(err) || time.Now().After(limit) {
			return err
		}
	}
}

// verified exports the log, verifies it and returns what is in force.
func (p *plane) verified() map[string]bool {
	p.Helper()
	res, err := p.client.send(p.Context(), "GET", "/v1/export", "", nil)
	check(p, err)
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	check(p, err)
	entries, state, err := central.ReadExport(&b, p.keys)
	check(p, err)
	ids := map[string]bool{}
	for _, r := range state.Active() {
		ids[r.ID] = true
	}
	if len(ids) != len(entries) {
		p.Errorf("%d entries, %d in force: something is there twice", len(entries), len(ids))
	}
	return ids
}
