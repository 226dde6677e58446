package hunt

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHunt runs a sidecar through everything, and looks for what it may not tell.
func TestHunt(t *testing.T) {
	for _, o := range []options{
		{Level: "debug", Format: "json", Records: "out/records.jsonl", Payloads: true, central: true},
		{Level: "debug", Format: "text", Records: "stdout", InTunnel: true, Protocol: "grpc"},
		{Level: "debug", Format: "json", Records: "stdout", Payloads: true, UpstreamProxy: true},
	} {
		t.Run(o.Format, func(t *testing.T) {
			w := newWorld(t, o)
			w.start(t)
			w.drive(t)
			w.revoke(t)
			w.collectorsRefuse(t)
			if o.central { // once is enough
				w.levels(t)
				w.mistakes(t)
				w.commands(t)
			}
			w.collect(t)
			w.stop(t)
			if o.central {
				w.audit(t)
				w.replays(t)
				w.sidecar(t, commands, 0, "quickstart", "--once")
			}
			w.gather(t)
			seen := look(w.all(), w.outputs)
			report(t, judge(seen))
			flowed(t, o, seen)
		})
	}
}

func (w *world) out(o outlet, name string, b []byte) {
	w.outputs = append(w.outputs, output{o, name, b})
}

// collect takes what only a running sidecar tells.
func (w *world) collect(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/vars", "/config"} {
		status, body := w.page(path)
		o := admin
		if path == "/metrics" {
			o = metrics
			if status != 200 {
				t.Errorf("metrics: status %d", status)
			}
		}
		w.out(o, path, body)
	}
	for _, name := range []string{"cmdline", "comm", "stat"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", w.cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		w.out(arguments, name, b)
	}
}

// gather takes everything else, when the sidecar has ended.
func (w *world) gather(t *testing.T) {
	t.Helper()
	w.out(tool, "answers", w.tool.bytes())
	w.out(upstream, "requests", w.up.got.bytes())
	w.out(issuer, "requests", w.issuer.got.bytes())
	w.out(traces, "requests", w.collector.got.bytes())
	w.out(copies, "requests", w.copies.got.bytes())
	w.out(proxied, "requests", w.relay.got.bytes())
	w.out(resolver, "queries", w.asked.bytes())
	w.out(bus, "messages", w.bus.bytes())
	w.out(records, "stdout", w.stdout.bytes())
	var payload, other bytes.Buffer
	for line := range strings.Lines(string(w.stderr.bytes())) {
		if strings.Contains(line, `"msg":"payload"`) || strings.Contains(line, " msg=payload ") {
			payload.WriteString(line)
		} else {
			other.WriteString(line)
		}
	}
	w.out(payloads, "stderr", payload.Bytes())
	w.out(logs, "stderr", other.Bytes())
	err := filepath.WalkDir(filepath.Join(w.dir, "out"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name := filepath.Base(path)
		o := state
		switch {
		case strings.HasPrefix(name, "records"):
			o = records
		case strings.HasSuffix(name, ".har"):
			o = captures
		case strings.HasPrefix(path, filepath.Join(w.dir, "out")+"/"+name):
			o = tool // the CA's files
		}
		w.out(o, name, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// carried is where inputs must have come, and carriedByProxy where there is an upstream proxy.
var carried = map[string][]outlet{
	"client secret": {issuer}, "workload token": {issuer}, "static secret": {upstream}, "token of an issuer": {upstream}, "session of Vault": {issuer},
	"task token": {issuer}, "subject": {records, copies, issuer}, "tenant, agent, task, run": {records, traces}, "host": {records, copies, captures, resolver},
	"path": {upstream, captures}, "query value": {upstream}, "header": {upstream}, "cookie": {upstream}, "tool's own credential": {upstream}, "body": {upstream},
	"body, of `redactFields`": {upstream}, "body, of another type": {upstream}, "trailer": {upstream}, "frame of a WebSocket": {upstream, tool},
	"answer": {tool}, "answer, body": {tool, captures}, "answer, of `redactFields`": {tool}, "key for the traces' collector": {traces}, "key for the records' collector": {copies}, "method": {upstream}, "relayed bytes": {upstream},
}

var carriedByProxy = map[string][]outlet{
	"password for the upstream proxy": {proxied}, "host": {proxied, resolver}, "token of an issuer": {upstream}, "path": {upstream}, "relayed bytes": {upstream},
}

// flowed fails for an input that has not come where it must: a canary that nobody carried proves nothing.
func flowed(t *testing.T, o options, seen []sighting) {
	t.Helper()
	must := carried
	if o.UpstreamProxy {
		must = carriedByProxy
	}
	for input, at := range must {
		for _, o := range at {
			if !slices.ContainsFunc(seen, func(s sighting) bool { return s.input == input && s.outlet == o }) {
				t.Errorf("no %s came to the %s", input, o)
			}
		}
	}
}
