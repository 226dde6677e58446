package broker

import (
	"strings"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	exchange := func(change func(*TokenExchange)) Binding {
		bd := exchangeBinding("https://idp.test/token")
		change(bd.TokenExchange)
		return bd
	}
	whole := func(change func(*Binding)) Binding {
		bd := exchangeBinding("https://idp.test/token")
		change(&bd)
		return bd
	}
	auth := func(a ClientAuth) Binding { return exchange(func(x *TokenExchange) { x.ClientAuth = a }) }
	url := func(u string) Binding { return exchange(func(x *TokenExchange) { x.TokenURL = u }) }
	target := func(s string) Binding { return whole(func(b *Binding) { b.Targets = []string{s} }) }
	secret := writeFile(t, "file-SECRET\nsecond-SECRET")
	for name, c := range map[string]struct {
		bd   Binding
		want string // in the error
	}{
		"no name":               {whole(func(b *Binding) { b.Name = "" }), "needs a name"},
		"no tools":              {whole(func(b *Binding) { b.Tools = nil }), "tools"},
		"an empty tool":         {whole(func(b *Binding) { b.Tools = []string{""} }), "tools"},
		"no targets":            {whole(func(b *Binding) { b.Targets = nil }), "targets"},
		"no kind":               {whole(func(b *Binding) { b.TokenExchange = nil }), "0 kinds"},
		"both kinds":            {whole(func(b *Binding) { b.Static = &Static{} }), "2 kinds"},
		"target without port":   {target("api.test"), "host:port"},
		"target, port 0":        {target("api.test:0"), "port"},
		"target, port large":    {target("api.test:65536"), "port"},
		"target, port a word":   {target("api.test:https"), "port"},
		"target without host":   {target(":443"), "host:port"},
		"target with wildcard":  {target("*.test:443"), "canonical"},
		"target in capitals":    {target("API.test:443"), "canonical"},
		"target with a path":    {target("a/b:443"), "canonical"},
		"target twice":          {whole(func(b *Binding) { b.Targets = append(b.Targets, b.Targets[0]) }), "already"},
		"URL missing":           {url(""), "tokenURL"},
		"URL relative":          {url("/token"), "tokenURL"},
		"URL in the clear":      {url("http://idp.test/token"), "https"},
		"URL of localhost":      {url("http://localhost/token"), "https"},
		"URL of another scheme": {url("ftp://idp.test/"), "https"},
		"URL with a password":   {url("https://u:password-SECRET@idp.test/"), "user info"},
		"URL that is none":      {url("https://idp.test/%zzpassword-SECRET"), "tokenURL"},
		"resource relative":     {exchange(func(x *TokenExchange) { x.Resource = "/v1" }), "resource"},
		"resource, fragment":    {exchange(func(x *TokenExchange) { x.Resource = "https://a.test/#f" }), "resource"},
		"resource, bare #":      {exchange(func(x *TokenExchange) { x.Resource = "https://a.test/#" }), "resource"},
		"a scope of two":        {exchange(func(x *TokenExchange) { x.Scopes = []string{"a b"} }), "scope"},
		"an empty scope":        {exchange(func(x *TokenExchange) { x.Scopes = []string{""} }), "scope"},
		"negative TTL":          {exchange(func(x *TokenExchange) { x.MaxTTL = -time.Second }), "negative"},
		"negative timeout":      {exchange(func(x *TokenExchange) { x.Timeout = -time.Second }), "negative"},
		"CA file missing":       {exchange(func(x *TokenExchange) { x.CAFile = "/nowhere/ca.pem" }), "caFile /nowhere/ca.pem: no such file"},
		"CA file empty":         {exchange(func(x *TokenExchange) { x.CAFile = writeFile(t, "x") }), "PEM"},
		"no actor":              {exchange(func(x *TokenExchange) { x.Impersonate = false }), "needs an actor"},
		"an actor too many":     {exchange(func(x *TokenExchange) { x.ActorTokenFile = writeFile(t, "a") }), "has no actor"},
		"unknown target":        {exchange(func(x *TokenExchange) { x.Target = "all" }), "target"},
		"target not there":      {exchange(func(x *TokenExchange) { x.Target = TargetResource }), "needs what it names"},
		"half a target":         {exchange(func(x *TokenExchange) { x.Target = TargetBoth }), "needs what it names"},
		"target scope, none":    {exchange(func(x *TokenExchange) { x.Target = TargetScope }), "needs scopes"},
		"a parameter of ours":   {exchange(func(x *TokenExchange) { x.Parameters = []Parameter{{"subject_token", "x"}} }), "setting of its own"},
		"a parameter twice":     {exchange(func(x *TokenExchange) { x.Parameters = []Parameter{{"a", "b"}, {"a", "c"}} }), "twice"},
		"a nameless parameter":  {exchange(func(x *TokenExchange) { x.Parameters = []Parameter{{"", "b"}} }), "name"},
		"a refresh token":       {exchange(func(x *TokenExchange) { x.RequestedType = "urn:ietf:params:oauth:token-type:refresh_token" }), "no upstream"},
		"a transaction token":   {exchange(func(x *TokenExchange) { x.RequestedType = "urn:ietf:params:oauth:token-type:txn_token" }), "no upstream"},
		"actor file missing":    {exchange(func(x *TokenExchange) { x.Impersonate, x.ActorTokenFile = false, "/nowhere/token" }), "actorTokenFile /nowhere/token: no such file"},
		"no method":             {auth(ClientAuth{ClientID: "c"}), "not one of"},
		"unknown method":        {auth(ClientAuth{Method: "client_secret_jwt", ClientID: "c"}), "not one of"},
		"no client":             {auth(ClientAuth{Method: "client_secret_basic"}), "clientID"},
		"secret missing":        {auth(ClientAuth{Method: "client_secret_basic", ClientID: "c", SecretFile: "/nowhere/s"}), "secretFile /nowhere/s: no such file"},
		"secret of two lines":   {auth(ClientAuth{Method: "client_secret_post", ClientID: "c", SecretFile: secret}), "secretFile " + secret},
		"key missing":           {auth(ClientAuth{Method: "private_key_jwt", ClientID: "c", KeyFile: "/nowhere/k"}), "keyFile /nowhere/k: no such file"},
		"key is none":           {auth(ClientAuth{Method: "private_key_jwt", ClientID: "c", KeyFile: secret}), "PEM"},
		"static, no file":       {staticBinding(Static{}), "static file"},
		"static, two lines":     {staticBinding(Static{File: secret}), "static file " + secret},
		"static, a hop header":  {staticBinding(Static{File: writeFile(t, "v"), Header: "Connection"}), "Connection"},
		"static, prefix breaks": {staticBinding(Static{File: writeFile(t, "v"), Prefix: "a\r\nb: "}), "prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := New([]Binding{c.bd}, Options{})
			if b != nil || err == nil {
				t.Fatal("was taken")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "binding ") {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestNewTellsEverything(t *testing.T) {
	first, second, third := exchangeBinding("x"), staticBinding(Static{}), exchangeBinding("https://idp.test/token")
	_, err := New([]Binding{first, second, third, third}, Options{})
	for _, want := range []string{`binding "orders": tokenURL`, `binding "partner": static file`, `binding "orders": the name is used twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestTwoBindingsOfOneTarget(t *testing.T) {
	first, second := exchangeBinding("https://idp.test/token"), staticBinding(Static{File: writeFile(t, "v")})
	_, err := New([]Binding{first, second}, Options{})
	if err == nil || !strings.Contains(err.Error(), `already belong to binding "orders"`) {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	bd := exchangeBinding("https://idp.test/token")
	bd.Targets = []string{"api.orders.test:443", "[2001:db8::1]:8443"}
	b, found := mustNew(t, bd, Options{})
	if found.Kind() != "token_exchange" || (&Binding{Static: &Static{}}).Kind() != "static" || new(Binding).Kind() != "" {
		t.Error("kinds")
	}
	if b.Find("orders_tool", "2001:db8::1", 8443) != found {
		t.Error("the address is not found")
	}
	for _, c := range []struct {
		tool, host string
		port       uint16
	}{
		{"other_tool", "api.orders.test", 443}, {"", "api.orders.test", 443}, {"orders_tool", "api.orders.test", 80},
		{"orders_tool", "x.api.orders.test", 443}, {"orders_tool", "orders.test", 443}, {"orders_tool", "API.orders.test", 443},
		{"orders_tool", "", 443}, {"orders_tool", "2001:db8::1", 443},
	} {
		if got := b.Find(c.tool, c.host, c.port); got != nil {
			t.Errorf("%+v is found", c)
		}
	}
	bd.Tools[0], bd.TokenExchange.Audience = "other_tool", "https://evil.test"
	if found.Tools[0] != "orders_tool" || found.TokenExchange.Audience != "https://api.orders.test" {
		t.Error("the broker's binding can be changed from outside")
	}
}

func TestJoinScopes(t *testing.T) {
	list := []string{"b", "a", "b"}
	if s, ok := joinScopes(list); !ok || s != "a b" || list[0] != "b" {
		t.Errorf("%q, %v, %v", s, ok, list)
	}
	for _, bad := range []string{"", "a b", "a\t", "a\n", `a"`, `a\`, "ä", "a\x00"} {
		if s, ok := joinScopes([]string{bad}); ok {
			t.Errorf("%q gave %q", bad, s)
		}
	}
}
