package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// canaries are secrets and personal data, one for each place that they are sent in.
type canaries struct{ all []string }

// plain is one that only its place tells.
func (c *canaries) plain(place string) string {
	return c.note("cnry" + place + "Q7w2x9Lm3Kp8")
}

// token is one that has a vendor's form.
func (c *canaries) token(n int) string {
	return c.note("ghp" + "_" + fmt.Sprintf("%02d", n) + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zC5v")
}

func (c *canaries) note(s string) string {
	c.all = append(c.all, s)
	return s
}

// canaryForms are a canary's encodings.
func canaryForms(s string) []string {
	all := []string{s, url.QueryEscape(s), hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for shift := range 3 { // base64 of it as part of something, without the characters that its neighbours share
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("\x00", shift) + s))
			all = append(all, text[(shift*8+5)/6:len(text)-2])
		}
	}
	var escaped, percent strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&escaped, `\u%04x`, s[i])
		fmt.Fprintf(&percent, "%%%02X", s[i])
	}
	return append(all, escaped.String(), percent.String())
}

// mirror answers with what it was sent: in its body, and in a header and a status that name it.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	secret := r.Header.Get("X-Secret")
	h := w.Header()
	h.Set("Content-Type", r.Header.Get("Content-Type"))
	if secret != "" {
		h.Set("X-Session", secret)
		h.Set("Set-Cookie", "sid="+secret+"; Path=/; HttpOnly")
		h.Set("Location", "https://user:"+secret+"@orders.test/next?token="+secret+"#"+secret)
	}
	switch strings.TrimPrefix(r.URL.Path, "/mirror/") {
	case "gzip":
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(body)
		_ = z.Close()
	case "reason":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", secret)
		_ = conn.Close()
	default:
		_, _ = w.Write(body)
	}
}

// captured is what a test reads of a HAR file.
type captured struct {
	Log struct {
		Version string
		Entries []capturedEntry
	}
}

type capturedEntry struct {
	Request struct {
		Method, URL string
		Headers     []struct{ Name, Value string }
		PostData    *struct{ MIMEType, Text, Comment string }
	}
	Response struct {
		Status  int
		Headers []struct{ Name, Value string }
		Content struct{ Text, Comment string }
	}
}

// capturing returns a world whose sidecar captures its tool's calls, and the folder.
func capturing(t *testing.T, bounds string) (*world, string) {
	t.Helper()
	w := newWorld(t, "", devAuthority)
	dir := filepath.Join(w.dir, "captures")
	w.audit = fmt.Sprintf(`, capture: {dir: %q, tools: [orders_reader]%s}`, dir, bounds)
	manifest, err := os.ReadFile(filepath.Join(w.dir, "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "manifest.yaml", string(manifest)+"observability: {redactFields: [customer_email, customer, $.deep..inner], redactClasses: [card, iban, email, phone, ssn, ip]}\n")
	return w, dir
}

type sending struct {
	method, path, contentType, body string
	header                          http.Header
}

func send(t *testing.T, c *http.Client, target string, s sending) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), s.method, target, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	if s.contentType != "" {
		req.Header.Set("Content-Type", s.contentType)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", s.method, s.path, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode) + " " + string(b)
}

// secretly is a call for each place that a secret can be in.
func secretly(t *testing.T, c *canaries) []sending {
	t.Helper()
	object := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const asJSON, asForm = "application/json", "application/x-www-form-urlencoded"
	type m = map[string]any
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	file, err := parts.CreateFormFile("upload", c.token(1)+".txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(file, "the key is "+c.token(2))
	_ = parts.WriteField("password", c.plain("part"))
	_ = parts.Close()
	secret := c.plain("answer")
	email, card := c.note("cnry.person@shop.example"), c.note("4012888888881881")
	inner := object(m{"customer_email": c.plain("nested"), "n": 1})
	return []sending{
		{path: "/mirror/headers", header: http.Header{"X-Secret": {secret}, "X-Api-Key": {c.plain("key")}, "Cookie": {"sid=" + c.plain("cookie") + "; t=" + c.plain("other")},
			"Authorization": {"Basic " + c.note(base64.StdEncoding.EncodeToString([]byte("cnry:"+c.plain("basic"))))}, "User-Agent": {"x/1 " + c.token(3)}, "X-" + c.token(4)[4:]: {"1"}}},
		{path: "/mirror/reason", header: http.Header{"X-Secret": {c.plain("reason")}}},
		{path: "/mirror/query?token=" + c.plain("query") + "&cursor=" + c.plain("cursor") + "&customer_email=" + url.QueryEscape(email) + "&u=" + url.QueryEscape("https://a.example/?sig="+c.plain("inurl"))},
		{path: "/mirror/" + c.token(5) + "/" + card + "/x"},
		{method: "POST", path: "/mirror/json", contentType: asJSON, body: object(m{
			"customer_email": email, "customer": m{"name": "cnry", "age": 41, "vip": true, c.plain("member"): []any{1.5, nil, c.plain("inside")}},
			"a": []any{m{"password": c.plain("deep")}}, "deep": m{"x": m{"inner": c.plain("path")}}, "pan": json.Number(card), "text": "ask " + email + " or +44 20 7123 4567",
			"nested": inner, "twice": object(m{"in": inner}), "coded": base64.StdEncoding.EncodeToString([]byte(inner)), c.token(6): 1, "escaped": strings.ReplaceAll(url.QueryEscape(c.token(7)), "a", "%61"),
			"look": "[REDACTED:card.0123456789abcdef-0]" + c.token(8), "keep": "in the open", "count": 7,
			"next": "https://orders.test/next?token=" + c.plain("next") + "&page=2",
		})},
		{method: "POST", path: "/mirror/gzip", contentType: asJSON, body: object(m{"api_key": c.plain("gzip"), "keep": "in the open"})},
		{method: "POST", path: "/mirror/form", contentType: asForm, body: url.Values{"password": {c.plain("form")}, "customer[email]": {"x"}, "customer_email": {email}, "note": {"key " + c.token(9)}}.Encode()},
		{method: "POST", path: "/mirror/multipart", contentType: parts.FormDataContentType(), body: form.String()},
		{method: "POST", path: "/mirror/text", contentType: "text/plain", body: "Authorization: Bearer " + c.plain("text") + "\npassword: \"" + c.plain("pair") + "\"\n"},
		{method: "POST", path: "/mirror/events", contentType: "text/event-stream", body: "event: " + c.token(10) + "\ndata: " + object(m{"customer_email": c.plain("event")}) + "\n\ndata: " + object(m{"delta": "the key is gh"}) + "\n\ndata: " + object(m{"delta": c.token(11)[2:]}) + "\n\n"},
		{method: "POST", path: "/mirror/broken", contentType: asJSON, body: `{"customer_email":"` + c.plain("broken")},
		{method: "POST", path: "/mirror/binary", contentType: "application/octet-stream", body: "\x00\x01" + c.plain("binary")},
		{method: "POST", path: "/mirror/long", contentType: asJSON, body: object(m{"x": strings.Repeat("long ", 20000) + c.plain("long")})},
	}
}

// TestCapture is the promise of audit.capture: nothing of a secret or a person is in the file, and what it holds can be replayed.
func TestCapture(t *testing.T) {
	w, dir := capturing(t, "")
	s := w.start(t)
	tool := toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), filepath.Join(w.dir, "sidecar-bundle.pem"))
	tool.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	var c canaries
	calls := secretly(t, &c)
	for _, host := range []string{ordersHost, plainHost} {
		for _, one := range calls {
			client := tool
			if one.path == "/mirror/reason" {
				client = &http.Client{Transport: h1Only(t, tool)}
			}
			send(t, client, w.up.url(host, one.path), one)
		}
	}
	upgrade, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.up.url(ordersHost, "/ws"), nil)
	if err != nil {
		t.Fatal(err)
	}
	upgrade.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {base64.StdEncoding.EncodeToString([]byte(c.plain("ws")[:16]))}, "Sec-Websocket-Version": {"13"}, "X-Token": {c.plain("upgrade")}}
	if res, err := h1Only(t, tool).RoundTrip(upgrade); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if res, err := tool.Get(w.up.url(deniedHost, "/"+c.plain("denied"))); err == nil {
		_ = res.Body.Close()
	}
	s.stop(t)
	name, text, har := harAmong(t, dir, 0, len(calls))
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", st.Mode(), err)
	}
	for _, a := range w.up.arrivals(ordersHost) {
		if a.Token != "" {
			c.note(a.Token)
			c.note(a.Token[strings.LastIndexByte(a.Token, '.')+1:])
		}
	}
	for _, secret := range c.all {
		for _, form := range canaryForms(secret) {
			if at := bytes.Index(bytes.ToLower(text), []byte(strings.ToLower(form))); at >= 0 {
				t.Errorf("%q is in the file: …%s…", secret, text[max(0, at-200):min(len(text), at+200)])
				break
			}
		}
	}
	checkHAR(t, text)
	if len(har.Log.Entries) != len(calls) {
		t.Errorf("%d entries, want %d", len(har.Log.Entries), len(calls))
	}
	if testing.Verbose() {
		t.Logf("%s", text)
	}
	for _, h := range har.Log.Entries[0].Request.Headers { // the tool's own, not what the sidecar put in its place
		if h.Name == "Authorization" && !strings.HasPrefix(h.Value, "Basic ") {
			t.Errorf("the request is not the tool's: %v", h)
		}
	}
	replayed(t, name, har)
}

// h1Only returns the client's transport without HTTP/2.
func h1Only(t *testing.T, c *http.Client) *http.Transport {
	t.Helper()
	tr := c.Transport.(*http.Transport).Clone()
	tr.ForceAttemptHTTP2, tr.Protocols, tr.TLSNextProto = false, new(http.Protocols), nil
	tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	tr.Protocols.SetHTTP1(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// checkHAR looks for what HAR 1.2 demands (http://www.softwareishard.com/blog/har-12-spec/).
func checkHAR(t *testing.T, text []byte) {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	at := func(v any, path ...string) any {
		for _, p := range path {
			m, ok := v.(map[string]any)
			if !ok || m[p] == nil {
				t.Fatalf("%v lacks %s", path, p)
			}
			v = m[p]
		}
		return v
	}
	if at(file, "log", "version") != "1.2" || at(file, "log", "creator", "name") == "" || at(file, "log", "creator", "version") == "" {
		t.Errorf("version or creator: %v", file["log"])
	}
	for _, e := range at(file, "log", "entries").([]any) {
		if _, err := time.Parse(time.RFC3339Nano, at(e, "startedDateTime").(string)); err != nil {
			t.Error(err)
		}
		timings := at(e, "timings", "send").(float64) + at(e, "timings", "wait").(float64) + at(e, "timings", "receive").(float64)
		if total := at(e, "time").(float64); total < timings-0.01 || total > timings+0.01 {
			t.Errorf("time is %v, its parts are %v", total, timings)
		}
		_ = at(e, "cache").(map[string]any)
		for side, fields := range map[string][]string{"request": {"method", "url", "httpVersion"}, "response": {"statusText", "httpVersion", "redirectURL"}} {
			for _, f := range fields {
				_ = at(e, side, f).(string)
			}
			for _, f := range []string{"headersSize", "bodySize"} {
				_ = at(e, side, f).(float64)
			}
			for _, f := range []string{"cookies", "headers"} {
				for _, p := range at(e, side, f).([]any) {
					_, _ = at(p, "name").(string), at(p, "value").(string)
				}
			}
		}
		_ = at(e, "request", "queryString").([]any)
		_, _ = at(e, "response", "content", "size").(float64), at(e, "response", "content", "mimeType").(string)
		_ = at(e, "response", "status").(float64)
		if u, err := url.Parse(at(e, "request", "url").(string)); err != nil || u.Host == "" {
			t.Errorf("url: %v %v", u, err)
		}
	}
}

// serveHAR runs sidecar replay on a file and returns the address and the file of its CA.
func serveHAR(t *testing.T, name string) (address, caFile string) {
	t.Helper()
	bin, err := sidecarBinary()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "replay", "--check", name).CombinedOutput(); err != nil {
		t.Fatalf("replay --check: %v\n%s", err, out)
	}
	caFile = filepath.Join(t.TempDir(), "replay-ca.pem")
	var out, errs lockedBuffer
	cmd := exec.Command(bin, "replay", name, "--ca-out", caFile)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("replay: %v\n%s", err, errs.String())
		}
	})
	eventually(t, "the replay listens", func() bool { return strings.HasSuffix(out.String(), "\n") })
	return strings.TrimSpace(out.String()), caFile
}

// replayed asks for every entry of the file as a client of the API would, through the replay as its proxy.
func replayed(t *testing.T, name string, har captured) {
	t.Helper()
	address, caFile := serveHAR(t, name)
	client := toolClient(t, address, caFile)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for i, e := range har.Log.Entries {
		one := sending{method: e.Request.Method, path: e.Request.URL, header: http.Header{}}
		if p := e.Request.PostData; p != nil {
			one.contentType, one.body = p.MIMEType, p.Text
		}
		want := fmt.Sprint(e.Response.Status) + " " + e.Response.Content.Text
		if got := send(t, client, e.Request.URL, one); got != want {
			t.Errorf("entry %d: the replay answers %s\nwant %s", i, got, want)
		}
	}
	missing := send(t, client, "https://orders.test/nowhere", sending{method: http.MethodGet})
	if !strings.HasPrefix(missing, "404") || !strings.Contains(missing, "nearest") {
		t.Errorf("what is not in the file: %s", missing)
	}
}
