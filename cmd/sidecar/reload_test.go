package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus/bustest"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// reloads returns how many reloads went well and how many did not.
func (r *running) reloads() (ok, failed string) {
	_, page := r.adminPage("/metrics")
	count := func(result string) string {
		m := regexp.MustCompile(`toolgate_config_reloads_total\{result="` + result + `"\} (\S+)`).FindStringSubmatch(page)
		if m == nil {
			r.lab.t.Fatalf("no toolgate_config_reloads_total of %s", result)
		}
		return m[1]
	}
	return count("ok"), count("error")
}

// want fails unless the reader's call to pass.ok.test ends so.
func (r *running) want(t *testing.T, code string) {
	t.Helper()
	if got := r.code("multi", "reader", r.lab.mint(nil), r.lab.url("https", "pass.ok.test", "/")); got != code {
		t.Errorf("the call: %q, expected %q", got, code)
	}
}

const readerPass = `"pass.ok.test:{tls}", `

func TestReloadByChangeOfAFile(t *testing.T) {
	l := newLab(t)
	r := l.start()
	r.want(t, "allow")
	before := r.store.Current().Revision
	l.edit("manifests/reader.yaml", readerPass, "")
	line := r.log.find(t, `"config reloaded"`)
	r.want(t, "domain_not_allowed")
	now := r.store.Current().Revision
	if now == before || !strings.Contains(line, now) {
		t.Errorf("revision %s after %s; the log says %s", now, before, line)
	}
	if ok, failed := r.reloads(); ok != "1" || failed != "0" {
		t.Errorf("%s good reloads, %s bad ones", ok, failed)
	}
	if _, page := r.adminPage("/metrics"); !strings.Contains(page, `toolgate_config_revision_info{revision="`+now+`"} 1`) || strings.Contains(page, before) {
		t.Error("the metrics do not have the new revision alone")
	}
	r.records.find(t, `"policy_revision":"`+now+`"`)
}

// TestChangeRightAfterTheStart: the watcher may not have looked yet when the file changes.
func TestChangeRightAfterTheStart(t *testing.T) {
	l := newLab(t)
	r := l.start()
	l.edit("manifests/reader.yaml", readerPass, "")
	l.edit("revocations.yaml", "user:mallory", "user:alice")
	r.log.find(t, `"config reloaded"`)
	r.want(t, "domain_not_allowed")
	eventually(t, "the revocation rules", func() bool {
		return r.code("multi", "writer", l.mint(nil), l.url("https", "write.ok.test", "/")) == "revoked"
	})
}

func TestSIGHUP(t *testing.T) {
	l := newLab(t)
	r := l.start()
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- r.wait(signals) }()
	l.write("manifests/reader.yaml", "name: [")
	r.log.find(t, "config not reloaded") // by the watcher
	signals <- syscall.SIGHUP
	r.log.find(t, "SIGHUP")
	r.log.find(t, `"config not reloaded.*manifests/reader.yaml:1:`)
	if ok, failed := r.reloads(); ok != "0" || failed != "2" {
		t.Errorf("%s good reloads, %s bad ones", ok, failed)
	}
	r.stopOnce.Do(func() { signals <- syscall.SIGTERM })
	if err := <-ended; err != nil {
		t.Errorf("wait: %v", err)
	}
}

// TestBadReloadKeepsTheOldConfigWhole: the good half of a change that is bad elsewhere is not in force either.
func TestBadReloadKeepsTheOldConfigWhole(t *testing.T) {
	l := newLab(t)
	r := l.start()
	before := r.store.Current().Revision
	good := l.read("sidecar.yaml")
	l.write("sidecar.yaml", strings.Replace(strings.Replace(good, "mode: enforce", "mode: report", 1), "maxStale: 60s", "maxStale: 60", 1))
	r.log.find(t, `"config not reloaded; the one in force stays".*sidecar.yaml:3[0-9]:\d+: `)
	r.want(t, "allow")
	if got := r.code("multi", "reader", l.mint(nil), l.url("https", "write.ok.test", "/")); got != "domain_not_allowed" {
		t.Errorf("report mode of the bad config is in force: %s", got)
	}
	if ok, failed := r.reloads(); r.store.Current().Revision != before || ok != "0" || failed != "1" && failed != "2" {
		t.Errorf("revision %s after %s, %s good reloads, %s bad ones", r.store.Current().Revision, before, ok, failed)
	}
	l.write("sidecar.yaml", strings.Replace(good, "mode: enforce", "mode: report", 1))
	r.log.find(t, `"config reloaded"`)
	if got := r.code("multi", "reader", l.mint(nil), l.url("https", "write.ok.test", "/")); got != "allow" {
		t.Errorf("after the repair: %s", got)
	}
}

// TestRepairInAFileThatNobodyWatches: the config in force does not name the file that makes the new one good.
func TestRepairInAFileThatNobodyWatches(t *testing.T) {
	l := newLab(t)
	r := l.start()
	l.write("more/extra.yaml", "name: extra\n")
	l.edit("sidecar.yaml", `manifests: ["manifests/*.yaml"]`, `manifests: ["manifests/*.yaml", "more/*.yaml"]`)
	r.log.find(t, `"config not reloaded.*more/extra.yaml:1:1: `)
	for range 5 {
		r.retry()
	}
	// The watcher's event and the look as it settles may both find it, in either order.
	if n := strings.Count(r.log.text(), "config not reloaded"); n > 2 {
		t.Errorf("the same mistake is logged %d times", n)
	}
	_, failed := r.reloads()
	l.write("more/extra.yaml", strings.Replace(l.read("manifests/orphan.yaml"), "orphan", "extra", 1))
	r.retry()
	r.log.find(t, `"config reloaded"`)
	if ok, bad := r.reloads(); ok != "1" || bad < failed || bad > "2" || r.store.Current().Tools["extra"] == nil {
		t.Errorf("%s good reloads, %s bad ones, %s before", ok, bad, failed)
	}
}

func TestReloadNamesEveryMistake(t *testing.T) {
	l := newLab(t)
	r := l.start()
	l.write("manifests/reader.yaml", "name: reader\nversion: 1\nrisk: enormous\n")
	for _, want := range []string{`reader.yaml:2:\d+: `, `reader.yaml:3:7: `} {
		r.log.find(t, want)
	}
	r.want(t, "allow")
}

// TestChangesThatNeedARestart are refused as a whole: half of such a change in force would be worse than none.
func TestChangesThatNeedARestart(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"a listener less", `  - {name: filed, address: "127.0.0.1:0", tool: filed, tokenFile: listener.jwt}` + "\n", "", "listeners or admin"},
		{"another address", `{name: solo, address: "127.0.0.1:0"`, `{name: solo, address: "[::1]:0"`, "listeners or admin"},
		{"no admin", `admin: {address: "127.0.0.1:0"}` + "\n", "", "listeners or admin"},
		{"another CA file", "caOutFile: ca.crt", "caOutFile: other.crt", "intercept's CA"},
		{"a folder for the CA", "caOutFile: ca.crt", "caOutFile: ca.crt, caStateDir: ca", "intercept's CA"},
		{"a bundle", "caOutFile: ca.crt", "caOutFile: ca.crt, bundleOutFile: b.pem", "intercept's CA"},
		{"another kill switch", "maxStale: 60s", "maxStale: 61s", "killSwitch"},
		{"another audit", "audit: {output: stdout}", "audit: {output: stderr}", "audit"},
		{"another log format", "log: {level: info}", "log: {level: info, format: text}", "log.format"},
		{"another limit", "drain: 2s", "drain: 3s", "limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			r := l.start()
			before := r.store.Current().Revision
			l.write("sidecar.yaml", strings.Replace(strings.Replace(l.read("sidecar.yaml"), c.old, c.new, 1), "mode: enforce", "mode: report", 1))
			r.log.find(t, regexp.QuoteMeta(c.want)+` changed, which needs a restart`)
			r.want(t, "allow")
			if got := r.code("multi", "reader", l.mint(nil), l.url("https", "write.ok.test", "/")); got != "domain_not_allowed" || r.store.Current().Revision != before {
				t.Errorf("part of the change is in force: %s", got)
			}
			// The watcher's event and the look as it settles may both find it; where the look comes first, the event counts it again.
			if ok, failed := r.reloads(); ok != "0" || failed != "1" && failed != "2" {
				t.Errorf("%s good reloads, %s bad ones", ok, failed)
			}
		})
	}
}

// TestNewCAFiles: leaves are signed by the new CA, whose certificate is where clients look for it.
func TestNewCAFiles(t *testing.T) {
	l := newLab(t)
	rotate := func() string {
		cert, key, err := newCAFiles()
		if err != nil {
			t.Fatal(err)
		}
		l.write("ca-key.pem", key)
		l.write("ca.pem", cert)
		return cert
	}
	rotate()
	l.edit("sidecar.yaml", "caOutFile: ca.crt", "caCertFile: ca.pem, caKeyFile: ca-key.pem, caOutFile: ca.crt")
	r := l.start()
	call := func() string {
		return r.code("multi", "reader", l.mint(nil), l.url("https", "seen.ok.test", "/"))
	}
	if got := call(); got != "allow" {
		t.Fatal(got)
	}
	cert := rotate()
	r.log.find(t, `"config reloaded"`)
	if got := l.read("ca.crt"); got != cert {
		t.Error("the certificate for clients is the old one")
	}
	if got := call(); got != "allow" {
		t.Error(got)
	}
}

func TestLogLevelChanges(t *testing.T) {
	l := newLab(t)
	r := l.start()
	call := func() { r.code("multi", "reader", "x.y.z", l.url("https", "pass.ok.test", "/")) }
	call()
	if text := r.log.text(); strings.Contains(text, `"level":"DEBUG"`) {
		t.Errorf("debug lines at level info: %s", text)
	}
	l.edit("sidecar.yaml", "level: info", "level: debug")
	r.log.find(t, `"config reloaded"`)
	call()
	r.log.find(t, `"level":"DEBUG".*"refused"`)
	l.edit("sidecar.yaml", "level: debug", "level: error")
	eventually(t, "the level is error", func() bool { return r.level.Level() == slog.LevelError })
}

// TestConfigMapSwap replaces the folder as the kubelet does: files are links through ..data, whose target changes at once.
func TestConfigMapSwap(t *testing.T) {
	l := newLab(t)
	flat := l.dir
	mount := filepath.Join(t.TempDir(), "mount")
	l.dir = mount
	version := func(name string) {
		if err := os.CopyFS(filepath.Join(mount, name), os.DirFS(flat)); err != nil {
			t.Fatal(err)
		}
	}
	point := func(name string) {
		t.Helper()
		next := filepath.Join(mount, "..data_tmp")
		err := os.Symlink(name, next)
		if err == nil {
			err = os.Rename(next, filepath.Join(mount, "..data"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	version("..first")
	point("..first")
	entries, err := os.ReadDir(flat)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join("..data", e.Name()), filepath.Join(mount, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	r := l.start()
	r.want(t, "allow")
	version("..second")
	l.edit("..second/manifests/reader.yaml", readerPass, "")
	l.edit("..second/revocations.yaml", "user:mallory", "user:alice")
	r.want(t, "allow")
	point("..second")
	if err := os.RemoveAll(filepath.Join(mount, "..first")); err != nil {
		t.Fatal(err)
	}
	r.log.find(t, `"config reloaded"`)
	r.want(t, "domain_not_allowed")
	eventually(t, "the revocation rules", func() bool {
		return r.code("multi", "writer", l.mint(nil), l.url("https", "write.ok.test", "/")) == "revoked"
	})
}

// open begins a stream and returns its reader, which has not ended.
func (r *running) open(t *testing.T, target string) *bufio.Reader {
	t.Helper()
	client := r.client("multi", "reader", r.lab.mint(nil), nil)
	client.Timeout = 0
	res, err := client.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); line != "begun\n" {
		t.Fatalf("%q %v", line, err)
	}
	return body
}

// TestReloadWhileCallsRun: tunnels and requests end with the policy that let them through; what begins is decided anew.
func TestReloadWhileCallsRun(t *testing.T) {
	l := newLab(t)
	l.serve = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			return
		}
		fmt.Fprintln(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	r := l.start()
	targets := []string{
		l.url("https", "pass.ok.test", "/stream"), l.url("https", "seen.ok.test", "/stream"), l.url("http", "plain.ok.test", "/stream"),
	}
	var bodies []*bufio.Reader
	for _, target := range targets {
		bodies = append(bodies, r.open(t, target))
	}
	for _, entry := range []string{readerPass, `"seen.ok.test:{tls}", `, `"plain.ok.test:{plain}", `} {
		l.edit("manifests/reader.yaml", entry, "")
		r.log.find(t, `"config reloaded"`)
	}
	for _, target := range targets {
		if got := r.code("multi", "reader", l.mint(nil), target); got != "domain_not_allowed" {
			t.Errorf("%s: %s", target, got)
		}
	}
	for i, body := range bodies {
		if line, err := body.ReadString('\n'); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %q %v", targets[i], line, err)
		}
	}
}

// TestKillSwitchKeyFollows: a key that is put into publicKeyFile is trusted without a restart.
func TestKillSwitchKeyFollows(t *testing.T) {
	l := newLab(t)
	c, stranger := bustest.Start(t, 50*time.Millisecond), bustest.Start(t, 0)
	c.Revoke("r1", ledger.Selector{Tool: []string{"reader"}})
	l.write("kill.pub", stranger.Signer.PublicKey()+"\n")
	l.edit("sidecar.yaml", "killSwitch: {file: revocations.yaml, maxStale: 60s}",
		fmt.Sprintf("killSwitch: {maxStale: 60s, stateDir: kill, nats: {servers: [%q], publicKeyFile: kill.pub}}", c.URL()))
	r := l.start()
	eventually(t, "the key is not trusted", func() bool { return r.bus.View().Refused == ledger.UnknownKey })
	l.write("kill.pub", stranger.Signer.PublicKey()+"\n"+c.Signer.PublicKey()+"\n")
	r.log.find(t, `"config reloaded"`)
	eventually(t, "the revocation is in force", func() bool { return r.bus.View().Revision == 1 && r.bus.View().Refused == "" })
	r.want(t, "revoked")
}
