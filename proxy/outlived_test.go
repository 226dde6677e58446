package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// A revocation that comes after a reload ends at their issuer the tokens that were issued before it.
func TestKillAfterReloadRevokesAtTheIssuer(t *testing.T) {
	revoked := make(chan string, 4)
	end := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { revoked <- r.PostFormValue("token") }))
	t.Cleanup(end.Close)
	l := newLab(t, func(f *labFiles) {
		f.config = replaceOnce(f.config, "        audience: https://bound", "        revocationURL: "+end.URL+"\n        audience: https://bound")
	})
	seen := make(chan string, 1)
	l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") })
	res, err := l.client(l.token, false).Get(l.url("https", "bound.ok.test", "/"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	l.reload("/ok/*", "/other/*")
	l.revoke(killswitch.Selector{Tool: []string{"t1"}})
	select {
	case got := <-revoked:
		if "Bearer "+got != <-seen {
			t.Error("another token was revoked")
		}
	case <-time.After(10 * time.Second):
		t.Error("the token was not revoked")
	}
}
