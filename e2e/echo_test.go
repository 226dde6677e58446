package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestEchoedCredential: an upstream that repeats the credential does not give it to the tool.
func TestEchoedCredential(t *testing.T) {
	w := newWorld(t, "", devAuthority)
	s := w.start(t)
	a := get(t, toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), s.caFile), w.up.url(ordersHost, "/echo"))
	arrivals := w.up.arrivals(ordersHost)
	if len(arrivals) != 1 || a.header.Get("X-Echo") == "" || !strings.HasPrefix(a.body, "before ") || !strings.HasSuffix(a.body, " after") {
		t.Fatalf("%d, %d arrivals: %q", a.status, len(arrivals), a.body)
	}
	_, signature, _ := strings.Cut(arrivals[0].Token, ".")
	for place, text := range map[string]string{"header": a.header.Get("X-Echo"), "body": a.body, "trailer": a.after.Get("X-Echo-Trailer")} {
		t.Run(place, func(t *testing.T) {
			if strings.Contains(text, signature) {
				t.Error("it gives the tool its credential")
			}
		})
	}
	for _, h := range []http.Header{a.header, a.after} {
		for name := range h {
			if strings.Contains(strings.ToLower(name), strings.ToLower(signature)) {
				t.Errorf("a name gives the tool its credential: %.20s…", name)
			}
		}
	}
}
