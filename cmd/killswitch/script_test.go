package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

const patience = 30 * time.Second

// TestMain makes the test binary the program as well: scripts and tests find it as "killswitch".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"killswitch": main})
}

// TestScript runs testdata/script: what a person sees of the commands.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe, "crash": scriptCrash, "sidecar": scriptSidecar, "held": scriptHeld, "setfrom": scriptSetFrom,
		},
	})
}

type servers struct {
	mu  sync.Mutex
	all map[string]*exec.Cmd
}

var running = servers{all: map[string]*exec.Cmd{}}

// scriptServe: "serve DIR [FLAG...]" starts a control plane and sets the environment of clients.
func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	out := dir + ".out"
	f, err := os.Create(out)
	ts.Check(err)
	log, err := os.Create(dir + ".err")
	ts.Check(err)
	cmd := exec.Command("killswitch", append([]string{"serve", "--dir", dir, "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--warm-up", "1ns"}, args[1:]...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), f, log
	ts.Check(cmd.Start())
	running.mu.Lock()
	running.all[dir] = cmd
	running.mu.Unlock()
	ts.Defer(func() { stop(dir) })
	found := waitFor(ts, out, `listening on (\S+)[\s\S]*servers: \["([^"]+)"\][\s\S]*publicKey: "([^"]+)"`)
	ts.Setenv("TOOLGATE_KILLSWITCH_SERVER", found[1])
	ts.Setenv("NATS", found[2])
	ts.Setenv("PUBLIC_KEY", found[3])
	ts.Setenv("TOOLGATE_KILLSWITCH_TOKEN_FILE", filepath.Join(dir, "admin.token"))
}

// scriptCrash: "crash DIR" ends a control plane with kill -9.
func scriptCrash(ts *testscript.TestScript, _ bool, args []string) { stop(ts.MkAbs(args[0])) }

func stop(dir string) {
	running.mu.Lock()
	defer running.mu.Unlock()
	if cmd := running.all[dir]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(running.all, dir)
	}
}

func waitFor(ts *testscript.TestScript, file, pattern string) []string {
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(file)
		if m := re.FindStringSubmatch(string(b)); err == nil && m != nil {
			return m
		}
		select {
		case <-tick.C:
		case <-limit.C:
			ts.Fatalf("%s has no %s:\n%s", file, pattern, b)
		}
	}
}

// scriptSidecar: "sidecar DIR NAME deaf|well TOOL..." is a sidecar, which acknowledges if it is well.
func scriptSidecar(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := nats.Connect(ts.Getenv("NATS"), nats.UserCredentials(filepath.Join(ts.MkAbs(args[0]), "sidecar.creds")))
	ts.Check(err)
	ts.Defer(conn.Close)
	keys, err := ledger.ParseKeys(ts.Getenv("PUBLIC_KEY"))
	ts.Check(err)
	who := bus.Sidecar{Instance: args[1], Pod: args[1], Namespace: "shop", Version: "test", Tools: args[3:]}
	say := func(subject string, v any) {
		b, err := json.Marshal(v)
		ts.Check(err)
		ts.Check(conn.Publish(subject, b))
	}
	if args[2] == "well" {
		_, err = conn.Subscribe(bus.SubjectLive, func(m *nats.Msg) {
			if e, err := keys.Decode(m.Data); err == nil {
				say(bus.SubjectAck("sidecar", who.Instance), bus.Ack{Sidecar: who, Revision: e.Revision, Head: e.Hash(), Cut: 2})
			}
		})
		ts.Check(err)
		_, err = conn.Subscribe(bus.SubjectProbe, func(m *nats.Msg) {
			var q bus.Probe
			if json.Unmarshal(m.Data, &q) == nil {
				say(bus.SubjectAnswer("sidecar", who.Instance), bus.Answer{Sidecar: who, ID: q.ID, Calls: 2})
			}
		})
		ts.Check(err)
	}
	say(bus.SubjectStatus("sidecar", who.Instance), bus.Status{Sidecar: who})
	ts.Check(conn.Flush())
	cmd := func() string {
		c := exec.Command("killswitch", "sidecars")
		c.Env = []string{"TOOLGATE_KILLSWITCH_SERVER=" + ts.Getenv("TOOLGATE_KILLSWITCH_SERVER"), "TOOLGATE_KILLSWITCH_TOKEN_FILE=" + ts.Getenv("TOOLGATE_KILLSWITCH_TOKEN_FILE"), "PATH=" + os.Getenv("PATH")}
		b, _ := c.CombinedOutput()
		return string(b)
	}
	for limit := time.Now().Add(patience); !strings.Contains(cmd(), args[1]); {
		if time.Now().After(limit) {
			ts.Fatalf("the sidecar is not known")
		}
	}
}

// scriptHeld: "held VAR" sets a variable to an address that is taken.
func scriptHeld(ts *testscript.TestScript, _ bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = ln.Close() })
	ts.Setenv(args[0], ln.Addr().String())
}

// scriptSetFrom: "setfrom VAR FILE PATTERN" sets a variable to what the pattern's group finds.
func scriptSetFrom(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if m == nil {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], m[1])
}
