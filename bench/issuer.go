//go:build linux

package main

import (
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// issuerHello is what a peer needs to know callers, and tokens of two. The soak revokes the second.
type issuerHello struct{ URL, Audience, Token, Victim, Workload string }

// The client that the sidecar is at the issuer's token endpoint, and the API that it gets tokens for.
const (
	benchClient, benchSecret = "bench", "bench-secret"
	benchAPI                 = "https://api.bench.example"
)

const victim = "user:victim"

// issuerMain serves an issuer's keys until this process is killed.
func issuerMain([]string) error {
	i, _, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		return err
	}
	i.RegisterClient(devissuer.Client{ID: benchClient, Secret: benchSecret, Scopes: []string{"read"}, Audiences: []string{benchAPI}})
	hello := issuerHello{URL: i.URL(), Audience: "toolgate"}
	for subject, token := range map[string]*string{"user:bench": &hello.Token, victim: &hello.Victim, "workload": &hello.Workload} {
		now := time.Now()
		*token, err = i.Mint(map[string]any{
			"iss": i.URL(), "sub": subject, "aud": hello.Audience, "jti": subject,
			"tenant": "bench", "agent_id": "bench", "task_id": "bench", "run_id": "bench",
			"iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(),
		})
		if err != nil {
			return err
		}
	}
	if err := sayHello(hello); err != nil {
		return err
	}
	select {}
}
