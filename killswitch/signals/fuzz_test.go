package signals

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/identity"
)

// FuzzDecide: whatever an issuer signs, what follows is a revocation that the rules name, of one subject, or none.
func FuzzDecide(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	t := &transmitter{
		config: Transmitter{Name: "idp", Keys: identity.Issuer{URL: idp}, Rules: []Rule{
			rule(f, "subject=user:{email} tenant=acme", Actionable...), rule(f, "subject=sub:{sub}", Actionable...),
			rule(f, "subject=cx:{user.email} tenant=t:{tenant.id} broader=session", Actionable...),
		}},
		issuers: []string{idp},
	}
	for _, sub := range []string{
		`{"format":"email","email":"a@x.example"}`, `{"format":"iss_sub","iss":"` + idp + `","sub":"*"}`, `{"format":"email","email":""}`,
		`{"format":"aliases","identifiers":[{"format":"email","email":"{sub}"},{"format":"opaque","id":"1"}]}`, `{"format":"complex"}`, `null`,
		`{"format":"complex","user":{"format":"email","email":"a"},"tenant":{"format":"opaque","id":"t"},"session":{"format":"opaque","id":"s"}}`,
	} {
		for uri := range known {
			f.Add(fmt.Appendf(nil, `{"iss":%q,"jti":"1","iat":1799999999,"sub_id":%s,"events":{%q:{"state":"s","reason_admin":{"en":"x"}}}}`, idp, sub, uri))
		}
	}
	f.Add([]byte(`{"iss":"x","jti":"1","iat":1799999999,"events":{"` + caep + `session-revoked":{"subject":{"user":{"format":"email","email":"a"}}}}}`))
	f.Add([]byte(`{"events":{"` + caep + `session-revoked":{}}}`))
	f.Fuzz(func(test *testing.T, payload []byte) {
		d, err := t.decide(payload, now)
		s := d.request.Selector
		if err != nil || d.result != Revoked && d.result != Expired {
			if s.All || s.Validate() == nil || d.request.ID != "" {
				test.Fatalf("%v, and yet a request: %+v", err, d)
			}
			return
		}
		if s.All || s.Validate() != nil || len(s.Subject) == 0 || slices.ContainsFunc(s.Subject, func(v string) bool { return len(v) < 4 || !isPlain(v) }) {
			test.Fatalf("selector %+v", s)
		}
		if len(s.Agent)+len(s.Task)+len(s.Run)+len(s.Tool)+len(s.Host)+len(s.Risk)+len(s.CapabilityClass)+len(s.Version) > 0 {
			test.Fatalf("a field that no rule names: %+v", s)
		}
		if again, err := t.decide(payload, now.Add(time.Minute)); err != nil || again.request.ID != d.request.ID || !again.request.same(d.request) {
			test.Fatalf("not the same again: %+v, %+v, %v", d, again, err)
		}
		if r := d.request; len(r.Reason) > 512 || len(r.Ticket) > maxValue || len(r.ID) > 64 {
			test.Fatalf("unbounded: %+v", r)
		}
	})
}
