//go:build linux

package cases

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// asker is a connection to the proxy that is spoken by hand.
type asker struct {
	net.Conn
	r *bufio.Reader
}

// answer is a response, read to its end.
type answer struct {
	status int // 0: none came, the connection ended
	code   string
	header http.Header
	body   string
}

// patience bounds one exchange with the proxy.
const patience = 15 * time.Second

func (w *world) dial(t *testing.T) *asker { return dialProxy(t, w.t1) }

func dialProxy(t *testing.T, address string) *asker {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: tester.AsSlice()}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &asker{c, bufio.NewReader(c)}
}

func basic(token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("t1:"+token))
}

// auth is the header line that names tenant A's caller.
func (w *world) auth() string { return "Proxy-Authorization: " + basic(w.tokenA) + "\r\n" }

func (a *asker) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(a.Conn, text); err != nil {
		t.Logf("sending: %v", err) // a proxy may have had enough before all is sent
	}
}

// read reads one response to a request of that method.
func (a *asker) read(t *testing.T, method string) answer {
	t.Helper()
	res, err := http.ReadResponse(a.r, &http.Request{Method: method})
	if err != nil {
		return answer{}
	}
	got := answer{status: res.StatusCode, code: res.Header.Get("Toolgate-Denial"), header: res.Header}
	if method == http.MethodConnect && res.StatusCode == http.StatusOK {
		return got
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		got.header.Set("Body-Error", err.Error())
	}
	got.body = string(body)
	return got
}

// ended reports whether the proxy closes the connection without another byte.
func (a *asker) ended(t *testing.T) bool {
	t.Helper()
	_, err := a.r.ReadByte()
	if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
		return false
	}
	return err != nil
}

// once sends raw bytes on a connection of its own and reads the answer to a request of that method.
func (w *world) once(t *testing.T, method, text string) answer {
	t.Helper()
	a := w.dial(t)
	defer func() { _ = a.Close() }()
	a.send(t, text)
	return a.read(t, method)
}

// connect asks for a tunnel.
func (w *world) connect(t *testing.T, target string) answer {
	t.Helper()
	return w.once(t, "CONNECT", "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n"+w.auth()+"\r\n")
}

// get asks for a plain URL, as it is written.
func (w *world) get(t *testing.T, target string) answer {
	t.Helper()
	return w.once(t, "GET", "GET "+target+" HTTP/1.1\r\nHost: api.ok.test\r\n"+w.auth()+"Connection: close\r\n\r\n")
}

// open returns a tunnel that the proxy has agreed to.
func (w *world) open(t *testing.T, target string) *asker {
	t.Helper()
	a := w.dial(t)
	a.send(t, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n"+w.auth()+"\r\n")
	if got := a.read(t, "CONNECT"); got.status != http.StatusOK {
		t.Fatalf("CONNECT %s: %d %s", target, got.status, got.code)
	}
	return a
}

// roots are the CAs that a tool trusts: the sidecar's and the upstreams'.
func (w *world) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := w.pki.roots.Clone()
	b, err := os.ReadFile(w.interceptCAFile)
	if err != nil {
		t.Fatal(err)
	}
	if !pool.AppendCertsFromPEM(b) {
		t.Fatal("the sidecar's CA file holds no certificate")
	}
	return pool
}

// tls opens a tunnel and does a handshake in it; change may change the config.
func (w *world) tls(t *testing.T, target string, change func(*tls.Config)) (*asker, error) {
	t.Helper()
	a := w.open(t, target)
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{RootCAs: w.roots(t), ServerName: host}
	if change != nil {
		change(conf)
	}
	c := tls.Client(a, conf)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return &asker{c, bufio.NewReader(c)}, nil
}

// inside is tls that must succeed, with no settings.
func (w *world) inside(t *testing.T, target string) *asker {
	t.Helper()
	a, err := w.tls(t, target, nil)
	if err != nil {
		t.Fatalf("the handshake through %s: %v", target, err)
	}
	return a
}

// client is a stock client for the proxy at an address; its caller is the token's.
func (w *world) client(t *testing.T, listener, token string, h2 bool) *http.Client {
	t.Helper()
	p := &url.URL{Scheme: "http", Host: listener, User: url.UserPassword("tool", token)}
	tr := &http.Transport{
		Proxy: http.ProxyURL(p), TLSClientConfig: &tls.Config{RootCAs: w.roots(t)}, ForceAttemptHTTP2: h2, DisableCompression: true,
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: tester.AsSlice()}}).DialContext,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// is fails the test unless the answer has one of the statuses.
func (a answer) is(t *testing.T, what string, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, a.status) {
		t.Errorf("%s: status %d %s, want one of %v\n%s", what, a.status, a.code, statuses, a.body)
	}
}

// quiet fails the test if what the client saw has a secret.
func (a answer) quiet(t *testing.T) {
	t.Helper()
	var b strings.Builder
	_ = a.header.Write(&b)
	if all := b.String() + a.body; strings.Contains(all, secretA) || strings.Contains(all, secretB) {
		t.Errorf("the client saw the credential:\n%s", all)
	}
}
