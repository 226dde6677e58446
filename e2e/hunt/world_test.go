package hunt

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/killswitch/bus/bustest"
)

// options are what differs between runs.
type options struct {
	Level, Format, Records string
	Protocol               string // of OTLP
	Payloads, InTunnel     bool
	UpstreamProxy          bool
	central                bool // a control plane over NATS
	env                    []string
}

// world is a sidecar with all that is around it. Each of its files holds canaries.
type world struct {
	*planted
	options
	dir            string
	tasks          *devissuer.Issuer
	issuer         *authority
	up             *target
	collector      *collector       // of traces
	copies         *collector       // of records
	relay          *relay           // an upstream proxy
	centre         *bustest.Central // nil: none
	asked, bus     tape
	values         map[string]any
	tool           tape // all that the tool got
	stdout, stderr tape
	cmd            *exec.Cmd
	exited         chan struct{}
	at             map[string]string // listeners
	outputs        []output
	task           string // a task token
	given          bool   // it is run by another user than root
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	tasks, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	certs := newPKI(t)
	w := &world{planted: new(planted), options: o, dir: t.TempDir(), tasks: tasks}
	w.issuer, w.up = newAuthority(t, w.planted, tasks), newTarget(t, w.planted, certs)
	w.collector, w.copies, w.relay = newCollector(t, w.planted), newCollector(t, w.planted), newRelay(t, w.planted)
	w.write(t, "upstream-ca.pem", pemOf("CERTIFICATE", certs.cert.Raw))
	w.values = map[string]any{
		"Port": w.up.port, "Plain": w.up.plain, "Closed": closedPort(t), "Tasks": tasks.URL(), "Issuer": w.issuer.url, "Failing": failing,
		"DNS": newDNS(t, &w.asked), "Collector": w.collector.url, "Protocol": cmp.Or(o.Protocol, "http/protobuf"), "Copies": w.copies.url, "Records": o.Records, "Level": o.Level, "Format": o.Format,
		"Payloads": o.Payloads, "InTunnel": o.InTunnel, "Comment": w.plant("comment in a file", "config"), "NATS": "", "UpstreamProxy": "",
	}
	if o.UpstreamProxy {
		w.values["UpstreamProxy"] = w.relay.url
	}
	if o.central {
		w.centre = bustest.Start(t, 100*time.Millisecond)
		w.values["NATS"] = "nats://" + newTap(t, strings.TrimPrefix(w.centre.URL(), "nats://"), &w.bus)
		w.values["NATSKey"] = w.centre.Signer.PublicKey()
	}
	w.secrets(t, certs)
	w.files(t)
	return w
}

// closedPort is one that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	return port
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // at once: a watcher must not see half of it
		t.Fatal(err)
	}
}

// secrets writes the files with credentials.
func (w *world) secrets(t *testing.T, certs *pki) {
	t.Helper()
	for _, name := range []string{"introspect", "basic", "post", "grant", "redeem"} {
		w.write(t, "secrets/"+name, w.plant("client secret", name)+"\n")
	}
	for _, name := range []string{"static", "query", "user", "password", "one", "two"} {
		w.write(t, "secrets/"+name, w.plant("static secret", name)+"\n")
	}
	for name, kind := range map[string]string{"assertion": "ec", "github": "rsa", "audit": "ed25519"} {
		text, _ := w.newKey(t, name, kind)
		w.write(t, "secrets/"+name+".key", "# "+w.plant("comment in a file", name)+"\n"+text)
	}
	leaf := certs.leaf(t, "client.hunt.test")
	w.addKey(t, "private key", "mtls", leaf.PrivateKey)
	der, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "secrets/mtls.crt", pemOf("CERTIFICATE", leaf.Certificate[0]))
	w.write(t, "secrets/mtls.key", pemOf("PRIVATE KEY", der))
	w.write(t, "secrets/collector", "X-Api-Key: "+w.plant("key for the traces' collector", "collector")+"\n")
	w.write(t, "secrets/copies", "X-Api-Key: "+w.plant("key for the records' collector", "collector")+"\n")
	w.write(t, "secrets/proxy", "hunt:"+w.plant("password for the upstream proxy", "proxy")+"\n")
	w.write(t, "secrets/workload", w.mint(t, "workload token", "workload", map[string]any{"sub": "user", "aud": "authority"})) // the user whom awstest knows
	w.write(t, "secrets/nats.creds", w.natsCredentials(t))
}

func (w *world) natsCredentials(t *testing.T) string {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	w.add("seed of NATS credentials", "nats", string(seed))
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + part(fmt.Appendf(nil, `{"name":"hunt","sub":"U","x":%q}`, w.plant("JWT of NATS credentials", "claim"))) + "." + part([]byte(w.plant("JWT of NATS credentials", "signature")))
	return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token, seed)
}

const noRevocation = "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: []\n"

// files writes the config and what it names.
func (w *world) files(t *testing.T) {
	t.Helper()
	w.task = w.newTask(t, "task token")
	w.write(t, "task.jwt", w.task)
	w.write(t, "revocations.yaml", noRevocation+"# "+w.plant("comment in a file", "revocations")+"\n")
	w.write(t, "tools/schema.json", `{"type": "object", "properties": {"known": {"type": "string"}}}`)
	for _, dir := range []string{"out/ca", "out/state"} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.render(t, "agent.yaml", "tools/agent.yaml")
	w.render(t, "writer.yaml", "tools/writer.yaml")
	w.render(t, "sidecar.yaml", "sidecar.yaml")
}

func (w *world) render(t *testing.T, name, as string) {
	t.Helper()
	tmpl, err := template.New(name).Option("missingkey=error").ParseFiles(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, w.values); err != nil {
		t.Fatal(err)
	}
	w.write(t, as, b.String())
}

// mint returns a token with a canary in each of its parts, all of an input.
func (w *world) mint(t *testing.T, input, where string, claims map[string]any) string {
	t.Helper()
	claims["nonce"] = w.plant(input, where+", claim")
	token, err := w.tasks.MintWith(map[string]any{"x": w.plant(input, where+", header")}, claims, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	w.addToken(input, where, token)
	return token
}

// newTask returns a task token all of whose parts and claims are canaries.
func (w *world) newTask(t *testing.T, input string) string {
	t.Helper()
	named := func(name string) string { return w.plant("tenant, agent, task, run", name) }
	return w.mint(t, input, "caller", map[string]any{
		"sub": w.plant("subject", "sub") + "@people.test", "aud": "toolgate", "scope": "orders", "tenant": named("tenant"), "agent_id": named("agent"),
		"task_id": named("task"), "run_id": named("run"), "email": w.plant("other claim", "email") + "@people.test", "name": w.plant("other claim", "name"),
	})
}

// start runs the sidecar and waits until it is ready.
func (w *world) start(t *testing.T) {
	t.Helper()
	bin, err := sidecarBinary()
	if err != nil {
		t.Fatal(err)
	}
	w.exited = make(chan struct{})
	w.cmd = exec.Command(bin, "run", "--config", filepath.Join(w.dir, "sidecar.yaml"))
	w.cmd.Env = append(w.environment(), w.env...)
	w.cmd.Stdout, w.cmd.Stderr = &w.stdout, &w.stderr
	w.cmd.Dir = w.dir // where a core would be
	if w.given {
		asNobody(w.cmd)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, exited := w.cmd, w.exited
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	eventually(t, "the sidecar is ready", func() bool {
		select {
		case <-exited:
			t.Fatalf("the sidecar has ended:\n%s", w.stderr.bytes())
		default:
		}
		status, _ := w.page("/readyz")
		return status == http.StatusOK
	})
	w.addCA(t)
}

// environment has a canary in every variable that an SDK may read, and in some that nobody knows.
func (w *world) environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir()}
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN", "AZURE_CLIENT_SECRET", "VAULT_TOKEN",
		"GITHUB_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES", "NATS_CREDS", "DATABASE_URL", "OPENAI_API_KEY", "HUNT",
	} {
		env = append(env, name+"="+w.plant("environment variable", name))
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"=http://u:"+w.plant("environment variable", name)+"@127.0.0.1:1")
	}
	return env
}

// addCA plants the key of the CA that the sidecar has made.
func (w *world) addCA(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "out", "ca"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for err == nil {
			var block *pem.Block
			if block, b = pem.Decode(b); block == nil {
				break
			}
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				w.addKey(t, "key of the sidecar's CA", "CA", key)
			} else if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				w.addKey(t, "key of the sidecar's CA", "CA", key)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listening reads the listeners' addresses: from the log, or, where the level hides them, from what the process has open.
func (w *world) listening() map[string]string {
	at := map[string]string{}
	for line := range strings.Lines(string(w.stderr.bytes())) {
		var entry struct{ Msg, Listener, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			at[entry.Listener] = entry.Address
		} else if _, rest, ok := strings.Cut(line, "msg=listening listener="); ok {
			name, address, _ := strings.Cut(strings.TrimSpace(rest), " address=")
			at[name] = address
		}
	}
	return at
}

func (w *world) page(path string) (int, []byte) {
	if w.at = w.listening(); w.at["admin"] == "" {
		return 0, nil
	}
	return fetch("http://" + w.at["admin"] + path)
}

// stop ends the sidecar in order.
func (w *world) stop(t *testing.T) {
	t.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	w.wait(t)
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the sidecar ended with exit code %d", code)
	}
}

func (w *world) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w.exited:
	case <-time.After(patience):
		t.Fatal("the sidecar does not end")
	}
}
