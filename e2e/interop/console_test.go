package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// control is a running `killswitch serve`.
type control struct {
	url, token string // of the console, and the admin's
	fleet      string // killSwitch.nats for a sidecar's config
}

func startControl(t *testing.T, flags ...string) *control {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(must[string](t)(killswitchBinary()), append([]string{
		"serve", "--dir", dir, "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--warm-up", "1ns",
	}, flags...)...)
	var out, log lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the control plane's log:\n%s", log.String())
		}
	})
	greeting := regexp.MustCompile(`listening on (\S+)[\s\S]*servers: \["([^"]+)"\][\s\S]*publicKey: "([^"]+)"`)
	var found []string
	eventually(t, "the control plane is ready", func() bool {
		if found = greeting.FindStringSubmatch(out.String()); found == nil {
			return false
		}
		res, err := http.Get(found[1] + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return &control{
		url: found[1], token: strings.TrimSpace(string(token)),
		fleet: fmt.Sprintf("  nats: {servers: [%q], credentialsFile: %q, publicKey: %q}\n", found[2], filepath.Join(dir, "sidecar.creds"), found[3]),
	}
}

// streaming is a sidecar with a call that streams through it for as long as it may.
type streaming struct {
	*sidecar
	body *bufio.Reader
}

func startStreaming(t *testing.T, c *control) *streaming {
	t.Helper()
	w := newWorld(t)
	w.fleet = c.fleet
	port := w.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			_, _ = io.WriteString(rw, "data: more\n\n")
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
			}
		}
	}), false)
	s := w.start(t)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(s.proxyURL())}}
	res, err := client.Get(urlOf("http", plainHost, port, "/stream"))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close(); client.CloseIdleConnections() })
	eventually(t, "the control plane knows the sidecar", func() bool { return strings.Contains(c.ask(t, "/v1/sidecars"), `"interop"`) })
	return &streaming{s, bufio.NewReader(res.Body)}
}

// ask reads a path of the API.
func (c *control) ask(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// flows fails when the stream has ended already.
func (s *streaming) flows(t *testing.T) {
	t.Helper()
	if _, err := s.body.ReadString('\n'); err != nil {
		t.Fatal("the stream has ended:", err)
	}
}

// cut reads until the stream ends, and fails when that looks like a good end.
func (s *streaming) cut(t *testing.T) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, s.body); ended <- err }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the stream ended as if it were whole")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the stream goes on")
	}
}

// byCSS finds an element by its CSS selector.
var byCSS = chromedp.ByQuery

// login fills the form in.
func (b *browser) login(c *control) {
	b.Helper()
	b.do(chromedp.Navigate(c.url), chromedp.WaitVisible("#token", byCSS), chromedp.SendKeys("#token", c.token+kb.Enter, byCSS), chromedp.WaitVisible("#h-revoked", byCSS))
}

// TestConsoleStopsAStream: the red button cuts what streams through a real sidecar, and every open page shows it by itself.
func TestConsoleStopsAStream(t *testing.T) {
	chromium := startChromium(t)
	c := startControl(t)
	s := startStreaming(t, c)
	b := chromium.open(t)
	b.login(c)
	b.until("the tool is known", `document.querySelector("#tools")?.textContent.includes("interop")`)
	other := chromium.open(t)
	other.do(chromedp.Navigate(c.url), chromedp.WaitVisible("#h-revoked", byCSS))

	b.front()
	b.do(chromedp.SendKeys("#q", "inter"+kb.Enter, byCSS), chromedp.WaitVisible("#h-tools", byCSS),
		chromedp.Click(`a[href="/stop?preview=1&tool=interop"]`, byCSS), chromedp.WaitVisible("#stop", byCSS))
	b.until("the preview counts the call", `document.querySelector(".hits .big").textContent.includes("1 sidecar of 1, with 1 call running")`)
	b.shoot("kill-switch-stop")
	s.flows(t)
	b.do(chromedp.SendKeys("#reason", "leaked partner key", byCSS), chromedp.SendKeys("#confirm", "interop", byCSS), chromedp.Click("#stop button.red", byCSS),
		chromedp.WaitVisible("#progress", byCSS))
	s.cut(t)
	b.until("everyone has acknowledged", `document.querySelector("#acked").textContent === "1/1" && document.querySelector("#cut")?.textContent === "1 running call"`)
	b.until("the sidecar is listed", `document.querySelectorAll("#acks tbody tr").length === 1`)
	b.shoot("kill-switch-progress")
	other.front()
	other.until("the other page shows it without being loaded again", `document.querySelector("#revoked").textContent.includes("leaked partner key")`)
	other.shoot("kill-switch-home")
	other.do(chromedp.Click(`#revoked a[href^="/restore"]`, byCSS), chromedp.WaitVisible("#reason", byCSS), chromedp.SendKeys("#reason", "key replaced"+kb.Enter, byCSS),
		chromedp.WaitVisible("#progress", byCSS))
	other.until("restored everywhere", `document.querySelector("#acked").textContent === "1/1"`)
	other.do(chromedp.Click(`nav a[href="/history"]`, byCSS), chromedp.WaitVisible("#history", byCSS))
	other.until("both are in the history", `["leaked partner key", "key replaced"].every((t) => document.querySelector("#history").textContent.includes(t))`)
}

// TestConsoleByKeyboard: the same with Tab and Enter alone, and one can always see where one is.
func TestConsoleByKeyboard(t *testing.T) {
	chromium := startChromium(t)
	c := startControl(t)
	s := startStreaming(t, c)
	b := chromium.open(t)
	b.do(chromedp.Navigate(c.url), chromedp.WaitVisible("#token", byCSS))
	b.tab("#token")
	b.do(chromedp.KeyEvent(c.token+kb.Enter), chromedp.WaitVisible("#h-revoked", byCSS))
	b.tab(".skip")
	b.tab(`nav a[href="/stop"]`)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#tool-new", byCSS))
	b.tab("#tool-new")
	b.do(chromedp.KeyEvent("interop"))
	b.tab(".select button")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#stop", byCSS))
	b.tab("#reason")
	b.do(chromedp.KeyEvent("keyboard"))
	b.tab("#confirm")
	b.do(chromedp.KeyEvent("interop"))
	b.tab("#stop button.red")
	s.flows(t)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#progress", byCSS))
	s.cut(t)
	b.until("everyone has acknowledged", `document.querySelector("#acked").textContent === "1/1"`)
}

// TestConsoleWithoutScript: forms alone do it, and the page loads itself again until all have acknowledged.
func TestConsoleWithoutScript(t *testing.T) {
	chromium := startChromium(t)
	c := startControl(t)
	s := startStreaming(t, c)
	b := chromium.open(t)
	b.withoutScript()
	b.login(c)
	b.do(chromedp.Navigate(c.url+"/stop?preview=1&tool=interop"), chromedp.WaitVisible("#stop", byCSS),
		chromedp.SendKeys("#reason", "no script", byCSS), chromedp.SendKeys("#confirm", "interop", byCSS), chromedp.Click("#stop button.red", byCSS), chromedp.WaitVisible("#progress", byCSS))
	s.cut(t)
	b.until("everyone has acknowledged", `document.querySelector("#acked")?.textContent === "1/1"`)
}

// TestConsoleIsReadable: every page in light and dark, wide and narrow.
func TestConsoleIsReadable(t *testing.T) {
	chromium := startChromium(t)
	c := startControl(t, "--second-person", "restore")
	s := startStreaming(t, c)
	b := chromium.open(t)
	b.do(chromedp.Navigate(c.url))
	b.readable("/login")
	b.login(c)
	b.do(chromedp.Navigate(c.url+"/stop?preview=1&tool=interop&tenant=a-tenant-with-quite-a-long-name-0123456789-0123456789"), chromedp.WaitVisible("#stop", byCSS),
		chromedp.SendKeys("#reason", "r", byCSS), chromedp.SendKeys("#confirm", "interop"+kb.Enter, byCSS), chromedp.WaitVisible("#progress", byCSS))
	b.do(chromedp.Click(`a[href^="/restore"]`, byCSS), chromedp.WaitVisible("#reason", byCSS), chromedp.SendKeys("#reason", "r"+kb.Enter, byCSS), chromedp.WaitVisible("#progress", byCSS))
	for _, path := range []string{
		"/", "/sidecars", "/history", "/search?q=interop", "/stop", "/stop?preview=1&tool=interop", "/stop?preview=1&risk=none", "/revisions/1", "/revisions/2", "/proposal?revision=2", "/drill", "/nowhere",
	} {
		b.do(chromedp.Navigate(c.url+path), chromedp.WaitVisible("h1", byCSS))
		b.readable(path)
	}
	s.flows(t) // another tenant's
}

// evaluate returns what a script makes of the page.
func evaluate[T any](b *browser, script string) (v T) {
	b.Helper()
	b.do(chromedp.Evaluate(script, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

// until polls a condition of the page.
func (b *browser) until(what, condition string) {
	b.Helper()
	eventually(b.T, what, func() bool {
		var ok bool
		// A page that is being left cannot be asked.
		err := b.try(chromedp.Evaluate("Boolean("+condition+")", &ok))
		return err == nil && ok
	})
}

func (b *browser) do(actions ...chromedp.Action) {
	b.Helper()
	if err := b.try(actions...); err != nil {
		var text string
		_ = b.try(chromedp.Evaluate("document.body?.innerText", &text))
		b.Fatalf("%v; the page says:\n%s", err, text)
	}
}

func (b *browser) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}
