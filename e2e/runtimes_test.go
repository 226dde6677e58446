package e2e

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/runtimes.md and docs/interop.md")

// way is how a runtime fares with nothing but the variables of a pod.
type way string

const (
	works way = "works"
	line  way = "needs a line" // of its own configuration or code
	never way = "cannot"
)

// stock is a program that a tool may be made of, as it is after its installation.
type stock struct {
	name    string
	way     way
	note    string                                            // what it takes from where, or the line that it needs
	command func(t *testing.T, url string, w *world) []string // as a tool that knows of no proxy would run it
	amended func(t *testing.T, url string, w *world) []string // the same with the line; nil where there is none
	path    string                                            // what it asks for; empty: an order
	foreign bool                                              // it expects another kind of server: that its request arrives is all
}

// podEnv are the variables that the injector gives a tool in explicit mode, and no more.
func podEnv(s *sidecar, bundle, store string) []string {
	proxy := "http://" + s.tokenFile
	env := []string{"NODE_USE_ENV_PROXY=1"}
	for name, value := range map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1,::1,10.96.0.1",
	} {
		env = append(env, name+"="+value, strings.ToLower(name)+"="+value)
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT",
		"CARGO_HTTP_CAINFO", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "HTTPLIB2_CA_CERTS", "npm_config_cafile",
	} {
		env = append(env, name+"="+bundle)
	}
	host, port, _ := net.SplitHostPort(s.tokenFile)
	java := "-Djavax.net.ssl.trustStore=" + store + " -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
	for _, scheme := range []string{"http", "https"} {
		java += fmt.Sprintf(" -D%s.proxyHost=%s -D%s.proxyPort=%s", scheme, host, scheme, port)
	}
	return append(env, "JAVA_TOOL_OPTIONS="+java+" -Dhttp.nonProxyHosts=localhost|127.*|[::1]|10.96.0.1")
}

// script is a command that takes the URL as its argument.
func script(args ...string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, _ *world) []string {
		t.Helper()
		program(t, args[0])
		return append(args, url)
	}
}

// pythonWith runs code with a Python that has the module, the system's own if another comes first.
func pythonWith(module, code string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, _ *world) []string {
		t.Helper()
		for _, name := range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(name, "-c", "import "+module).Run() == nil {
				return []string{name, "-c", code, url}
			}
		}
		missing(t, "no Python has the module "+module)
		return nil
	}
}

func nodeWith(code string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, _ *world) []string {
		t.Helper()
		return []string{node(t), "-e", code, url}
	}
}

// oldNode is a Node that knows nothing of NODE_USE_ENV_PROXY.
func oldNode(code string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, _ *world) []string {
		t.Helper()
		path := program(t, "node")
		out, err := exec.Command(path, "-p", "const [a,b]=process.versions.node.split('.').map(Number); a<22 || a==22 && b<21").Output()
		if err != nil || strings.TrimSpace(string(out)) != "true" {
			t.Skip("NOT TESTED: the Node of this machine is not older than 22.21")
		}
		if _, err := os.Stat("issuer/node_modules/undici"); err != nil {
			missing(t, "undici is not installed below e2e/issuer")
		}
		return []string{path, "-e", code, url}
	}
}

var goGetter = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(binDir, "get")
	cmd := exec.Command("go", "build", "-o", bin, "testdata/runtimes/get.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

func goProgram(more ...string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, w *world) []string {
		t.Helper()
		bin, err := goGetter()
		if err != nil {
			t.Fatal(err)
		}
		args := []string{bin, url}
		for _, name := range more {
			args = append(args, filepath.Join(w.dir, name))
		}
		return args
	}
}

func gitClone(t *testing.T, url string, _ *world) []string {
	t.Helper()
	program(t, "git")
	return []string{"git", "clone", "-q", url, filepath.Join(t.TempDir(), "clone")}
}

func npmView(t *testing.T, url string, _ *world) []string {
	t.Helper()
	program(t, "npm")
	return []string{"npm", "view", "a-package", "--registry", url, "--fetch-retries=0", "--update-notifier=false"}
}

func pipDownload(t *testing.T, url string, _ *world) []string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-m", "pip", "--version").Run() == nil {
			return []string{name, "-m", "pip", "download", "--retries=0", "--disable-pip-version-check", "--no-deps", "-i", url, "a-package"}
		}
	}
	missing(t, "no Python has pip")
	return nil
}

const (
	urllibGet   = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=30).read())"
	requestsGet = "import sys, requests; print(requests.get(sys.argv[1], timeout=30).text)"
	httpxGet    = "import sys, httpx; print(httpx.get(sys.argv[1], timeout=30).text)"
	httplib2Get = "import sys, httplib2; print(httplib2.Http(timeout=30).request(sys.argv[1])[1])"
	aiohttpGet  = "import sys, asyncio, aiohttp\nasync def get():\n async with aiohttp.ClientSession(%s) as s:\n  async with s.get(sys.argv[1]) as r: print(await r.text())\nasyncio.run(get())"
	fetchGet    = "fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.log(e, e.cause); process.exit(1) })"
	httpsGet    = "require('https').get(process.argv[1], r => r.pipe(process.stdout)).on('error', e => { console.log(e); process.exit(1) })"
	undiciGet   = "const u = require('./issuer/node_modules/undici'); u.setGlobalDispatcher(new u.EnvHttpProxyAgent()); u." + fetchGet
)

func stocks() []stock {
	grpcCall, err := os.ReadFile("testdata/runtimes/grpc_call.py")
	if err != nil {
		panic(err)
	}
	return []stock{
		{name: "curl", way: works, note: "`https_proxy`; `CURL_CA_BUNDLE`", command: script("curl", "-sS", "--max-time", "30")},
		{name: "wget (Debian, GnuTLS)", way: line, note: "roots: `--ca-certificate=$SSL_CERT_FILE`, or `ca_certificate` in `.wgetrc`; it reads the system's file and no variable, so nothing where that is mounted",
			command: script("wget", "-qO-", "--tries=1", "--timeout=30"), amended: wgetWithRoots},
		{name: "git", way: works, note: "`https_proxy`; `GIT_SSL_CAINFO`", command: gitClone, path: "/git/tools.git"},
		{name: "Go, `net/http`", way: works, note: "`HTTPS_PROXY`; `SSL_CERT_FILE`", command: goProgram()},
		{name: "Python, `urllib`", way: works, note: "`https_proxy`; `SSL_CERT_FILE`", command: pythonWith("ssl", urllibGet)},
		{name: "Python, `requests`", way: works, note: "`https_proxy`; `REQUESTS_CA_BUNDLE`", command: pythonWith("requests", requestsGet)},
		{name: "Python, `httpx`", way: works, note: "`HTTPS_PROXY`; `SSL_CERT_FILE`", command: pythonWith("httpx", httpxGet)},
		{name: "Python, `aiohttp`", way: line, note: "`ClientSession(trust_env=True)`: without it no proxy is used; roots by `SSL_CERT_FILE`",
			command: pythonWith("aiohttp", fmt.Sprintf(aiohttpGet, "")), amended: pythonWith("aiohttp", fmt.Sprintf(aiohttpGet, "trust_env=True"))},
		{name: "Python, `httplib2`", way: works, note: "`https_proxy`; `HTTPLIB2_CA_CERTS`", command: pythonWith("httplib2", httplib2Get)},
		{name: "Python, `grpc`", way: works, note: "`https_proxy`; `GRPC_DEFAULT_SSL_ROOTS_FILE_PATH`", command: pythonWith("grpc", string(grpcCall)), foreign: true},
		{name: "pip", way: works, note: "`HTTPS_PROXY`; `PIP_CERT`", command: pipDownload, path: "/simple", foreign: true},
		{name: "Node 22.21 and later, `fetch`", way: works, note: "`NODE_USE_ENV_PROXY`, `HTTPS_PROXY`; `NODE_EXTRA_CA_CERTS`", command: nodeWith(fetchGet)},
		{name: "Node 22.21 and later, `node:https`", way: works, note: "the same", command: nodeWith(httpsGet)},
		{name: "Node before 22.21, `fetch`", way: line, note: "`setGlobalDispatcher(new EnvHttpProxyAgent())` of undici; roots by `NODE_EXTRA_CA_CERTS`",
			command: oldNode(fetchGet), amended: oldNode(undiciGet)},
		{name: "npm", way: works, note: "`HTTPS_PROXY`; `npm_config_cafile`", command: npmView, path: "/npm", foreign: true},
		{name: "Java 12 and later, `java.net.http`", way: works, note: "`JAVA_TOOL_OPTIONS`", command: javaProgram()},
		{name: "Java 12 and later, `HttpURLConnection`", way: works, note: "the same", command: javaProgram("stream")},
		{name: "a program with its roots compiled in", way: never, note: "it trusts the public roots alone; calls that are relayed blind work",
			command: goProgram("upstream-ca.pem")},
	}
}

func wgetWithRoots(t *testing.T, url string, w *world) []string {
	t.Helper()
	program(t, "wget")
	return []string{"wget", "-qO-", "--tries=1", "--timeout=30", "--ca-certificate=" + filepath.Join(w.dir, "sidecar-bundle.pem"), url}
}

var javaClasses = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binDir, "java")
	out, err := exec.Command("javac", "-d", dir, "testdata/runtimes/Get.java").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return dir, nil
})

func javaProgram(more ...string) func(*testing.T, string, *world) []string {
	return func(t *testing.T, url string, _ *world) []string {
		t.Helper()
		program(t, "javac")
		dir, err := javaClasses()
		if err != nil {
			t.Fatal(err)
		}
		return append([]string{"java", "-cp", dir, "Get", url}, more...)
	}
}

// TestRuntimes runs each runtime with the variables of a pod and nothing else, to a host that is intercepted and to one that is
// relayed blind, where it must verify two different CAs by one file.
func TestRuntimes(t *testing.T) {
	w := newWorld(t, gitRoot(t), devAuthority)
	s := w.start(t)
	env := podEnv(s, filepath.Join(w.dir, "sidecar-bundle.pem"), filepath.Join(w.dir, "sidecar-trust.p12"))
	for _, r := range stocks() {
		t.Run(r.name, func(t *testing.T) {
			t.Run("intercepted", func(t *testing.T) { r.check(t, w, env, ordersHost, r.way == works) })
			t.Run("relayed", func(t *testing.T) { r.check(t, w, env, plainHost, r.way != line) })
		})
	}
}

// check runs a runtime as it is, and with its line if it needs one. It must have reached the upstream, and be content with the answer.
func (r stock) check(t *testing.T, w *world, env []string, host string, reaches bool) {
	t.Helper()
	path := r.path
	if path == "" {
		path = "/v1/orders/42"
	}
	arrives := func(command func(*testing.T, string, *world) []string) (bool, string) {
		args := command(t, w.up.url(host, path), w)
		before := len(w.up.arrivals(host))
		out, err := run(t, env, args[0], args[1:]...)
		return len(w.up.arrivals(host)) > before && (err == nil || r.foreign), fmt.Sprintf("%v, output:\n%s", err, out)
	}
	if got, out := arrives(r.command); got != reaches {
		t.Errorf("as it is: its request arrived: %v, want %v: %s", got, reaches, out)
	}
	if r.amended == nil {
		return
	}
	if got, out := arrives(r.amended); !got {
		t.Errorf("with its line nothing arrived: %s", out)
	}
}

const (
	tableBegin = "<!-- runtimes:begin -->\n"
	tableEnd   = "<!-- runtimes:end -->\n"
)

// TestRuntimesTable: the page says what TestRuntimes checks.
func TestRuntimesTable(t *testing.T) {
	const page = "../docs/runtimes.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| runtime | with the injected variables alone | by |\n|---|---|---|\n")
	for _, r := range stocks() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", r.name, r.way, r.note)
	}
	head, rest, ok1 := strings.Cut(string(b), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	want := head + tableBegin + table.String() + tableEnd + tail
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the tests check; run: go test ./e2e -run TestRuntimesTable -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
