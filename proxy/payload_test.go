package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/toolgate/toolgate/prefix"
)

// planted are secrets by vendor's form, by name, by checksum and by the manifest; none is real.
var planted = map[string]string{
	"note": "ghp_" + "x7Kq2Lw9Zr4Tn8Vb1Mc6Yd3Hf5Jg0Ps2Ra4E", "password": "hunter2hunter2", "card": "4111111111111111", "customer_email": "someone@example.com",
}

// carriers are bodies with all of planted.
func carriers() map[string]string {
	object, err := json.Marshal(planted)
	if err != nil {
		panic(err)
	}
	var form, parts []string
	for name, v := range planted {
		form = append(form, name+"="+v)
		parts = append(parts, "--B\r\nContent-Disposition: form-data; name="+name+"\r\n\r\n"+v+"\r\n")
	}
	return map[string]string{
		"application/json":                  string(object),
		"application/vnd.api+json":          `{"deep":[{"text":` + fmt.Sprintf("%q", object) + `}]}`,
		"application/x-ndjson":              string(object) + "\n" + string(object) + "\n",
		"application/x-www-form-urlencoded": strings.Join(form, "&"),
		"text/event-stream":                 "data: " + string(object) + "\n\ndata: " + string(object) + "\n\n",
		"multipart/form-data; boundary=B":   strings.Join(parts, "") + "--B--\r\n",
		"text/plain":                        "a token " + planted["note"] + "\npassword=" + planted["password"] + "\ncard " + planted["card"],
		"application/octet-stream":          string(object),
		"nonsense;;;":                       string(object),
		"":                                  string(object),
	}
}

// payloads returns the payload lines of the log: those of the call, or all.
func (l *lab) payloads(id string) map[string]record {
	l.t.Helper()
	out := map[string]record{}
	for line := range strings.Lines(l.log.String()) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			l.t.Fatalf("not a line of JSON: %v: %q", err, line)
		}
		if r["msg"] == "payload" && r["decision_id"] == id {
			if out[r.str("direction")] != nil {
				l.t.Fatalf("two lines of one direction: %s", line)
			}
			out[r.str("direction")] = r
		}
	}
	return out
}

func (l *lab) noSecrets(what string) {
	l.t.Helper()
	all := l.printed()
	for name, v := range planted {
		for _, form := range []string{v, v[:len(v)-2], v[2:]} {
			if strings.Contains(all, form) {
				l.t.Errorf("%s: %s is printed", what, name)
			}
		}
	}
}

func gzipText(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// Request and response in every carrier, coded or not, over HTTP/1.1 and HTTP/2, with a credential or without.
func TestPayloadsOfEveryCarrierAreMasked(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"Content-Type", "Content-Encoding"} {
			if v := r.Header[name]; v != nil {
				w.Header()[name] = v
			}
		}
		_, _ = w.Write(body)
	})
	for _, h2 := range []bool{false, true} {
		client := l.client(l.token, h2)
		for _, host := range []string{"ruled.ok.test", "bound.ok.test"} {
			for kind, body := range carriers() {
				for _, coding := range []string{"", "gzip"} {
					what := fmt.Sprintf("h2 %v, %s, %q, %q", h2, host, kind, coding)
					sent := body
					if coding != "" {
						sent = gzipText(body)
					}
					req, _ := http.NewRequest(http.MethodPost, l.url("https", host, "/ok/echo"), strings.NewReader(sent))
					req.Header["Content-Type"] = []string{kind}
					if coding != "" {
						req.Header.Set("Content-Encoding", coding)
					}
					res, err := client.Do(req)
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					got, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err != nil || string(got) != sent && string(got) != body {
						t.Fatalf("%s: the tool got %q, %v", what, got, err)
					}
					l.checkPayloads(what, kind, int64(len(sent)), int64(len(got)))
				}
			}
		}
	}
	l.noSecrets("echo")
	for _, want := range []string{"[REDACTED:token]", "[REDACTED:credential]", "[REDACTED:card]", "[REDACTED:field]"} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

func (l *lab) checkPayloads(what, kind string, out, in int64) {
	l.t.Helper()
	rec := l.next()
	lines := l.payloads(rec.str("id"))
	want := "redacted"
	if kind == "application/octet-stream" || kind == "nonsense;;;" {
		want = "failed_closed"
	}
	if rec["redaction_status"] != want || rec["redaction_truncated"] != nil || !strings.HasPrefix(rec.str("redaction_ruleset"), "gitleaks v") {
		l.t.Errorf("%s: the record says %v %v %v", what, rec["redaction_status"], rec["redaction_truncated"], rec["redaction_ruleset"])
	}
	for direction, n := range map[string]int64{"request": out, "response": in} {
		line := lines[direction]
		if line == nil || line["bytes"] != float64(n) || line["truncated"] != false || line["redaction"] != want || line["tool"] != "t1" {
			l.t.Errorf("%s: %s: %v", what, direction, line)
		}
	}
	if counts, _ := rec["redaction_counts"].(map[string]any); want == "redacted" && counts["token"] == nil {
		l.t.Errorf("%s: the record counts %v", what, counts)
	}
}

// A long body is looked at in its beginning, and its way is not bounded by that.
func TestPayloadsOfLongBodies(t *testing.T) {
	l := newLab(t)
	long := `{"first":"` + planted["note"] + `","pad":"` + strings.Repeat("long ", 2<<20) + `","` + "password" + `":"` + planted["password"] + `"}`
	l.mux.HandleFunc("/ok/long", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Got", fmt.Sprint(n))
		_, _ = io.WriteString(w, long)
	})
	for _, h2 := range []bool{false, true} {
		res, err := l.client(l.token, h2).Post(l.url("https", "ruled.ok.test", "/ok/long"), "application/json", strings.NewReader(long))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(got) != long || res.Header.Get("X-Got") != fmt.Sprint(len(long)) {
			t.Fatalf("%d bytes came, %v", len(got), err)
		}
		rec := l.next()
		if rec["redaction_status"] != "partial" || rec["redaction_truncated"] != true {
			t.Errorf("the record says %v %v", rec["redaction_status"], rec["redaction_truncated"])
		}
		for direction, line := range l.payloads(rec.str("id")) {
			if line["truncated"] != true || line["bytes"] != float64(len(long)) || len(line.str("body")) > maxLogged || !strings.Contains(line.str("body"), "[REDACTED:token]") {
				t.Errorf("%s: %v", direction, line)
			}
		}
	}
	if n := l.proxy.logged.copies.Held(); n != 0 {
		t.Errorf("%d bytes of bodies are still held", n)
	}
	l.noSecrets("long")
}

// A body that breaks off leaves what came, without its last value.
func TestPayloadsOfBodiesThatBreakOff(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/cut", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\ndata: "+planted["note"][:30])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, h2 := range []bool{false, true} {
		body := io.MultiReader(strings.NewReader("first line\nthe token is "+planted["note"][:30]), iotest.ErrReader(fmt.Errorf("the tool gives up")))
		req, _ := http.NewRequest(http.MethodPost, l.url("https", "ruled.ok.test", "/ok/cut"), body)
		req.Header.Set("Content-Type", "text/plain")
		if res, err := l.client(l.token, h2).Do(req); err == nil {
			_ = res.Body.Close()
		}
		rec := l.next()
		if line := l.payloads(rec.str("id"))["request"]; line == nil || line["truncated"] != true || rec["redaction_truncated"] != true {
			t.Errorf("h2 %v: request %v, record %v", h2, line, rec)
		}
		status, text, err := get(l.client(l.token, h2), l.url("https", "ruled.ok.test", "/ok/cut"))
		if err == nil {
			t.Errorf("h2 %v: a response that broke off came whole: %d %q", h2, status, text)
		}
		rec = l.next()
		if line := l.payloads(rec.str("id"))["response"]; line == nil || line["truncated"] != true || line["body"] != "data: first\n\n" {
			t.Errorf("h2 %v: response %v, record %v", h2, line, rec)
		}
	}
	if all := l.printed(); strings.Contains(all, planted["note"][:12]) {
		t.Error("half a token is printed")
	}
}

// What is asked for in part may begin within a secret.
func TestPayloadsOfPartsAreNotShown(t *testing.T) {
	l := newLab(t)
	text := "a token: " + planted["note"] + " and more"
	l.mux.HandleFunc("/ok/part", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	})
	req, _ := http.NewRequest(http.MethodPost, l.url("https", "ruled.ok.test", "/ok/part"), strings.NewReader(text[15:]))
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Content-Range", "bytes 15-40/90")
	req.Header.Set("Range", "bytes=15-")
	res, err := l.client(l.token, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusPartialContent || string(got) != text[15:] {
		t.Fatalf("%d %q", res.StatusCode, got)
	}
	rec := l.next()
	if lines := l.payloads(rec.str("id")); rec["redaction_status"] != "failed_closed" || len(lines) != 2 || strings.Contains(fmt.Sprint(lines), planted["note"][8:]) {
		t.Errorf("%v", lines)
	}
}

// An answer that the sidecar refuses to pass on is told of, without its body; so is a request without one.
func TestPayloadsOfARefusedAnswer(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/x", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "compress")
		_, _ = io.WriteString(w, carriers()["application/json"])
	})
	res, err := l.client(l.token, false).Post(l.url("https", "bound.ok.test", "/ok/x"), "application/json", strings.NewReader(carriers()["application/json"]))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	rec := l.next()
	lines := l.payloads(rec.str("id"))
	if res.StatusCode != http.StatusBadGateway || lines["request"] == nil || lines["response"]["status"] != 200.0 || lines["response"]["body"] != "" || lines["response"]["truncated"] != true {
		t.Errorf("%d: %v", res.StatusCode, lines)
	}
	if rec["redaction_status"] != "partial" {
		t.Errorf("the record says %v", rec["redaction_status"])
	}
	l.noSecrets("refused")
}

// A WebSocket has no body, and leaves no line.
func TestPayloadsOfAWebSocket(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/ws", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+planted["password"])
		_ = conn.Close()
	})
	req, _ := http.NewRequest(http.MethodGet, l.url("https", "ruled.ok.test", "/ok/ws"), nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	res, err := l.client(l.token, false).Do(req)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	rec := l.next()
	if lines := l.payloads(rec.str("id")); len(lines) != 0 || rec["redaction_status"] != nil {
		t.Errorf("%v, %v", lines, rec)
	}
	l.noSecrets("a WebSocket")
}

// Where the memory for it is taken, a body is not logged, counted, and carried all the same.
func TestPayloadsWithoutMemory(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/x", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.Copy(w, r.Body)
	})
	var others prefix.Buffer
	others.Open(maxCopied, &l.proxy.logged.copies)
	others.Add(make([]byte, maxCopied))
	res, err := l.client(l.token, false).Post(l.url("https", "ruled.ok.test", "/ok/x"), "text/plain", strings.NewReader("some text"))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	rec := l.next()
	lines := l.payloads(rec.str("id"))
	if string(got) != "some text" || rec["redaction_status"] != "failed_closed" || lines["request"]["body"] != "[9 bytes, not kept]" || lines["response"]["body"] != "[9 bytes, not kept]" {
		t.Errorf("%q, %v, %v", got, rec, lines)
	}
	_, text, err := get(http.DefaultClient, l.admin.URL+"/metrics")
	if err != nil || !strings.Contains(text, `toolgate_redaction_failures_total{reason="memory"} 2`) {
		t.Errorf("not counted: %v", err)
	}
	if held := l.proxy.logged.copies.Held(); held != maxCopied {
		t.Errorf("%d bytes too many are given back", maxCopied-held)
	}
}

// A payload cannot write a line of its own into the log.
func TestPayloadsForgeNoLine(t *testing.T) {
	l := newLab(t)
	forged := "x\r\n{\"level\":\"INFO\",\"msg\":\"payload\",\"decision_id\":\"forged\",\"direction\":\"request\"}\n\u2028\u202e\x1b[2J\x00\xff"
	l.mux.HandleFunc("/ok/x", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = r.Header["Content-Type"]
		_, _ = io.WriteString(w, forged)
	})
	for _, kind := range []string{"text/plain", "text/event-stream", "application/json", "text/forged\u202e; x=\"{}\"", "application/x-www-form-urlencoded"} {
		res, err := l.client(l.token, false).Post(l.url("https", "ruled.ok.test", "/ok/x?a=%0a%7b%7d"), kind, strings.NewReader(forged))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		l.next()
	}
	if len(l.payloads("forged")) != 0 {
		t.Error("a payload wrote a line")
	}
	if strings.ContainsAny(l.log.String(), "\u2028\u202e\x1b\x00\r") {
		t.Error("control characters are in the log")
	}
}

// Many at once, for the race detector.
func TestPayloadsAtOnce(t *testing.T) {
	l := newLab(t)
	l.mux.HandleFunc("/ok/x", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	})
	body := carriers()["application/json"]
	done := make(chan error, 8)
	for i := range cap(done) {
		client := l.client(l.token, i%2 == 0)
		go func() {
			for range 5 {
				res, err := client.Post(l.url("https", "bound.ok.test", "/ok/x"), "application/json", strings.NewReader(body))
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for range 5 * cap(done) {
		if lines := l.payloads(l.next().str("id")); len(lines) != 2 {
			t.Errorf("%v", lines)
		}
	}
	l.noSecrets("at once")
}

// An event reaches the tool before the next is sent, whatever looks at the stream; and what the tool answers to it goes out.
func TestEventsDoNotWait(t *testing.T) {
	l := newLab(t)
	acknowledged := make(chan string)
	l.mux.HandleFunc("/ok/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out, flush := io.Writer(w), http.NewResponseController(w).Flush
		if r.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer func() { _ = z.Close() }()
			out, flush = z, func() error { _ = z.Flush(); return http.NewResponseController(w).Flush() }
		}
		for i := range 3 {
			_, _ = fmt.Fprintf(out, "data: {\"delta\":\"part %d\"}\n\n", i)
			_ = flush()
			select {
			case <-acknowledged:
			case <-r.Context().Done():
				return
			}
		}
	})
	for _, h2 := range []bool{false, true} {
		for _, host := range []string{"ruled.ok.test", "bound.ok.test"} {
			for _, query := range []string{"", "?gzip"} {
				l.followEvents(fmt.Sprintf("h2 %v, %s%s", h2, host, query), l.client(l.token, h2), l.url("https", host, "/ok/events"+query), acknowledged)
			}
		}
	}
}

// followEvents acknowledges each event as it comes.
func (l *lab) followEvents(what string, client *http.Client, target string, acknowledge chan<- string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 4*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	res, err := client.Do(req)
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = res.Body.Close() }()
	in := io.Reader(res.Body)
	if res.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(res.Body); err != nil {
			l.t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range 3 {
		want := fmt.Sprintf("data: {\"delta\":\"part %d\"}\n\n", i)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
			l.t.Fatalf("%s: event %d: %q, %v", what, i, got, err)
		}
		acknowledge <- ""
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		l.t.Errorf("%s: the end: %q, %v", what, rest, err)
	}
	if lines := l.payloads(l.next().str("id")); lines["response"]["truncated"] != false || lines["response"].str("body") == "" {
		l.t.Errorf("%s: %v", what, lines)
	}
}
