//go:build linux

package main

import (
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

// issuerHello is what a peer needs to know callers, and a token of one.
type issuerHello struct{ URL, Audience, Token string }

// issuerMain serves an issuer's keys until this process is killed.
func issuerMain([]string) error {
	i, _, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		return err
	}
	now := time.Now()
	hello := issuerHello{URL: i.URL(), Audience: "toolgate"}
	hello.Token, err = i.Mint(map[string]any{
		"iss": i.URL(), "sub": "user:bench", "aud": hello.Audience, "jti": "bench",
		"tenant": "bench", "agent_id": "bench", "task_id": "bench", "run_id": "bench",
		"iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(),
	})
	if err != nil {
		return err
	}
	if err := sayHello(hello); err != nil {
		return err
	}
	select {}
}
