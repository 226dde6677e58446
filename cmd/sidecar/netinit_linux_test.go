package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/inject"
)

const (
	fenceConfig = `apiVersion: toolgate/v1
kind: Sidecar
listeners: [{name: search, address: "127.0.0.1:15001", tool: search}]
manifests: [search.manifest]
identity: {issuers: [{issuer: "https://idp.example", audiences: [toolgate]}]}
admin: {address: "127.0.0.1:15020"}
`
	fenceManifest = `{name: search, version: "1", owner: tests, description: Searches., capabilityClasses: [read_public], sideEffects: none,
  risk: low, timeoutMs: 1000, egress: {allowedDomains: [api.search.example]}}
`
)

// netinit runs the command on this thread, and with it in its network namespace.
func netinit(dir string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"netinit", "-c", filepath.Join(dir, "sidecar.yaml")}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// ownNamespace gives this thread a network namespace, and keeps the thread for this goroutine, with which it ends.
func ownNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	err := syscall.Unshare(syscall.CLONE_NEWNET)
	if err == nil {
		err = inject.Remove()
	}
	switch {
	case err == nil:
		return
	case errors.Is(err, inject.ErrUnsupported):
		t.Skipf("NOT TESTED: this kernel has no nf_tables: %v", err)
	case errors.Is(err, os.ErrPermission) && os.Getenv("CI") != "true":
		t.Skip("NOT TESTED: netinit needs root, for a network namespace")
	}
	t.Fatal(err)
}

// TestNetinit goes through the life of a fence: not there, there, another one, gone.
func TestNetinit(t *testing.T) {
	ownNamespace(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"sidecar.yaml": fenceConfig, "search.manifest": fenceManifest} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := []string{"--proxy-uid", "1337", "--tool-uid", "2001=search"}
	expect := func(wantCode int, wantOut, wantErr string, args ...string) {
		t.Helper()
		code, stdout, stderr := netinit(dir, args...)
		if code != wantCode || !strings.Contains(stdout, wantOut) || !strings.Contains(stderr, wantErr) || (stderr == "") != (wantErr == "") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; expected %d, %q, %q", args, code, stdout, stderr, wantCode, wantOut, wantErr)
		}
	}
	expect(1, "", "missing: the table toolgate", append(plan, "--check")...)
	expect(0, "rules in force in table inet toolgate", "", plan...)
	expect(0, "rules in force", "", plan...)
	expect(0, "rules in force", "", append(plan, "--check")...)
	expect(1, "", "missing: fence: uid 2002", append(plan, "--check", "--tool-uid", "2002=search")...)
	expect(1, "", "missing: fence: uid 2000 to port 8000 of uid 2001", append(plan, "--check", "--loopback", "2000=2001:8000")...)
	expect(1, "", "IPv6", append(plan, "--check", "--ipv4-only")...)

	code, stdout, stderr := netinit(dir, append(plan, "--check", "-o", "json")...)
	var r fenced
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" || !r.OK || r.Action != "check" || len(r.Rules) < 10 {
		t.Errorf("-o json: exit %d, %v, %s%s", code, err, stdout, stderr)
	}
	expect(0, "removed", "", "--remove")
	code, stdout, stderr = netinit(dir, append(plan, "--check", "-o", "json")...)
	r = fenced{}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 1 || stderr != "" || r.OK || r.Drift == nil || len(r.Drift.Missing) != 1 {
		t.Errorf("-o json after --remove: exit %d, %v, %s%s", code, err, stdout, stderr)
	}
}
