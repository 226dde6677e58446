package proxy

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/egress"
)

// askSplices are what mutations of a target insert.
var askSplices = []string{
	".", "..", ":", ":443", ":80", ":0", ":00443", ":443:80", "@", "u:p@", "u@", "[", "]", "[::1]", "%", "%2e", "%00", "%40", "%2f", "%3a", "%25", "\x00", "\r", "\t", " ", "/", "//", "///", `\`, `\\`,
	"?", "#", ";", ",", "*", "http:", "https:", "http://", "HTTP://", "file://", "://", "é", "\u212a", "。", "\u200b", "\xff", "evil.test", "@evil.test", ".evil.test", "evil.test#", "127.0.0.1", "2130706433", "xn--",
}

func mutateAsk(text string, script []byte) string {
	for ; len(script) >= 3 && len(text) < 500; script = script[3:] {
		at := int(script[1]) % (len(text) + 1)
		splice := askSplices[int(script[2])%len(askSplices)]
		switch script[0] % 5 {
		case 0, 1:
			text = text[:at] + splice + text[at:]
		case 2:
			text = text[:at] + splice + text[min(at+1, len(text)):]
		case 3:
			text = text[:at] + strings.ToUpper(text[at:])
		case 4:
			text = text[:at] + text[min(at+1, len(text)):]
		}
	}
	return text
}

// named reports whether a text names raw.ok.test on the given port, letter case and one trailing dot aside.
func named(authority, port, defaultPort string) bool {
	host, rest, found := strings.Cut(authority, ":")
	if !found {
		rest = defaultPort
	}
	return strings.EqualFold(strings.TrimSuffix(host, "."), "raw.ok.test") && !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) && rest == port
}

// FuzzAsks: a target that is mutated in the request line of a CONNECT, in that of a plain request, or in the Host inside a tunnel, goes
// through net/http and the gates up to the egress policy. What passes says, in the place that counts, the name that is allowed.
func FuzzAsks(f *testing.F) {
	l := newLab(f, func(f *labFiles) {
		f.manifest = replaceOnce(f.manifest, "allowedDomains: [", "allowedDomains: [\"raw.ok.test:443\", ")
		f.config = replaceOnce(f.config, "log: {level: debug, payloads: true}", "log: {level: error}")
	})
	for i := range askSplices {
		for how := range byte(4) {
			for _, at := range []byte{0, 5, 7, 8, 11, 15, 19} {
				f.Add(how, []byte{byte(i%2) * 2, at, byte(i)})
			}
		}
	}
	inside := &tunnel{target: egress.Target{Host: "raw.ok.test", Port: 443}, proxyAuthorization: []string{l.basic(l.token)}}
	allowed := func(a *ask) (egress.Target, bool) {
		c := l.proxy.begin("tool", "request")
		a.proxyAuthorization = inside.proxyAuthorization
		d := c.decide(context.Background(), a)
		if c.release != nil {
			c.release(context.Canceled)
		}
		return c.target, d == nil
	}
	for _, how := range []*ask{{tunnel: true, authority: "raw.ok.test:443"}, {scheme: "http", authority: "raw.ok.test:443", method: "GET", path: "/"}} { // or the property would be empty
		if _, ok := allowed(how); !ok {
			f.Fatalf("%+v is not allowed", how)
		}
	}
	f.Fuzz(func(t *testing.T, how byte, script []byte) {
		var text, stream string
		switch how % 4 {
		case 0:
			text = mutateAsk("raw.ok.test:443", script)
			stream = "CONNECT " + text + " HTTP/1.1\r\nHost: raw.ok.test:443\r\n\r\n"
		case 1:
			text = mutateAsk("http://raw.ok.test:443/a", script)
			stream = "GET " + text + " HTTP/1.1\r\nHost: raw.ok.test:443\r\n\r\n"
		case 2:
			text = mutateAsk("raw.ok.test", script)
			stream = "GET /a HTTP/1.1\r\nHost: " + text + "\r\n\r\n"
		case 3:
			text = mutateAsk("https://raw.ok.test/a", script)
			stream = "GET " + text + " HTTP/1.1\r\nHost: raw.ok.test\r\n\r\n"
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(stream)))
		if err != nil {
			return
		}
		var a *ask
		switch authority := text; {
		case how%4 < 2 && r.Method == http.MethodConnect:
			a = connectAsk(r)
			if _, ok := allowed(a); ok && !named(authority, "443", "") {
				t.Fatalf("CONNECT %q is allowed", text)
			}
			return
		case how%4 == 1:
			a = plainAsk(r)
		default:
			a = innerAsk(r, inside, "https")
		}
		target, ok := allowed(a)
		if !ok {
			return
		}
		if target.HostPort() != "raw.ok.test:443" {
			t.Fatalf("%q is allowed, as %s", stream, target.HostPort())
		}
		authority, path := strings.TrimSpace(text), "/a"
		if how%4 != 2 {
			authority, path = cutURL(text)
		}
		if authority != "" && !named(authority, "443", map[string]string{"http": "80", "https": "443"}[a.scheme]) {
			t.Fatalf("%q is allowed", stream)
		}
		if how%4 != 2 && !strings.EqualFold(target.Path, path) && !strings.ContainsAny(path, "\"<>^`{|}[]#\\%") && !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("%q is judged by the path %q", stream, target.Path)
		}
	})
}

// cutURL takes a request target apart by hand: its authority, empty in origin form, and its path.
func cutURL(text string) (authority, path string) {
	text, _, _ = strings.Cut(text, "?")
	if strings.HasPrefix(text, "/") {
		return "", text
	}
	_, rest, _ := strings.Cut(text, "//")
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return rest, "/"
	}
	return rest[:i], rest[i:]
}
