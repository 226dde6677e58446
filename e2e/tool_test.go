package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// proxyURL is a value for HTTPS_PROXY, with the token as the proxy's password where there is one.
func proxyURL(listener, token string) string {
	if token == "" {
		return "http://" + listener
	}
	return "http://tool:" + token + "@" + listener
}

// toolClient returns an HTTP client that goes through the proxy as one that reads HTTPS_PROXY does, and trusts one CA file.
func toolClient(t *testing.T, proxy, caFile string) *http.Client {
	t.Helper()
	choose := (&httpproxy.Config{HTTPSProxy: proxy}).ProxyFunc()
	tr := &http.Transport{
		Proxy:             func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
		TLSClientConfig:   &tls.Config{RootCAs: roots(t, caFile)},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// answer is what a tool saw of a response.
type answer struct {
	status int
	header http.Header
	body   string
	proto  string
	after  http.Header // trailers
}

func get(t *testing.T, c *http.Client, url string) answer {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: reading the body: %v", url, err)
	}
	return answer{res.StatusCode, res.Header, string(body), res.Proto, res.Trailer}
}

// text is everything that the tool saw, to be searched for secrets.
func (a answer) text() string {
	var b strings.Builder
	_ = a.header.Write(&b)
	_ = a.after.Write(&b)
	return b.String() + a.body
}
