package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/cmd/cli"
)

// process is the real program, as its own process.
type process struct {
	running // of which only what speaks over sockets is usable
	cmd     *exec.Cmd
	exited  chan error
}

// run starts "sidecar run" on the lab's files, with its records going to stdout.
func (l *lab) run(stdout io.Writer) *process {
	l.t.Helper()
	p := l.begin(stdout)
	p.listen()
	return p
}

// begin starts it and waits for nothing.
func (l *lab) begin(stdout io.Writer) *process {
	l.t.Helper()
	p := &process{cmd: exec.Command("sidecar", "run", "--config", l.path("sidecar.yaml")), exited: make(chan error, 1)}
	p.lab, p.log = l, newLines()
	p.app = &app{addrs: map[string]string{}}
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.log
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.exited <- p.cmd.Wait(); close(ended) }()
	l.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-ended
		if l.t.Failed() {
			l.t.Logf("the log:\n%s", p.log.text())
		}
	})
	return p
}

// listen waits until every listener is served, and takes down where.
func (p *process) listen() {
	p.lab.t.Helper()
	address := regexp.MustCompile(`"listener":"(\w+)","address":"([^"]+)"`)
	for len(p.addrs) < 5 {
		if m := address.FindStringSubmatch(p.log.next(p.lab.t)); m != nil {
			p.addrs[m[1]] = m[2]
		}
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and returns its exit code.
func (p *process) end(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("the process does not end")
		return 0
	}
}

// TestSIGTERMDrains: a stream that does not end is cut when the drain limit is over; the process ends well, with the
// record written.
func TestSIGTERMDrains(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "drain: 2s", "drain: 300ms")
	var records bytes.Buffer
	p := l.run(&records)
	body := p.open(t, l.url("https", "seen.ok.test", "/stream"))
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	if _, err := io.Copy(io.Discard, body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	if code := p.end(t); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if d := time.Since(began); d < 300*time.Millisecond || d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	if rec := call(t, records.String()); rec.str("host") != "seen.ok.test" || rec.str("decision") != "allow" {
		t.Errorf("record %v", rec)
	}
}

// TestSecondSignalCuts does not wait for the drain limit, and records all the same.
func TestSecondSignalCuts(t *testing.T) {
	l := newLab(t)
	l.edit("sidecar.yaml", "drain: 2s", "drain: 10m")
	var records bytes.Buffer
	p := l.run(&records)
	p.open(t, l.url("https", "pass.ok.test", "/stream"))
	p.signal(t, syscall.SIGTERM)
	p.log.find(t, `"draining"`)
	p.signal(t, syscall.SIGINT)
	p.log.find(t, `second signal`)
	if code := p.end(t); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if rec := call(t, records.String()); rec.str("error_class") != "drained" {
		t.Errorf("record %v", rec)
	}
}

// TestRecordsThatNobodyReads: when the reader of stdout has gone, the process lives, says so, and holds what has side
// effects.
func TestRecordsThatNobodyReads(t *testing.T) {
	t.Parallel() // it waits for the records' last chance
	l := newLab(t)
	l.edit("manifests/writer.yaml", "sideEffects: none", "sideEffects: external_write")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := l.run(w)
	_ = w.Close()
	_ = r.Close()
	p.want(t, "allow")
	eventually(t, "the probe says so", func() bool {
		status, page := p.adminPage("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(page, `"audit":"audit: the sink fails`)
	})
	p.want(t, "allow")
	if got := p.code("multi", "writer", l.mint(nil), l.url("https", "write.ok.test", "/")); got != "not_ready" {
		t.Errorf("a tool with side effects: %s", got)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.end(t); code != cli.ExitWrong {
		t.Errorf("records were lost, and the exit code is %d", code)
	}
	p.log.find(t, "records were lost")
}

// TestMemoryLimit: the process keeps below nine tenths of its container's limit, unless somebody has said how much Go is to take.
func TestMemoryLimit(t *testing.T) {
	t.Setenv(cli.MemoryVariable, "134217728")
	p := newLab(t).run(io.Discard)
	if _, page := p.adminPage("/metrics"); !strings.Contains(page, "\ngo_gc_gomemlimit_bytes 1.20795948e+08\n") {
		t.Error("the limit in force is not nine tenths of the container's")
	}
	t.Setenv("GOMEMLIMIT", "48MiB")
	p = newLab(t).run(io.Discard)
	if _, page := p.adminPage("/metrics"); !strings.Contains(page, "\ngo_gc_gomemlimit_bytes 5.0331648e+07\n") {
		t.Error("the limit in force is not the one given")
	}
}

// TestIntentOutlivesACrash: a process that is killed while a tool with side effects acts leaves the word that it may have acted, for a
// request and for a tunnel that is relayed, and the next process's chain joins it.
func TestIntentOutlivesACrash(t *testing.T) {
	for _, host := range []string{"seen.ok.test", "pass.ok.test"} {
		l := newLab(t)
		l.edit("manifests/reader.yaml", "sideEffects: none", "sideEffects: external_write")
		l.edit("sidecar.yaml", "audit: {output: stdout}", "audit: {output: records.jsonl}")
		p := l.run(io.Discard)
		p.open(t, l.url("https", host, "/stream"))
		p.signal(t, syscall.SIGKILL)
		p.end(t)
		var intents []record
		for line := range strings.Lines(l.read("records.jsonl")) {
			switch r := parseRecord(t, line); r.str("kind") {
			case "intent":
				intents = append(intents, r)
			case "request", "tunnel":
				t.Errorf("%s: an outcome: %v", host, r)
			}
		}
		if len(intents) != 1 || intents[0].str("host") != host || intents[0].str("subject") != "user:alice" || intents[0].str("rule") == "" {
			t.Errorf("%s: %v", host, intents)
		}
		next := l.run(io.Discard)
		next.signal(t, syscall.SIGTERM)
		next.end(t)
		r, err := verifyRecords(nil, "", true, []string{l.path("records.jsonl")})
		if err != nil || len(r.Findings)+len(r.Notes) > 0 || r.Records != 1 || r.Chains != 2 {
			t.Errorf("%s: %+v %v", host, r, err)
		}
	}
}
