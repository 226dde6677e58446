package main

import (
	"strings"
	"testing"
)

// TestGreeting: what it prints for sidecars is what those need who reach it as it runs.
func TestGreeting(t *testing.T) {
	tokens := enrolment{issuer: "https://kubernetes.default.svc", audience: "toolgate-killswitch"}
	for _, c := range []struct {
		name     string
		settings settings
		address  string
		bus      string
		want     []string
		not      []string
	}{
		{"alone", settings{dir: "/var/lib/ks"}, "127.0.0.1:15030", "nats://127.0.0.1:4222",
			[]string{"sidecars need this in their config:", `servers: ["nats://127.0.0.1:4222"]`, "credentialsFile: /var/lib/ks/sidecar.creds"}, []string{"HOST", "credentialsURL", "injector"}},
		{"for a machine's sidecars", settings{dir: "/var/lib/ks", tlsCert: "a", natsCert: "b"}, "[::]:15030", "tls://0.0.0.0:4222",
			[]string{`servers: ["tls://HOST:4222"]`, "in place of HOST", "# caFile"}, []string{"credentialsURL", "0.0.0.0:4222"}},
		{"in a cluster", settings{dir: "/var/lib/ks", tlsCert: "a", natsCert: "b", enrolment: tokens}, "[::]:15030", "tls://[::]:4222",
			[]string{"the injector puts into a pod knows all of this", "credentialsURL: https://HOST:15030/v1/sidecar-credentials", "tokenFile: FILE # with a token of https://kubernetes.default.svc for the audience toolgate-killswitch", `servers: ["tls://HOST:4222"]`},
			[]string{"credentialsFile", "sidecars need this", "[::]:4222"}},
		{"on NATS of others", settings{natsURL: "tls://a:4222,tls://b:4222"}, "127.0.0.1:15030", "tls://a:4222,tls://b:4222",
			[]string{`servers: ["tls://a:4222,tls://b:4222"]`, "credentialsFile: sidecar.creds"}, []string{"HOST"}},
	} {
		var said strings.Builder
		c.settings.greet(func(text string) { said.WriteString(text + "\n") }, c.address, c.bus, "the hint", "ed25519:k")
		text := said.String()
		for _, want := range append(c.want, "listening on ", "the hint", `publicKey: "ed25519:k"`) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: found no %q in\n%s", c.name, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: found %q in\n%s", c.name, not, text)
			}
		}
	}
}
