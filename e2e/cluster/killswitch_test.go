//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// embedded is the kill switch of an installation, with its store, and a person who may use it.
type embedded struct {
	*kube
	program, ca, token, tokens string
	stop                       func() // of kubectl port-forward
	env                        []string
}

// withVolume makes the volume of the store: the node has nobody who would.
func withVolume(t *testing.T) {
	t.Helper()
	k := onNode(t, tierC)
	const dir = "/var/lib/killswitch-volume"
	k.run(t, "rm", "-rf", dir)
	k.run(t, "install", "-d", "-o", "64117", "-g", "64117", "-m", "700", dir)
	k.apply(t, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: killswitch}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: toolgate, name: data-toolgate-killswitch-0}
  hostPath: {path: `+dir+`}
`)
	t.Cleanup(func() {
		if err := k.try(nil, "delete", "pv", "killswitch", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
}

// newPerson does what docs/install.md says for who is to use the kill switch: a token, its line for the chart, and a port forwarded.
func newPerson(t *testing.T, k *kube) *embedded {
	t.Helper()
	e := &embedded{kube: k, program: k.m.path("killswitch")}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", e.program, "../../cmd/killswitch")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	e.ca, e.token, e.tokens = k.m.path("killswitch-ca.crt"), k.m.path("killswitch-token"), k.m.path("tokens")
	var made struct{ Token, Line string }
	if err := json.Unmarshal([]byte(k.run(t, e.program, "token", "--name", "alice@example.com", "--roles", "admin", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	ca, err := base64.StdEncoding.DecodeString(k.kubectl(t, "get", "secret", "toolgate-killswitch-tls", "-o", `jsonpath={.data.ca\.crt}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{e.ca: string(ca), e.token: made.Token, e.tokens: made.Line + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.kubectl(t, "create", "secret", "generic", "killswitch-tokens", "--from-file="+e.tokens)
	k.helm(t, "", "upgrade", "toolgate", chart, "--reuse-values", "--set", "killSwitch.tokensSecret=killswitch-tokens", "--wait", "--timeout", "90s")
	e.forward(t)
	return e
}

var forwarding = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

// forward forwards a free port of the node to the kill switch's Service.
func (e *embedded) forward(t *testing.T) {
	t.Helper()
	if e.stop != nil {
		e.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := e.m.command(ctx, e.m.cache.program("kubectl"), "-n", e.namespace, "port-forward", "service/toolgate-killswitch", ":15030")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var once bool
	e.stop = func() {
		if !once {
			once = true
			cancel()
			_ = cmd.Wait() // it was killed
		}
	}
	t.Cleanup(e.stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil {
			e.env = []string{"TOOLGATE_KILLSWITCH_SERVER=https://localhost:" + m[1], "TOOLGATE_KILLSWITCH_CA_FILE=" + e.ca, "TOOLGATE_KILLSWITCH_TOKEN_FILE=" + e.token}
			return
		}
	}
	t.Fatal("kubectl port-forward ended before it said where")
}

// killswitch runs a command of the killswitch, and decodes what it says into v.
func (e *embedded) killswitch(v any, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := e.m.command(ctx, append([]string{"env"}, append(e.env, append([]string{e.program}, args...)...)...)...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("killswitch %s: %w: %s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return errors.Join(err, json.Unmarshal(out, v))
}

// outcome is what tests read of a revocation's or restore's answer.
type outcome struct {
	Progress struct {
		At                   time.Time
		Expected, Acked, Cut int
		Slowest              time.Duration `json:"slowest_ns"`
	}
}

// standing is a pod of the tool orders whose container waits; commands are run in it.
func standing(t *testing.T, k *kube, name, args string) {
	t.Helper()
	k.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec: {automountServiceAccountToken: false, terminationGracePeriodSeconds: 2, containers: [{name: tool, image: "`+toolImage+`", args: `+args+`}]}
`)
	k.kubectl(t, "wait", "pod/"+name, "--for=condition=Ready", "--timeout=60s")
}

// TestKillSwitchFromTheChart: what the chart installs stops a pod's running stream. No credential was copied anywhere: sidecars have got
// theirs for the token of their service account.
func TestKillSwitchFromTheChart(t *testing.T) {
	p := newPartner(t)
	withVolume(t)
	k := installed(t, p.values(""))
	e := newPerson(t, k)
	tools := p.tools(t, k)
	const url = "https://orders" + partnerZone
	standing(t, tools, "one", `[stream, "`+url+`/stream"]`)
	tools.await(t, "the stream", func() error { return says(tools.logs(t, "one", "tool"), "began 200") })
	alone(t, e, "live")

	var o outcome
	if err := e.killswitch(&o, "revoke", "--tool", "orders", "--reason", "leaked key", "--id", "leak", "--yes", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	if o.Progress.Expected != 1 || o.Progress.Acked != 1 || o.Progress.Cut != 1 {
		t.Errorf("found %+v, expected 1 of 1 acknowledged and 1 call cut", o.Progress)
	}
	var said []string
	tools.await(t, "the end of the stream", func() error {
		_, end, ended := strings.Cut(tools.logs(t, "one", "tool"), "ended ")
		if said = strings.Fields(end); !ended || len(said) < 3 {
			return errors.New("it goes on")
		}
		return nil
	})
	at, err := time.Parse(time.RFC3339Nano, said[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("signed to cut at the tool: %.1f ms; to the last acknowledgement: %.1f ms; %s", ms(at.Sub(o.Progress.At)), ms(o.Progress.Slowest), strings.Join(said[1:], " "))
	if said[2] == "<nil>" {
		t.Error("the stream ended as if it were complete")
	}
	if r := tools.awaitRecord(t, "one", "toolgate", func(r record) bool { return r.RevocationID != "" }); r.RevocationID != "leak" || r.Code != "revoked" || r.Decision != "allow" {
		t.Errorf("found the record %+v, expected one that was let pass and cut by leak", r)
	}
	refused := func(pod string) {
		t.Helper()
		if got, err := tools.exec(pod, "/tool", "get", url+"/"); err == nil || !strings.Contains(got, "Forbidden: revoked") {
			t.Errorf("pod %s: a new call says %q, expected that it is revoked", pod, got)
		}
	}
	refused("one")

	// The kill switch goes, and comes back with its volume: what was in force stays so, and the sidecar comes back to it by itself.
	e.scale(t, 0)
	refused("one")
	e.scale(t, 1)
	alone(t, e, "live")
	refused("one")
	k.await(t, "a drill that the sidecar acknowledges", func() error {
		var d outcome
		if err := e.killswitch(&d, "drill", "--reason", "after a restart", "-o", "json"); err != nil {
			return err
		}
		if d.Progress.Expected != 1 || d.Progress.Acked != 1 {
			return fmt.Errorf("found %+v, expected 1 of 1", d.Progress)
		}
		return nil
	})

	// A pod that comes later knows of it before its first call.
	tools.kubectl(t, "delete", "pod", "one")
	standing(t, tools, "two", `[sleep, 1h]`)
	refused("two")
	if err := e.killswitch(&o, "restore", "leak", "--reason", "key replaced", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	passes := func(when string) {
		t.Helper()
		if got, err := tools.exec("two", "/tool", "get", url+"/"); err != nil || !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s a call says %q", when, got)
		}
	}
	passes("after the restore")
	e.scale(t, 0)
	passes("without a kill switch")
}

// scale takes the kill switch away, or brings it back.
func (e *embedded) scale(t *testing.T, replicas int) {
	t.Helper()
	e.kubectl(t, "scale", "statefulset/toolgate-killswitch", fmt.Sprintf("--replicas=%d", replicas))
	if replicas == 0 {
		e.kubectl(t, "wait", "pod/toolgate-killswitch-0", "--for=delete", "--timeout=80s")
		return
	}
	e.kubectl(t, "rollout", "status", "statefulset/toolgate-killswitch", "--timeout=80s")
	e.forward(t)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func says(text, what string) error {
	if !strings.Contains(text, what) {
		return fmt.Errorf("found %q, expected %q", text, what)
	}
	return nil
}

// alone waits until the kill switch hears one sidecar, in the state.
func alone(t *testing.T, e *embedded, state string) {
	t.Helper()
	e.await(t, "one sidecar that is "+state, func() error {
		var all []struct{ State, Pod string }
		if err := e.killswitch(&all, "sidecars", "-o", "json"); err != nil {
			return err
		}
		if len(all) != 1 || all[0].State != state {
			return fmt.Errorf("found %+v", all)
		}
		return nil
	})
}
