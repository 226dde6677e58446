//go:build linux

package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of pods in docs/runtimes.md")

// runtimeCase is a program of the image, and how a pod's calls by it fare.
type runtimeCase struct {
	name string
	args []string // before the URL
	// Whether its calls are made by the sidecar's credential: with the variables in mode explicit, with them in mode transparent, and there
	// without any variable, by the file over the system's roots alone.
	explicit, transparent, file bool
	prints                      string // what it says of a call that was intercepted; empty: what the upstream says
}

const withKey = "with the credential"

func runtimeCases() []runtimeCase {
	const (
		urllibGet   = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read())"
		requestsGet = "import sys, requests; print(requests.get(sys.argv[1], timeout=20).text)"
		httpxGet    = "import sys, httpx; print(httpx.get(sys.argv[1], timeout=20).text)"
		aiohttpGet  = "import sys, asyncio, aiohttp\nasync def get():\n async with aiohttp.ClientSession(%s) as s:\n  async with s.get(sys.argv[1]) as r: print(await r.text())\nasyncio.run(get())"
		fetchGet    = "fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.log(e, e.cause); process.exit(1) })"
		httpsGet    = "require('https').get(process.argv[1], r => r.pipe(process.stdout)).on('error', e => { console.log(e); process.exit(1) })"
	)
	python := func(code string) []string { return []string{"python3", "-c", code} }
	java := func(more ...string) []string {
		return append([]string{"/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "-cp", "/opt", "Get"}, more...)
	}
	return []runtimeCase{
		{name: "curl", args: []string{"curl", "-sS", "--max-time", "20"}, explicit: true, transparent: true, file: true},
		{name: "wget (Debian, GnuTLS)", args: []string{"wget", "-qO-", "--tries=1", "--timeout=20"}, explicit: true, transparent: true, file: true},
		{name: "git", args: []string{"git", "ls-remote"}, explicit: true, transparent: true, file: true, prints: "refs/heads/main"},
		{name: "Go, `net/http`", args: []string{"/opt/get", "get"}, explicit: true, transparent: true, file: true},
		{name: "Python, `urllib`", args: python(urllibGet), explicit: true, transparent: true, file: true},
		{name: "Python, `requests`", args: python(requestsGet), explicit: true, transparent: true, file: true},
		{name: "Python, `httpx`", args: python(httpxGet), explicit: true, transparent: true, file: true},
		{name: "Python, `aiohttp`", args: python(fmt.Sprintf(aiohttpGet, "")), transparent: true, file: true},
		{name: "Python, `aiohttp` with `trust_env=True`", args: python(fmt.Sprintf(aiohttpGet, "trust_env=True")), explicit: true, transparent: true, file: true},
		{name: "Node 18 (Debian), `fetch`", args: []string{"node", "-e", fetchGet}, transparent: true, file: true},
		{name: "Node 18 (Debian), `node:https`", args: []string{"node", "-e", httpsGet}, transparent: true, file: true},
		{name: "Node 22.23, `fetch`", args: []string{"/opt/node22", "-e", fetchGet}, explicit: true, transparent: true},
		{name: "Node 22.23, `node:https`", args: []string{"/opt/node22", "-e", httpsGet}, explicit: true, transparent: true},
		{name: "Java 17, `java.net.http`", args: java(), explicit: true, transparent: true},
		{name: "Java 17, `HttpURLConnection`", args: java(), explicit: true, transparent: true},
	}
}

// TestRuntimesInPods runs each runtime in an injected pod, whose image knows neither the proxy nor the CA, to an API that only answers as hoped if the
// sidecar has put the credential on the call.
func TestRuntimesInPods(t *testing.T) {
	p := newPartner(t)
	runtimesImported(t, p.m)
	k := installed(t, p.values("killSwitch: {enabled: false}"))
	tools := p.tools(t, k)
	for _, mode := range []string{"explicit", "transparent"} {
		tools.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: `+mode+`, annotations: {toolgate/mode: `+mode+`, toolgate/java: "true"}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 2
  containers: [{name: tool, image: "`+runtimesImage+`", command: [/bin/sleep, infinity]}]
`)
		tools.kubectl(t, "wait", "pod/"+mode, "--for=condition=Ready", "--timeout=90s")
	}
	for _, c := range runtimeCases() {
		t.Run(c.name, func(t *testing.T) {
			path := "/v1/orders"
			if c.prints != "" {
				path = "/git"
			}
			check := func(how, pod string, want bool, before ...string) {
				t.Helper()
				args := append(append(before, c.args...), "https://keyed"+partnerZone+path)
				if strings.HasSuffix(c.name, "`HttpURLConnection`") {
					args = append(args, "stream")
				}
				seen := len(tools.intercepted(t, pod))
				got, err := tools.exec(pod, args...)
				said := err == nil && strings.Contains(got, cmp.Or(c.prints, withKey))
				if said != want {
					t.Errorf("%s: found that it works: %v, expected %v: %v, it said\n%s", how, said, want, err, got[max(0, len(got)-600):])
				}
				if past := strings.Contains(got, "with no credential"); past != (pod == "explicit" && !want) {
					t.Errorf("%s: found that it went past the sidecar: %v, it said\n%s", how, past, got[max(0, len(got)-600):])
				}
				if now := len(tools.intercepted(t, pod)); said && now == seen {
					t.Errorf("%s: the sidecar has no record of an intercepted call", how)
				}
			}
			check("explicit", "explicit", c.explicit)
			check("transparent", "transparent", c.transparent)
			check("transparent, without variables", "transparent", c.file, "env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp")
		})
	}
}

// intercepted are a pod's records of calls that the sidecar saw into and put the key on.
func (k *kube) intercepted(t *testing.T, pod string) []record {
	t.Helper()
	var all []record
	for _, r := range k.records(t, pod, "toolgate") {
		if r.Intercepted && r.CredentialBinding == "keyed" {
			all = append(all, r)
		}
	}
	return all
}

const (
	podsBegin = "<!-- pods:begin -->\n"
	podsEnd   = "<!-- pods:end -->\n"
)

// TestRuntimesPage: the page says what TestRuntimesInPods checks.
func TestRuntimesPage(t *testing.T) {
	const page = "../../docs/runtimes.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	mark := map[bool]string{true: "works", false: "**no**"}
	var table strings.Builder
	table.WriteString("| runtime | explicit | transparent | transparent, the file alone |\n|---|---|---|---|\n")
	for _, c := range runtimeCases() {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", c.name, mark[c.explicit], mark[c.transparent], mark[c.file])
	}
	head, rest, ok1 := strings.Cut(string(b), podsBegin)
	_, tail, ok2 := strings.Cut(rest, podsEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	want := head + podsBegin + table.String() + podsEnd + tail
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the tests check; run: go test ./e2e/cluster -run TestRuntimesPage -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
