package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/proxy"
)

// decision is a row of testdata/decisions.txt.
type decision struct {
	line                        int
	tool, token, method, target string
	code, handling              string
}

// verbatim is the mark of a target that a stock client would change or refuse: it goes on the request line as it stands.
const verbatim = "raw:"

// explained is what explain is asked about the row.
func (d decision) explained() string { return strings.TrimPrefix(d.target, verbatim) }

// tunnel reports whether the row is about a CONNECT and nothing else.
func (d decision) tunnel() bool { return !strings.Contains(d.target, "://") }

// decisions reads the rows of one section of the table.
func decisions(t *testing.T, l *lab, section string) []decision {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "decisions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []decision
	current, n := "", 0
	for text := range strings.Lines(string(b)) {
		n++
		text = strings.TrimSpace(text)
		if name, ok := strings.CutPrefix(text, "== "); ok {
			current = name
			continue
		}
		if text == "" || text[0] == '#' || current != section {
			continue
		}
		f := strings.Fields(l.values.Replace(text))
		if len(f) == 5 && f[4] != "allow" {
			f = append(f, "")
		}
		if len(f) != 6 {
			t.Fatalf("decisions.txt:%d: found %d columns, expected 6", n, len(f))
		}
		rows = append(rows, decision{n, f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return rows
}

// tokens are the kinds of token that the table names.
func (l *lab) tokens() map[string]string {
	l.t.Helper()
	odd := func(issuer *devissuer.Issuer, extra map[string]any, alg string) string {
		token, err := issuer.MintWith(nil, claims(extra), alg)
		if err != nil {
			l.t.Fatal(err)
		}
		return token
	}
	hour := func(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }
	good := l.mint(nil)
	return map[string]string{
		"none":     "",
		"good":     good,
		"expired":  l.mint(map[string]any{"iat": hour(-2), "exp": hour(-1)}),
		"future":   l.mint(map[string]any{"nbf": hour(1), "exp": hour(2)}),
		"audience": l.mint(map[string]any{"aud": "somebody-else"}),
		"stranger": l.mintBy(l.stranger, nil),
		"forged":   l.mintBy(l.stranger, map[string]any{"iss": l.issuer.URL()}),
		"unsigned": odd(l.issuer, nil, "none"),
		"hs256":    odd(l.issuer, nil, "HS256"),
		"altered":  good[:len(good)-8] + "AAAAAAAA",
		"garbage":  "not.a.token",
		"other":    l.mint(map[string]any{"scope": "write"}),
		"empty":    l.mint(map[string]any{"scope": ""}),
		"unscoped": l.mint(map[string]any{"scope": nil}),
		"support":  l.mint(map[string]any{"roles": []string{"viewer", "support_lead"}}),
		"viewer":   l.mint(map[string]any{"roles": []string{"viewer"}}),
		"runless":  l.mint(map[string]any{"run_id": nil}),
		"taskless": l.mint(map[string]any{"task_id": nil}),
		"globex":   l.mint(map[string]any{"tenant": "globex"}),
		"run13":    l.mint(map[string]any{"run_id": "run-13"}),
		"mallory":  l.mint(map[string]any{"sub": "user:mallory"}),
	}
}

// TestDecisions takes every decision of the table twice: the proxy carries a call over real sockets, and explain is asked.
// Both must say what the table says.
func TestDecisions(t *testing.T) {
	for _, section := range []struct {
		name    string
		change  func(*lab)
		atLeast int // a table that shrinks unnoticed checks nothing
	}{
		{"enforce", func(*lab) {}, 150},
		{"report", func(l *lab) { l.edit("sidecar.yaml", "mode: enforce", "mode: report") }, 10},
		{"stale", func(l *lab) {
			l.edit("sidecar.yaml", "file: revocations.yaml, maxStale: 60s", "file: not-there.yaml, maxStale: 1s")
		}, 5},
		{"anonymous", func(l *lab) { l.edit("sidecar.yaml", "required: true", "required: false") }, 5},
	} {
		t.Run(section.name, func(t *testing.T) {
			l := newLab(t)
			section.change(l)
			r := l.start()
			tokens := l.tokens()
			rows := decisions(t, l, section.name)
			if len(rows) < section.atLeast {
				t.Errorf("%d rows, expected %d at least", len(rows), section.atLeast)
			}
			for _, d := range rows {
				t.Run(fmt.Sprintf("line %d", d.line), func(t *testing.T) {
					token, known := tokens[d.token]
					if !known {
						t.Fatalf("found token %q, expected a known kind", d.token)
					}
					want := strings.TrimSpace(d.code + " " + d.handling)
					if got := r.carry(t, d, token); got != want {
						t.Errorf("the proxy: %s %s by %s with %s: %q, expected %q", d.method, d.target, d.tool, d.token, got, want)
					}
					if got := l.explain(t, d, token); got != want {
						t.Errorf("explain: %s %s by %s with %s: %q, expected %q", d.method, d.target, d.tool, d.token, got, want)
					}
				})
			}
		})
	}
}

// explain returns what explain says of the row, as "allow HANDLING" or the code.
func (l *lab) explain(t *testing.T, d decision, token string) string {
	t.Helper()
	tokenFile := ""
	if token != "" {
		l.write("asked.jwt", token)
		tokenFile = l.path("asked.jwt")
	}
	e, err := explain(context.Background(), l.path("sidecar.yaml"), tokenFile, proxy.Question{
		Tool: d.tool, URL: d.explained(), Method: d.method, Absolute: d.explained() != d.target, Network: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.Decision == "allow" {
		return "allow " + e.Handling
	}
	return string(e.Code)
}

// carry makes the call of the row and returns its outcome as the client and the record saw it; they must agree.
func (r *running) carry(t *testing.T, d decision, token string) string {
	t.Helper()
	var code string
	if d.tunnel() || d.explained() != d.target {
		code = r.carryVerbatim(t, d, token)
	} else {
		code = r.carryStock(t, d, token)
	}
	rec := r.records.record(t)
	if want := rec.str("code"); code != "allow" && code != want {
		return fmt.Sprintf("%s, but the record has %q", code, want)
	}
	if code == string(proxy.BadRequest) {
		return string(proxy.BadTarget) // a request line that cannot be read: the rows know of the target alone
	}
	if code != "allow" {
		return code
	}
	return "allow " + handlingOf(rec)
}

func handlingOf(rec record) string {
	switch {
	case rec["intercepted"] == true:
		return "intercept"
	case rec.str("kind") == "tunnel":
		return "relay"
	}
	return "forward"
}

// carryStock lets net/http's client make the call.
func (r *running) carryStock(t *testing.T, d decision, token string) (code string) {
	t.Helper()
	user := d.tool
	if token == "" && (user == "solo" || user == "filed") {
		user = "" // a listener of one tool needs no name, and a client without a token sends no header
	}
	client := r.client(listenerOf(d.tool), user, token, func(res *http.Response) { code = res.Header.Get("Toolgate-Denial") })
	defer client.CloseIdleConnections() // ends a tunnel, which is recorded when it ends
	req, err := http.NewRequest(d.method, d.target, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if code != "" {
		return code
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return codeOf(res)
}

func codeOf(res *http.Response) string {
	if code := res.Header.Get("Toolgate-Denial"); code != "" {
		return code
	}
	if res.StatusCode == http.StatusOK {
		return "allow"
	}
	return res.Status
}

// carryVerbatim writes the request line itself.
func (r *running) carryVerbatim(t *testing.T, d decision, token string) (code string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.addrs[listenerOf(d.tool)])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	method := d.method
	if d.tunnel() {
		method = http.MethodConnect
	}
	credentials := base64.StdEncoding.EncodeToString([]byte(d.tool + ":" + token))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic %s\r\n\r\n", method, d.explained(), credentials); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return codeOf(res)
}

// listenerOf names the listener of a tool, or the one that a stray tool would try.
func listenerOf(tool string) string {
	switch tool {
	case "solo", "filed", "shared":
		return tool
	case "stopped2":
		return "shared"
	}
	return "multi"
}
