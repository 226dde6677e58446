package proxy

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// limited is the lab's issuer with a limit on the use of its tokens.
func limited(t *testing.T, mode string) labOption {
	return replaced(t, "audiences: [toolgate]}", "audiences: [toolgate], maxLifetime: 1h, replay: "+mode+"}")
}

func (l *lab) mintOnce(id string) string {
	return l.mint(map[string]any{"jti": id, "iat": time.Now().Unix()})
}

// TestTokenForOneCall: the second call is refused, whatever it is; the requests inside a tunnel belong to the call that opened it, but those
// with a token of their own are calls of their own.
func TestTokenForOneCall(t *testing.T) {
	l := newLab(t, limited(t, "once"))
	plain, bound := l.url("http", "plain.ok.test", "/"), l.url("https", "bound.ok.test", "/")
	for _, first := range []string{plain, bound} {
		token := l.mintOnce(fmt.Sprint("first ", first))
		client := l.client(token, false)
		if status, body, err := get(client, first); err != nil || status != 404 {
			t.Fatalf("%s: %d %q %v", first, status, body, err)
		}
		if first == bound { // through the same tunnel
			if status, body, err := get(client, first); err != nil || status != 404 {
				t.Fatalf("inside the tunnel: %d %q %v", status, body, err)
			}
		}
		if status, body, err := get(l.client(token, false), plain); err != nil || status != 407 || problemOf(t, body).Detail != "The task token is not accepted: replayed." {
			t.Errorf("after %s: %d %q %v", first, status, body, err)
		}
	}
	own := l.client("", false)
	own.Transport.(*http.Transport).ProxyConnectHeader = http.Header{"Toolgate-Authorization": {l.mintOnce("opener")}}
	token := l.mintOnce("inner")
	for _, want := range []int{404, 407} {
		req, err := http.NewRequest(http.MethodGet, bound, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Toolgate-Authorization", token)
		res, err := own.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("inside another's tunnel: %d, want %d", res.StatusCode, want)
		}
	}
	if status, _, err := get(l.client(l.mint(map[string]any{"iat": time.Now().Unix(), "jti": nil}), false), plain); err != nil || status != 407 {
		t.Errorf("without an id: %d %v", status, err)
	}
}

// TestReplayOutlivesAReload, even one that makes another verifier.
func TestReplayOutlivesAReload(t *testing.T) {
	l := newLab(t, limited(t, "once"))
	token, plain := l.mintOnce("kept"), l.url("http", "plain.ok.test", "/")
	if status, _, err := get(l.client(token, false), plain); err != nil || status != 404 {
		t.Fatal(status, err)
	}
	f := l.files()
	limited(t, "once")(&f)
	replaced(t, "maxLifetime: 1h", "maxLifetime: 2h")(&f)
	l.write("sidecar.yaml", f.config)
	l.proxy.Reload(l.load())
	if status, _, err := get(l.client(token, false), plain); err != nil || status != 407 {
		t.Errorf("after a reload: %d %v", status, err)
	}
}

// TestGatewayBindsTokens to the workload that came with them first. One that may not speak for the caller does not take them.
func TestGatewayBindsTokens(t *testing.T) {
	c := newChain(t, showCert, replaced(t, "audiences: [toolgate]}", "audiences: [toolgate], maxLifetime: 1h, replay: bind}"))
	head := c.head("t1", c.mintOnce("bound"), "")
	for _, v := range []struct{ id, want string }{
		{"spiffe://cluster.test/ns/other/sa/tool", "workload_not_allowed"},
		{sidecarID, "200"}, {sidecarID, "200"},
		{"spiffe://cluster.test/ns/acme/sa/thief", "unauthenticated"},
		{sidecarID, "200"},
	} {
		cert, key := c.ca.issue(v.id)
		if got, err := c.visit(visitor{cert: cert, key: key, head: head}); err != nil || got != v.want {
			t.Errorf("%s: got %q %v, want %q", v.id, got, err, v.want)
		}
	}
	// By a token a workload of that name is another one.
	showing := c.head("t1", c.mintOnce("bound"), workloadHeader+": "+c.workloadToken("system:serviceaccount:acme:tool")+"\r\n")
	if got, err := c.visit(visitor{head: showing}); err != nil || got != "unauthenticated" {
		t.Errorf("by a token: %q %v", got, err)
	}
}

// TestSidecarBindsTokens to the tools of the listener: the user name of a client proves nothing.
func TestSidecarBindsTokens(t *testing.T) {
	l := newLab(t, limited(t, "bind"), replaced(t, "- {name: tool, address", `- {name: twin, address: "127.0.0.1:0", tool: t1}
  - {name: many, address: "127.0.0.1:0", tools: [t1]}
  - {name: tool, address`))
	user := func(name string) string { return (&call{listener: l.proxy.gates.Load().listener(name)}).user() }
	if user("tool") != user("twin") || user("tool") != user("many") || user("tool") == user("none") {
		t.Errorf("%q %q %q %q", user("tool"), user("twin"), user("many"), user("none"))
	}
	token, plain := l.mintOnce("kept"), l.url("http", "plain.ok.test", "/")
	for range 2 {
		if status, _, err := get(l.client(token, false), plain); err != nil || status != 404 {
			t.Fatal(status, err)
		}
	}
	who, err := l.proxy.gates.Load().verifier.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.proxy.replays.Use(who, "", "tools:other"); err == nil {
		t.Error("another tool's listener used the token, too")
	}
}
