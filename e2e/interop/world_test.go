package interop

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/toolgate/toolgate/devissuer"
)

// The names of the upstreams tell how the sidecar treats them.
const (
	boundHost  = "bound.test" // intercepted, since a binding adds a credential
	ruledHost  = "ruled.test" // intercepted, since a rule wants to see method and path
	namedHost  = "named.test" // intercepted, since the config names it
	plainHost  = "plain.test" // relayed blind
	credential = "interop-credential-7f3a9c"
)

var allHosts = []string{boundHost, ruledHost, namedHost, plainHost}

// world is what surrounds one sidecar. Its folder holds the sidecar's config and all files that it names.
type world struct {
	dir    string
	pki    pki
	issuer *devissuer.Issuer
	ports  []string       // of the upstreams
	limits string         // of the sidecar
	audit  string         // of the config
	millis int            // that a call may take
	fleet  string         // killSwitch.nats of the config
	hosts  []string       // of the upstreams, besides allHosts
	clouds string         // bindings of the config, besides the one of all worlds; a template
	extra  map[string]any // values of that template
}

func newWorld(t *testing.T) *world {
	t.Helper()
	issuer, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w := &world{dir: t.TempDir(), pki: newPKI(t), issuer: issuer, limits: "{drain: 2s}", audit: "{output: stdout, chain: true}", millis: 100000}
	w.write(t, "task.jwt", must[string](t)(issuer.Mint(map[string]any{"sub": "user:alice", "aud": "toolgate"})))
	w.write(t, "upstream-ca.pem", string(w.pki.caPEM))
	w.write(t, "credential", credential)
	w.write(t, "revocations.yaml", "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: []\n")
	if err := os.Mkdir(filepath.Join(w.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// listen opens a port that all hosts of the world are upstreams on.
func (w *world) listen(t *testing.T) net.Listener {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	w.ports = append(w.ports, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
	return ln
}

// serve starts an upstream of net/http and returns its port.
func (w *world) serve(t *testing.T, h http.Handler, encrypted bool) string {
	t.Helper()
	srv := &httptest.Server{Listener: w.listen(t), EnableHTTP2: true,
		Config: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true}} // OPTIONS * is seen as well
	if encrypted {
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{w.pki.leaf}}
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return w.ports[len(w.ports)-1]
}

func (w *world) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// render fills the config's templates. It is called once all upstreams listen.
func (w *world) render(t *testing.T) {
	t.Helper()
	values := map[string]any{
		"Dir": w.dir, "Ports": w.ports, "Hosts": append(slices.Clone(allHosts), w.hosts...), "DNS": serveNames(t, [4]byte{127, 0, 0, 1}),
		"Bound": boundHost, "Ruled": ruledHost, "Named": namedHost, "Issuer": w.issuer.URL(), "Limits": w.limits, "Audit": w.audit, "Millis": w.millis, "Fleet": w.fleet,
		"Clouds": "",
	}
	if w.clouds != "" {
		maps.Copy(values, w.extra)
		values["Clouds"] = expand(t, template.Must(template.New("bindings").Parse(w.clouds)), values)
	}
	for _, name := range []string{"sidecar.yaml", "manifest.yaml"} {
		w.write(t, name, expand(t, template.Must(template.New(name).ParseFiles(filepath.Join("testdata", name))), values))
	}
}

func expand(t *testing.T, tmpl *template.Template, values map[string]any) string {
	t.Helper()
	var b strings.Builder
	if err := tmpl.Option("missingkey=error").Execute(&b, values); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// trusted returns the file with the CA that a tool needs to trust for host.
func (w *world) trusted(host string) string {
	if host == plainHost {
		return w.path("upstream-ca.pem")
	}
	return w.path("intercept-ca.pem")
}

func address(host, port string) string { return net.JoinHostPort(host, port) }

func urlOf(scheme, host, port, path string) string {
	return fmt.Sprintf("%s://%s%s", scheme, address(host, port), path)
}
