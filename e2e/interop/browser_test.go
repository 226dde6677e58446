package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var update = flag.Bool("update", false, "write the pictures of docs/img and the table of docs/interop.md anew")

// chromium is a browser's process.
type chromium struct{ ctx context.Context }

// startChromium starts one that reaches nothing but loopback.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path := program(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-features", "OptimizationHints,MediaRouter,Translate"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("no-proxy-server", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return &chromium{ctx}
}

// browser is one page of a browser. All pages of one share its cookies.
type browser struct {
	*testing.T
	ctx context.Context
}

// open opens a page. What the page's console reports as an error, such as a breach of the content security policy, fails the
// test.
func (c *chromium) open(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(c.ctx)
	var mu sync.Mutex
	var wrong []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
				wrong = append(wrong, e.Entry.Text)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		for _, text := range wrong {
			t.Errorf("the browser says: %s", text)
		}
	})
	// The page lives as long as the context of the first call, which must not be one of those that end early.
	if err := chromedp.Run(ctx, log.Enable()); err != nil {
		t.Fatal(err)
	}
	b := &browser{t, ctx}
	b.do(emulation.SetFocusEmulationEnabled(true), chromedp.EmulateViewport(960, 720))
	return b
}

func (b *browser) withoutScript() { b.do(emulation.SetScriptExecutionDisabled(true)) }

func (b *browser) scheme(name string) {
	b.Helper()
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}))
}

// front brings the page to the front, since only there it can be taken a picture of. A page behind it rests meanwhile.
func (b *browser) front() {
	b.Helper()
	if *update {
		b.do(page.BringToFront())
	}
}

// shoot writes the page to docs/img, in light and dark, with -update.
func (b *browser) shoot(name string) {
	b.Helper()
	if !*update {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		var png []byte
		b.scheme(scheme)
		b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
			return err
		}))
		dir := filepath.Join("..", "..", "docs", "img")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+scheme+".png"), png, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.scheme("light")
}

// tab presses Tab until an element has the focus. Where it goes on its way must be seen.
func (b *browser) tab(selector string) {
	b.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if unseen := evaluate[string](b, `(() => {
			const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
			if (e === document.body) return "";
			const seen = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.width > 1 && r.right > 0;
			return seen ? "" : e.outerHTML.slice(0, 200);
		})()`); unseen != "" {
			b.Errorf("one does not see that this has the focus: %s", unseen)
		}
		if evaluate[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
	}
	b.Fatalf("Tab does not reach %s", selector)
}

// readable checks contrast (WCAG 2.2, 1.4.3) in both schemes, that nothing must be scrolled sideways at 320 pixels (1.4.10),
// and that every control has a name (4.1.2).
func (b *browser) readable(path string) {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, low := range evaluate[[]string](b, contrast) {
			b.Errorf("%s, %s: %s", path, scheme, low)
		}
	}
	b.scheme("light")
	b.do(chromedp.EmulateViewport(320, 640))
	if w := evaluate[int](b, `document.documentElement.scrollWidth`); w > 320 {
		b.Errorf("%s: %d pixels wide on a screen of 320: %s", path, w, evaluate[string](b, `[...document.querySelectorAll("body *")].filter((e) =>
			e.getBoundingClientRect().right > 320 && !e.closest(".scroll")).map((e) => e.outerHTML.slice(0, 80)).join("\n")`))
	}
	b.do(chromedp.EmulateViewport(960, 720))
	var nodes []*accessibility.Node
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		nodes, err = accessibility.GetFullAXTree().Do(ctx)
		return err
	}))
	named := map[string]bool{"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true, "checkbox": true, "progressbar": true, "navigation": true}
	found := map[string]bool{}
	for _, n := range nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		found[role] = true
		if named[role] && (n.Name == nil || strings.Trim(string(n.Name.Value), `" `) == "") {
			b.Errorf("%s: a %s without a name", path, role)
		}
	}
	for _, landmark := range []string{"main", "banner", "contentinfo", "heading"} {
		if !found[landmark] {
			b.Errorf("%s: no %s", path, landmark)
		}
	}
}

// contrast lists texts that stand out too little from what is behind them.
const contrast = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => {
		const f = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const low = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || !e.checkVisibility() || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) low.push(ratio.toFixed(2) + " " + texts.currentNode.data.trim().slice(0, 40));
	}
	return low;
})()`
