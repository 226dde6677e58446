//go:build linux

package cases

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// carriers are header lines of which each has values that are nobody's business.
const carriers = "Cookie: session={C}; theme={C}\r\nSet-Cookie: id={C}; Path=/\r\nX-Api-Key: {C}\r\nX-Auth-Token: {C}\r\nX-Vault-Token: {C}\r\n" +
	"Authorization: Bearer {C}\r\nX-Amz-Security-Token: {C}\r\nApi-Key: {C}\r\nX-Csrf-Token: {C}\r\nReferer: https://a.test/?code={C}#access_token={C}\r\n" +
	"X-Goog-Api-Key: {C}\r\nPrivate-Token: {C}\r\nX-Signature: {C}\r\nX-Unheard-Of: {C}\r\nIdempotency-Key: {C}\r\n"

const signedQuery = "/p?sig={C}&X-Amz-Signature={C}&access_token={C}&code={C}&api_key={C}&x%2Damz%2Dsignature={C}&plain={C};token={C}"

// everyCarrier sends what many a proxy has logged, to calls that end in every way.
func everyCarrier(t *testing.T, w *world) {
	for _, log := range []string{"debug, payloads: true", "debug, payloads: true, format: text", "debug", "info"} {
		t.Run(log, func(t *testing.T) {
			w.begin()
			spans, traced := w.collected(t)
			k := w.lab.world(t, traced, func(s *settings) { s.log = log })
			k.up.handle("api.ok.test", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Set-Cookie", "answered=quiet-answer-cookie-stone; Path=/")
				rw.Header().Set("X-Api-Key", "quiet-answer-key-stone")
			})
			c := &canaries{}
			for _, m := range k.modes(t) {
				for path, status := range map[string]int{signedQuery: http.StatusOK, "/%zz?sig={C}": http.StatusBadRequest} {
					_, got := m.ask(t, "GET", c.fill(m.name, "GET {U}"+path+" HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+carriers+"\r\n"))
					got.is(t, m.name+path, status)
				}
				_, got := m.ask(t, "GET", c.fill(m.name, "GET {U}"+signedQuery+" HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+carriers+"X-Bad : {C}\r\n\r\n"))
				got.is(t, m.name+", malformed", http.StatusBadRequest)
				_, got = m.ask(t, "GET", c.fill(m.name, "GET https://evil.test"+signedQuery+" HTTP/1.1\r\nHost: evil.test\r\n{A}"+carriers+"\r\n"))
				got.is(t, m.name+", denied", http.StatusForbidden, http.StatusBadRequest, http.StatusMisdirectedRequest)
			}
			k.once(t, "GET", c.fill("stranger", "GET http://api.ok.test"+signedQuery+" HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: Basic {C}\r\n"+carriers+"\r\n")).
				is(t, "nobody's call", http.StatusProxyAuthRequired)
			k.spokenInH2(t, c)
			k.dns.set("api.ok.test", at(addrU3))
			k.up.speak(addrU3+":80", func(conn net.Conn) { _, _ = io.WriteString(conn, c.fill("upstream", "HTTP/1.1 {C}\r\nX: {C}\r\n\r\n")) })
			late := w.lab.world(t, traced, func(s *settings) { s.log = log })
			late.once(t, "GET", c.fill("broken", "GET http://api.ok.test"+signedQuery+" HTTP/1.1\r\nHost: api.ok.test\r\n"+late.auth()+carriers+"\r\n")).
				is(t, "a broken answer", http.StatusBadGateway)
			all := late.told(t) + k.told(t, spans)
			if strings.Contains(log, "payloads") {
				says(t, "the log", all, "X-Api-Key", "X-Vault-Token", "session=[REDACTED", "X-Amz-Signature=[REDACTED", "Bearer [REDACTED")
			}
			hidden(t, "what was said", all, append(c.all, "quiet-answer-cookie-stone", "quiet-answer-key-stone", secretA, k.tokenA)...)
		})
	}
}

// spokenInH2 sends the carriers in HTTP/2, where names are in lower case.
func (w *world) spokenInH2(t *testing.T, c *canaries) {
	t.Helper()
	h := w.h2(t, "api.ok.test:443")
	for i, path := range []string{signedQuery, "/"} {
		fields := []string{":method", "GET", ":scheme", "https", ":authority", "api.ok.test", ":path", c.fill("h2", path)}
		for line := range strings.SplitSeq(strings.TrimSuffix(carriers, "\r\n"), "\r\n") {
			name, value, _ := strings.Cut(line, ": ")
			fields = append(fields, strings.ToLower(name), c.fill("h2", value))
		}
		h.headers(t, uint32(2*i+1), true, fields...)
		if s := h.status(t, uint32(2*i+1)); s != "200" {
			t.Errorf("over h2: status %s", s)
		}
	}
}

// spellings of names whose values are secret, as far as HTTP/1.1 has them.
var spellings = []string{"AUTHORIZATION", "authorization", "aUtHoRiZaTiOn", "X-VAULT-TOKEN", "x-vault-token", "X_VAULT_TOKEN", "X-API-KEY", "x_api_key", "COOKIE", "cookie",
	"Proxy-Authorisation", "x-AUTH-token", "APIKEY", "Secret", "X-Amz-Security-token"}

const passwords = `{"password":"{C}","PassWord":"{C}","pass\u0077ord":"{C}","user_password":"{C}","a":[{"b":{"PASSWORD":"{C}"}}],"passwd":"{C}","client-secret":"{C}","clientSecret":"{C}",` +
	`"password":["{C}",{"x":"{C}"}],"inner":"{\"password\":\"{C}\"}","apiKey":"{C}","access_token":"{C}","privateKey":"{C}"`

// everySpelling sends each spelling on its own, since one that is masked must not stand for the others.
func everySpelling(t *testing.T, w *world) {
	for _, payloads := range []bool{true, false} {
		t.Run(fmt.Sprint("payloads ", payloads), func(t *testing.T) {
			w.begin()
			k := w.lab.world(t, func(s *settings) { s.log = fmt.Sprint("debug, payloads: ", payloads) })
			c := &canaries{}
			for _, m := range k.modes(t) {
				for _, name := range spellings {
					_, got := m.ask(t, "GET", c.fill(m.name, "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+name+": {C}\r\n\r\n"))
					got.is(t, name, http.StatusOK)
				}
				for kind, body := range map[string]string{
					"application/json": c.fill("body", passwords+"}"), "application/problem+json; charset=utf-8": c.fill("body", passwords+"}"),
					"Application/JSON": c.fill("torn", passwords), "application/x-www-form-urlencoded": c.fill("form", "password={C}&PASSWORD={C}&pass%77ord={C}&user%5Bpassword%5D={C}"),
					"text/plain": c.fill("text", "password={C}"), "": c.fill("none", passwords+"}"),
				} {
					_, got := m.ask(t, "POST", m.expand(fmt.Sprintf("POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)))
					got.is(t, kind, http.StatusOK)
				}
			}
			h := k.h2(t, "api.ok.test:443")
			for i, name := range spellings {
				h.headers(t, uint32(2*i+1), true, ":method", "GET", ":scheme", "https", ":authority", "api.ok.test", ":path", "/", strings.ToLower(name), c.next("h2"))
				if s := h.status(t, uint32(2*i+1)); s != "200" {
					t.Errorf("%s over h2: status %s", name, s)
				}
			}
			all := k.told(t)
			hidden(t, "what was said", all, c.all...)
			if n := strings.Count(all, `"msg":"payload"`); payloads != (n > 0) || payloads && n != 2*(3*len(spellings)+12) { // each request and each answer
				t.Errorf("%d payloads are logged", n)
			}
			if shown := strings.Contains(all, "X-Vault-Token"); shown != payloads {
				t.Errorf("names of headers are shown: %v", shown)
			}
		})
	}
}

// evilText breaks a line in the ways that break one somewhere, goes on like a log, and ends with terminal sequences.
const evilText = `{"time":"2026-01-01T00:00:00Z","level":"info","kind":"` + forged + `","msg":"` + forged + `"}`

var breaks = []string{"\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u0085", "\u2028", "\u2029", "\x00", "\x1b[2J\x1b]0;x\x07", "\u202e", "\xff\xfe"}

// forgedLines tries to write lines of its own.
func forgedLines(t *testing.T, w *world) {
	k := w.lab.world(t, talkative)
	evil := strings.NewReplacer(`"`, "%22", "{", "%7b", "}", "%7d").Replace(evilText)
	for _, m := range k.modes(t) {
		for _, path := range []string{"/a%0d%0a" + evilText, "/a%0d%0a" + evil, "/a%1b%5b2J", "/?a%0a" + evil + "=1", "/?a=%0a" + evil, "/#%0a" + evil, "/%E2%80%A8" + evil} {
			_, _ = m.ask(t, "GET", "GET {U}"+path+" HTTP/1.1\r\nHost: api.ok.test\r\n{A}\r\n")
		}
		for _, br := range breaks {
			for _, name := range []string{"User-Agent", "Content-Type", "Accept", "Traceparent", "Idempotency-Key", "X-Request-Id", "Referer", "Origin", "Cookie", "Content-Encoding"} {
				_, _ = m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+name+": a"+br+evilText+br+"\r\n\r\n")
			}
			for _, line := range []string{"GET {U}/" + br + evilText + " HTTP/1.1\r\nHost: api.ok.test\r\n{A}\r\n", "G" + br + evilText + " {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}\r\n",
				"GET {U}/ HTTP/1.1" + br + evilText + "\r\nHost: api.ok.test\r\n{A}\r\n", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test" + br + evilText + "\r\n{A}\r\n",
				"GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}X" + br + evilText + ": 1\r\n\r\n"} {
				_, _ = m.ask(t, "GET", line)
			}
			body := `{"k` + br + evilText + `":"` + br + `"}`
			_, _ = m.ask(t, "POST", fmt.Sprintf("POST {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	}
	for _, br := range breaks {
		k.connect(t, "api.ok.test"+br+evilText+":443")
		k.connect(t, "evil.test:443"+br+evilText)
		k.once(t, "GET", "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: "+basic("x"+br+evilText)+"\r\n\r\n")
		k.once(t, "GET", "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: "+
			basic(k.token(t, map[string]any{"kid": br + evilText}, map[string]any{"iss": br + evilText}, "ES256"))+"\r\n\r\n")
		token := k.mint(t, map[string]any{"sub": "user:alice" + br + evilText, "tenant": "A", "agent_id": "a" + br + evilText, "task_id": "k" + br + evilText, "run_id": br + evilText})
		k.once(t, "GET", "GET http://api.ok.test/ HTTP/1.1\r\nHost: api.ok.test\r\nProxy-Authorization: "+basic(token)+"\r\n\r\n")
	}
	k.told(t)
	ownLines(t, "the log", k.stderr.String(), "time", "level", "msg")
	ownLines(t, "the records", k.stdout.String(), "kind")
	says(t, "the log", k.stderr.String(), `"msg":"payload"`)
	w.forgedUpstream(t)
}

// forgedUpstream has the upstream say it, also when nobody asks.
func (w *world) forgedUpstream(t *testing.T) {
	t.Helper()
	k := w.lab.world(t, talkative)
	var answers []string
	for _, br := range breaks {
		answers = append(answers, "HTTP/1.1 200 "+br+evilText+"\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 2"+br+evilText+"\r\n\r\n",
			"HTTP/1.1 200 OK\r\nX"+br+evilText+"\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1"+br+evilText+"\r\n\r\n", br+evilText+"\n"+br+evilText+"\n",
			"HTTP/1.1 103 "+br+evilText+"\r\nLink"+br+": "+evilText+"\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+br+evilText+"\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+br+evilText+"\n") // more than was asked for
	}
	w.dns.set("api.ok.test", at(addrU3))
	var next atomic.Value // what is answered: not each request gets that far
	serve := func(conn net.Conn) {
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, next.Load().(string))
	}
	w.up.speak(addrU3+":80", serve)
	w.up.speak(addrU3+":443", func(conn net.Conn) { serve(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{w.pki.leaf}})) })
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, m := range k.modes(t) {
		for _, more := range []string{"", upgrade} { // which go through clients of their own
			for _, text := range answers {
				next.Store(text)
				a, _ := m.ask(t, "GET", "GET {U}/ HTTP/1.1\r\nHost: api.ok.test\r\n{A}"+more+"\r\n")
				_ = a.Close()
			}
		}
	}
	k.told(t)
	ownLines(t, "the log", k.stderr.String(), "time", "level", "msg")
	ownLines(t, "the records", k.stdout.String(), "kind")
}
