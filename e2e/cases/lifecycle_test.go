//go:build linux

package cases

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func lifecycleCases() []replay {
	return []replay{
		{"LIF-01", "golang/go#17721; keda http-add-on#1636",
			"SIGTERM with 20 open tunnels and 5 running requests", "not ready first, the requests end well, tunnels are cut at the drain limit, exit code 0", drain},
		{"LIF-02", "crash and restart",
			"kill -9 while calls run, then a start; the same behind the fence",
			"ready within seconds; no token and no key on disk; the rules outlive it and nothing leaves the pod meanwhile", crash},
		{"LIF-03", "anthropics/claude-code#81572",
			"a reload that changes something else while a denied host is tried without pause", "403 each time", reloadDenies},
		{"LIF-04", "dandriscoll/trollbridge#129; pomerium#870",
			"reloads with broken YAML, an unknown key, a duplicate entry, an empty file, no file", "the old policy goes on, the log tells why, the failure is counted", badReloads},
		{"LIF-05", "kubernetes/kubernetes#94022",
			"20 swaps of the symlink ..data, in the kubelet's way", "each version comes into force, none is half there", symlinkSwaps},
		{"LIF-07", "hashicorp/vault#5361",
			"1,000 requests while nobody reads the records", "all are answered; what is lost is counted", slowSink},
		{"LIF-09", "stripe/smokescreen TestProxyHalfClosed; samuong/alpaca#9",
			"a client that closes its half before the upstream sends 1 MiB", "it gets all of it, and both connections end", halfClose},
		{"LIF-15", "reload under load",
			"100 reloads that allow and deny a host in turns under steady traffic", "only 200 and 403, each policy comes into force, descriptors and goroutines stay", reloadUnderLoad},
	}
}

func drain(t *testing.T, w *world) {
	draining := w.lab.world(t)
	running, release := make(chan struct{}, 5), make(chan struct{})
	w.up.handle("api.ok.test", func(rw http.ResponseWriter, _ *http.Request) {
		running <- struct{}{}
		<-release
		_, _ = io.WriteString(rw, "done")
	})
	tunnels := make([]*asker, 20)
	for i := range tunnels {
		tunnels[i] = draining.open(t, "a.wild.test:443")
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got := draining.get(t, "http://api.ok.test/slow"); got.status != http.StatusOK || got.body != "done" {
				t.Errorf("a running request: %d %q", got.status, got.body)
			}
		})
	}
	for range 5 {
		<-running
	}
	began := time.Now()
	if err := draining.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	draining.mayEnd = true
	eventually(t, "not ready", func() bool { return !draining.ready() })
	select {
	case <-draining.exited:
		t.Fatal("it has ended before the requests have")
	default:
	}
	close(release)
	wg.Wait()
	for _, a := range tunnels {
		if !a.ended(t) {
			t.Error("a tunnel is still open")
		}
	}
	<-draining.exited
	if code := draining.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if d := time.Since(began); d < 900*time.Millisecond || d > 5*time.Second {
		t.Errorf("it took %s with a drain of 1 s", d)
	}
}

func crash(t *testing.T, w *world) {
	crashing := w.lab.world(t)
	w.up.handle("api.ok.test", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	a := crashing.inside(t, "api.ok.test:443")
	a.send(t, "GET / HTTP/1.1\r\nHost: api.ok.test\r\n\r\n")
	eventually(t, "the request runs", func() bool { return len(w.up.arrivals()) > 0 })
	crashing.mayEnd = true
	_ = crashing.cmd.Process.Kill()
	<-crashing.exited
	crashing.noSecrets(t)
	began := time.Now()
	crashing.mayEnd = false
	crashing.start(t)
	if d := time.Since(began); d > 10*time.Second { // a busy machine needs more than a second
		t.Errorf("the start took %s", d)
	}
	crashing.connect(t, "a.wild.test:443").is(t, "after the restart", http.StatusOK)
	crashing.connect(t, "evil.test:443").is(t, "after the restart", http.StatusForbidden)
	t.Run("fenced", func(t *testing.T) { fencedCrash(t, w) })
}

// noSecrets fails the test if a file that the sidecar may have written holds a secret.
func (w *world) noSecrets(t *testing.T) {
	t.Helper()
	given := map[string]bool{"secret-a": true, "secret-b": true, "t1.jwt": true, "t2.jwt": true}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || given[d.Name()] {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, secret := range []string{secretA, secretB, w.tokenA, w.tokenB, "PRIVATE KEY"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s holds a secret", d.Name())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reloads counts the reloads with one result.
func (w *world) reloads(t *testing.T, result string) int {
	t.Helper()
	return w.metric(t, "toolgate_config_reloads_total", `"`+result+`"`)
}

func reloadDenies(t *testing.T, w *world) {
	reloading := w.lab.world(t)
	var done atomic.Bool
	var tries atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			reloading.connect(t, "evil.test:443").is(t, "during the reload", http.StatusForbidden)
			tries.Add(1)
		}
	})
	for i, level := range []string{"debug", "info", "debug"} {
		before := tries.Load()
		reloading.settings.log = level
		reloading.settings.manifest = fmt.Sprintf("# edit %d\n", i)
		reloading.writeAll(t)
		eventually(t, "the reload and tries after it", func() bool { return reloading.reloads(t, "ok") > i && tries.Load() > before+20 })
	}
	done.Store(true)
	wg.Wait()
	w.silent(t)
	w.unasked(t)
}

func badReloads(t *testing.T, w *world) {
	reloading := w.lab.world(t)
	good, err := os.ReadFile(filepath.Join(reloading.dir, "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ what, text, says string }{
		{"broken YAML", "apiVersion: [", "sidecar.yaml:1:"},
		{"unknown key", string(good) + "surprise: true\n", "surprise"},
		{"duplicate entry", strings.Replace(string(good), "name: t2,", "name: t1,", 1), "a second time, expected unique names"},
		{"empty file", "", "sidecar.yaml:1:"},
		{"no file", "-", "found no readable file"},
	} {
		errorsBefore, logged := reloading.reloads(t, "error"), len(reloading.stderr.String())
		if bad.text == "-" {
			if err := os.Remove(filepath.Join(reloading.dir, "sidecar.yaml")); err != nil {
				t.Fatal(err)
			}
		} else {
			reloading.write(t, "sidecar.yaml", bad.text)
		}
		eventually(t, bad.what+": the failure is counted and its cause logged", func() bool {
			return reloading.reloads(t, "error") > errorsBefore && strings.Contains(reloading.stderr.String()[logged:], bad.says)
		})
		reloading.connect(t, "evil.test:443").is(t, bad.what, http.StatusForbidden)
		reloading.connect(t, "a.wild.test:443").is(t, bad.what, http.StatusOK)
	}
	reloading.settings.domains = append(reloading.settings.domains, "new.ok.test")
	reloading.writeAll(t)
	w.dns.set("new.ok.test", at(addrU2))
	eventually(t, "the repaired config is in force", func() bool { return reloading.connect(t, "new.ok.test:443").status == http.StatusOK })
}

func symlinkSwaps(t *testing.T, w *world) {
	mounted := w.files(t)
	w.dns.set("*.swap.test", at(addrU2))
	// A ConfigMap's volume: a folder for each version, the link ..data to the one in force, a link through it for each file.
	publish := func(version int) {
		folder := fmt.Sprintf("..version-%d", version)
		if err := os.Mkdir(filepath.Join(mounted.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		mounted.settings.domains = []string{fmt.Sprintf("v%d.swap.test", version), "api.ok.test"}
		scratch := &world{lab: w.lab, dir: filepath.Join(mounted.dir, folder), settings: mounted.settings}
		scratch.writeAll(t)
		next := filepath.Join(mounted.dir, "..data_tmp")
		if err := errors.Join(os.Symlink(folder, next), os.Rename(next, filepath.Join(mounted.dir, "..data"))); err != nil {
			t.Fatal(err)
		}
		if version > 0 {
			if err := os.RemoveAll(filepath.Join(mounted.dir, fmt.Sprintf("..version-%d", version-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(0)
	for _, name := range []string{"sidecar.yaml", "t1.yaml", "t2.yaml", "revocations.yaml"} {
		path := filepath.Join(mounted.dir, name)
		if err := errors.Join(os.Remove(path), os.Symlink(filepath.Join("..data", name), path)); err != nil {
			t.Fatal(err)
		}
	}
	mounted.start(t)
	for version := 1; version <= 20; version++ {
		publish(version)
		eventually(t, fmt.Sprint("version ", version), func() bool {
			got := mounted.connect(t, fmt.Sprintf("v%d.swap.test:443", version))
			got.is(t, "the new name", http.StatusOK, http.StatusForbidden)
			mounted.connect(t, "api.ok.test:443").is(t, "a name of every version", http.StatusOK)
			return got.status == http.StatusOK
		})
		mounted.connect(t, fmt.Sprintf("v%d.swap.test:443", version-1)).is(t, "the name of the version before", http.StatusForbidden)
	}
}

func slowSink(t *testing.T, w *world) {
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	slow := w.lab.world(t, func(s *settings) { s.stdout = wr })
	_ = wr.Close() // ours; the sidecar has its own
	c := slow.client(t, slow.t1, slow.tokenA, false)
	const calls = 6000 // the pipe and the queue hold some
	began := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range calls / 4 {
				res, err := c.Get("http://api.ok.test/")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("status %d", res.StatusCode)
					return
				}
			}
		})
	}
	wg.Wait()
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("it took %s", d)
	}
	if n := slow.metric(t, "toolgate_audit_records_total", `"dropped"`); n == 0 {
		t.Error("no lost record was counted")
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // lets it end
	slow.stop(t)
}

func halfClose(t *testing.T, w *world) {
	const size = 1 << 20
	w.dns.set("half.wild.test", at(addrU3))
	ended := make(chan error, 1)
	w.up.speak(addrU3+":443", func(c net.Conn) {
		asked, err := io.ReadAll(c) // until the client's end arrives
		if err == nil && string(asked) != "request" {
			err = fmt.Errorf("asked %q", asked)
		}
		if err == nil {
			_, err = c.Write(make([]byte, size))
		}
		ended <- err
	})
	a := w.open(t, "half.wild.test:443")
	a.send(t, "request")
	if err := a.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, a.r); n != size || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, "no tunnel is open", func() bool { return w.metric(t, "toolgate_tunnels_open", "") == 0 })
}

func reloadUnderLoad(t *testing.T, w *world) {
	reloading := w.lab.world(t)
	reloading.settings.domains = []string{"x.wild.test:443"}
	var done atomic.Bool
	var wg sync.WaitGroup
	goroutines, descriptors := reloading.goroutines(t), reloading.descriptors(t)
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				reloading.connect(t, "x.wild.test:443").is(t, "during reloads", http.StatusOK, http.StatusForbidden)
			}
		})
	}
	for i := range many(100) {
		want := []int{http.StatusForbidden, http.StatusOK}[i%2]
		reloading.settings.domains = append([]string{"api.ok.test"}, [][]string{{}, {"x.wild.test:443"}}[i%2]...)
		reloading.writeAll(t)
		eventually(t, fmt.Sprint("reload ", i), func() bool { return reloading.connect(t, "x.wild.test:443").status == want })
	}
	done.Store(true)
	wg.Wait()
	eventually(t, "goroutines and descriptors are back", func() bool {
		return reloading.goroutines(t) <= goroutines+10 && reloading.descriptors(t) <= descriptors+10
	})
}
