package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/proxy"
)

// TestExplainExchange: one exchange is made, and what came back is shown without what is secret.
func TestExplainExchange(t *testing.T) {
	for name, c := range map[string]struct {
		fault  devissuer.Faults
		claims map[string]any // of the task token
		reason string         // empty: allowed
		says   []string
		asked  int
	}{
		"good": {says: []string{
			"audience = https://bound.ok.test", "subject_token = [not shown]", "answered         200", "token_type       Bearer", `claim            aud = "https://bound.ok.test"`,
			"good until", "allow: intercept",
		}, asked: 1},
		"for somebody else": {fault: devissuer.Faults{WrongAudience: "https://evil.test"}, reason: "wrong_audience", asked: 1, says: []string{
			`aud = "https://evil.test"`, "refused            wrong_audience", "why                The token's `aud` is not what was asked for", "what to do         See whether the issuer heeds",
			"deny: 403 credential_denied",
		}},
		"no actor":     {fault: devissuer.Faults{OmitAct: true}, reason: "wrong_actor", asked: 1, says: []string{"mode: impersonation"}},
		"down":         {fault: devissuer.Faults{TokenStatus: 503}, reason: "server_error", asked: 2, says: []string{"answered         503", "deny: 503 credential_unavailable"}},
		"wider":        {fault: devissuer.Faults{GrantScope: "read admin"}, reason: "wider_scope", asked: 1, says: []string{"scope            read admin"}},
		"forged token": {claims: map[string]any{"iss": "https://nobody.test"}, asked: 0, says: []string{"deny: 407 unauthenticated"}, reason: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.issuer.SetFaults(c.fault)
			token := l.mint(c.claims)
			l.write("task.jwt", token)
			args := []string{
				"explain", "--config", filepath.Join(l.dir, "sidecar.yaml"), "--tool", "reader", "--token-file", filepath.Join(l.dir, "task.jwt"),
				"--url", "https://bound.ok.test:" + port(l.tls) + "/", "--exchange",
			}
			var out, errs, asJSON bytes.Buffer
			code := run(args, &out, &errs)
			if want := map[bool]int{true: 0, false: 1}[c.reason == ""]; code != want || errs.Len() > 0 {
				t.Errorf("exit %d, %s", code, errs.String())
			}
			for _, text := range c.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("it does not say %q:\n%s", text, out.String())
				}
			}
			if n := l.issuer.Count(devissuer.PathToken); n != c.asked {
				t.Errorf("%d requests to the issuer", n)
			}
			run(append(args, "-o", "json"), &asJSON, &errs)
			var e proxy.Explanation
			if err := json.Unmarshal(asJSON.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			if c.asked > 0 && (e.Exchange == nil || string(e.Exchange.Reason) != c.reason || len(e.Exchange.Asked) != c.asked) {
				t.Errorf("as JSON: %s", asJSON.String())
			}
			all := out.String() + asJSON.String() + errs.String()
			for _, secret := range []string{token, "first-secret", strings.Split(token, ".")[1], "Bearer eyJ", "eyJhbGciOi"} {
				if strings.Contains(all, secret) {
					t.Errorf("it shows %.20s…:\n%s", secret, all)
				}
			}
		})
	}
}
