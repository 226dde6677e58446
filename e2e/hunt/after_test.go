package hunt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// sidecar runs a command that ends by itself, and takes what it prints.
func (w *world) sidecar(t *testing.T, o outlet, want int, args ...string) string {
	t.Helper()
	bin, err := sidecarBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env, cmd.Dir = w.environment(), t.TempDir() // where quickstart puts its files
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != want {
		t.Errorf("sidecar %s: %v, want exit code %d\n%.600s", strings.Join(args, " "), err, want, b)
	}
	w.out(o, strings.Join(args[:min(2, len(args))], " "), b)
	return string(b)
}

// commands runs those that people use beside a running sidecar.
func (w *world) commands(t *testing.T) {
	t.Helper()
	config := filepath.Join(w.dir, "sidecar.yaml")
	w.sidecar(t, commands, 0, "check", "--config", config)
	task := filepath.Join(w.dir, "task.jwt")
	hosts := append([]string{"seen.hunt.test", "badcert.hunt.test"}, failing...)
	for host := range bindings {
		hosts = append(hosts, host)
	}
	for i, host := range hosts {
		want := 0
		if i >= 2 && i < 2+len(failing) {
			want, host = 1, host+".hunt.test"
		}
		format := []string{"text", "json"}[i%2]
		w.sidecar(t, commands, want, "explain", "--config", config, "--tool", "agent", "--url", "https://"+host+":"+w.up.port+"/v1/x?key="+w.plant("query value", "explain"),
			"--token-file", task, "--exchange", "--resolve", "-o", format)
	}
	bad := filepath.Join(w.dir, "bad.jwt")
	w.write(t, "bad.jwt", w.plant("token that is not accepted", "explain")+".x.y\n")
	w.sidecar(t, commands, 1, "explain", "--config", config, "--tool", "agent", "--url", "https://u:"+w.plant("user info", "explain")+"@seen.hunt.test/", "--token-file", bad)
	w.sidecar(t, commands, 1, "explain", "--config", config, "--tool", "agent", "--url", "https://seen.hunt.test:"+w.up.port+"/", "--token-file", bad, "--resolve")
}

// audit runs the commands for records.
func (w *world) audit(t *testing.T) {
	t.Helper()
	file := filepath.Join(w.dir, "out", "records.jsonl")
	w.sidecar(t, records, 0, "audit", "verify", "--closed", file)
	w.sidecar(t, records, 0, "audit", "tail", "-n", "0", file)
	w.sidecar(t, records, 0, "audit", "export", file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), `"host":"exchange.hunt.test","id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	w.sidecar(t, records, 0, "audit", "tail", "--explain", id, file)
}

// reloads reads how many reloads ended so.
func (w *world) reloads(result string) string {
	_, page := w.page("/metrics")
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "toolgate_config_reloads_total{") && strings.Contains(line, `"`+result+`"`) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// reload asks for the config to be read again, and waits until it was.
func (w *world) reload(t *testing.T, result string) {
	t.Helper()
	before := w.reloads(result)
	_ = w.cmd.Process.Signal(syscall.SIGHUP)
	eventually(t, "the config is read again: "+result, func() bool { return w.reloads(result) != before })
}

// mistakes writes configs that are refused. What they quote must help to find the mistake, and give away no secret.
func (w *world) mistakes(t *testing.T) {
	t.Helper()
	good, err := os.ReadFile(filepath.Join(w.dir, "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	value := func(where string) string { return w.plant("value of a refused setting", where) }
	secret := func(where string) string { return w.plant("secret in the wrong place", where) }
	w.write(t, "secrets/two-lines", secret("two lines, first")+"\n"+secret("two lines, second")+"\n")
	w.write(t, "secrets/no-key", secret("no key")+"\n")
	w.write(t, "secrets/broken-key", pemOf("PRIVATE KEY", []byte(secret("broken key"))))
	w.write(t, "secrets/no-creds", "-----BEGIN NATS USER JWT-----\n"+secret("NATS")+"\n------END NATS USER JWT------\n")
	w.write(t, "secrets/no-headers", secret("headers")+"\n")
	replace := func(old, new string) string { return strings.Replace(string(good), old, new, 1) }
	for _, bad := range []string{
		replace("mode: enforce", "mode: "+value("enum")), replace("mode: enforce", value("key")+": x"), replace("mode: enforce", "mode: ["+value("syntax")),
		replace("drain: 1s", "drain: "+value("duration")), replace("127.0.0.1/32", value("prefix")),
		replace("mode: enforce", "password: "+secret("unknown key")), replace("clientID: hunt, secretFile: secrets/basic", "clientID: hunt, secret: "+secret("inline")),
		replace("clientID: hunt, secretFile: secrets/basic", "clientID: hunt, clientSecret: {value: "+secret("nested")+"}"),
		replace(`tokenURL: "`+w.issuer.url+`/exchange"`, `tokenURL: "https://u:`+secret("user info")+`@idp.test/token"`),
		replace(`tokenURL: "`+w.issuer.url+`/exchange"`, `tokenURL: "http://idp.test/token?key=`+secret("query")+`"`),
		replace(`stsURL: "`+w.issuer.url+`/sts"`, `stsURL: "ftp://u:`+secret("scheme")+`@sts.test/"`),
		replace("  resolver:", "  upstreamProxy: \"http://u:"+secret("proxy")+"@proxy.test:3128/x\"\n  resolver:"),
		replace("- issuer: "+w.tasks.URL(), "- issuer: \"https://u:"+secret("issuer")+"@idp.test\""),
		replace("tracing: {endpoint: \"", "tracing: {endpoint: \"http://u:"+secret("collector")+"@"),
		replace("otlp: {endpoint: \"", "otlp: {endpoint: \"http://u:"+secret("copies")+"@"), replace("tools: [agent, writer]}", "tools: ["+value("captured tool")+"]}"),
		replace("secrets/copies", "secrets/no-headers"),
		replace("secrets/static", "secrets/two-lines"), replace("secrets/assertion.key", "secrets/no-key"), replace("secrets/assertion.key", "secrets/broken-key"),
		replace("secrets/github.key", "secrets/static"), replace("secrets/mtls.crt", "secrets/no-key"), replace("[upstream-ca.pem]", "[secrets/no-key]"),
		replace("[upstream-ca.pem]", "[secrets/github.key]"), replace("secrets/audit.key", "secrets/no-key"), replace("secrets/nats.creds", "secrets/no-creds"),
		replace("secrets/collector", "secrets/no-headers"), replace("secrets/password", "secrets/two-lines"), replace("secrets/workload", "secrets/two-lines"),
	} {
		if bad == string(good) {
			t.Error("a mistake changes nothing")
		}
		w.write(t, "sidecar.yaml", bad)
		w.reload(t, "error")
		w.sidecar(t, commands, 1, "check", "--config", filepath.Join(w.dir, "sidecar.yaml"))
	}
	w.write(t, "revocations.yaml", "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: [{id: x, "+value("key")+": y}]\n")
	w.logged(t, "revocations not read")
	w.write(t, "sidecar.yaml", string(good))
	w.write(t, "revocations.yaml", noRevocation)
}

// logged waits for a line of the log.
func (w *world) logged(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log says "+text, func() bool { return bytes.Contains(w.stderr.bytes(), []byte(text)) })
}

// levels goes through the other levels with the calls that are logged most of.
func (w *world) levels(t *testing.T) {
	t.Helper()
	for _, level := range []string{"info", "warn", "error"} {
		w.values["Level"] = level
		w.render(t, "sidecar.yaml", "sidecar.yaml")
		w.reload(t, "ok")
		w.callers(t)
		w.unreached(t)
		w.odd(t)
	}
	w.values["Level"] = w.Level
	w.render(t, "sidecar.yaml", "sidecar.yaml")
	w.reload(t, "ok")
}

// revoke stops what runs and what comes, by file and by the control plane.
func (w *world) revoke(t *testing.T) {
	t.Helper()
	host := "exchange.hunt.test"
	ended := w.stream(t, host)
	said := func(where string) string { return w.plant("reason of a revocation", where) }
	w.write(t, "revocations.yaml", fmt.Sprintf("apiVersion: toolgate/v1\nkind: Revocations\nrevocations: [{id: r1, selector: {host: %s}, reason: %s, by: %s, at: 2026-01-01T00:00:00Z}]\n", host, said("file"), said("by")))
	<-ended
	w.get(t, host, "/", "X-A: "+w.plant("header", "revoked"))
	if w.centre != nil {
		ended := w.stream(t, "static.hunt.test")
		w.centre.Append(func(e *ledger.Entry) {
			e.Op, e.ID, e.Selector = ledger.Revoke, "hunt", &ledger.Selector{Host: []string{"static.hunt.test"}}
			e.Reason, e.By = said("control plane"), said("control plane, by")
		})
		<-ended
		w.centre.Restore("hunt")
		eventually(t, "the control plane's is restored", func() bool { return strings.HasPrefix(w.get(t, "static.hunt.test", "/echo"), "HTTP/1.1 200") })
	}
	w.write(t, "revocations.yaml", noRevocation)
	eventually(t, "the call is let through again", func() bool { return strings.HasPrefix(w.get(t, host, "/echo"), "HTTP/1.1 200") })
}

// stream opens an event stream and returns what is closed when it ends.
func (w *world) stream(t *testing.T, host string, header ...string) <-chan struct{} {
	t.Helper()
	before := w.up.streams.Load()
	ended := make(chan struct{})
	conn := w.connect(t, "tool", host+":"+w.up.port, proxyAuth("agent", w.task))
	if conn == nil {
		t.Fatal("no tunnel")
	}
	c := w.secure(t, conn, host)
	go func() {
		defer close(ended)
		w.say(t, c, fmt.Sprintf("GET /stream HTTP/1.1\r\nHost: %s:%s\r\nX-Stream: %s\r\nCookie: s=%s\r\n%s\r\n", host, w.up.port, w.plant("header", "stream"), w.plant("cookie", "stream"), lines(header)))
	}()
	eventually(t, "the stream is open", func() bool { return w.up.streams.Load() > before })
	return ended
}
