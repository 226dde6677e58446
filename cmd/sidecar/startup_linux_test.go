package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNothingIsServedBeforeAllIsLoaded: the ports are open early, so that one in use is an error of the start, but nobody gets an answer
// until everything is there. A FIFO for the records holds the start up: it opens when somebody reads it.
func TestNothingIsServedBeforeAllIsLoaded(t *testing.T) {
	l := newLab(t)
	fifo := l.path("records.fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l.edit("sidecar.yaml", "output: stdout", "output: records.fifo")
	p := l.begin(io.Discard)
	var ports []string
	eventually(t, "the ports are open", func() bool {
		ports = listeningPorts(t, p.cmd.Process.Pid)
		return len(ports) == 5
	})
	var conns []net.Conn
	for _, port := range ports {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes, %v, during the start", conn.RemoteAddr(), n, err)
		}
	}
	l.write("revocations.yaml", "apiVersion: toolgate/v1\nkind: Revocations\nrevocations:\n"+
		"  - {id: all, selector: {all: true}, reason: a drill, by: tester, at: 2026-01-01T00:00:00Z}\n")
	records, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = records.Close() }()
	p.listen()
	statuses := map[int]int{}
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			statuses[res.StatusCode]++
		}
	}
	if statuses[http.StatusOK] != 1 { // of the admin port
		t.Errorf("answers %v", statuses)
	}
	if got := p.code("solo", "solo", l.mint(nil), l.url("https", "pass.ok.test", "/")); got != "revoked" {
		t.Errorf("the first call: %s", got)
	}
}

// TestStartWithoutRevocations: until the first set has been read, tools of high risk are denied and the probe fails.
func TestStartWithoutRevocations(t *testing.T) {
	l := newLab(t)
	good := l.read("revocations.yaml")
	if err := os.Remove(l.path("revocations.yaml")); err != nil {
		t.Fatal(err)
	}
	p := l.run(io.Discard)
	call := func() string { return p.code("solo", "solo", l.mint(nil), l.url("https", "pass.ok.test", "/")) }
	if got := call(); got != "kill_switch_stale" {
		t.Errorf("without a set: %s", got)
	}
	if status, page := p.adminPage("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", status, page)
	}
	l.write("revocations.yaml", good)
	eventually(t, "the probe is well", func() bool { status, _ := p.adminPage("/readyz"); return status == http.StatusOK })
	if got := call(); got != "allow" {
		t.Errorf("with a set: %s", got)
	}
}

// listeningPorts returns the TCP ports on which a process listens (proc(5)).
func listeningPorts(t *testing.T, pid int) (ports []string) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	own := map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("what the program has open is for root alone to see")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if link, err := os.Readlink(filepath.Join(dir, "fd", e.Name())); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, "net/tcp"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != "0A" || !own[f[9]] { // 0A: LISTEN
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, strconv.FormatUint(port, 10))
	}
	return ports
}
