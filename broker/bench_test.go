package broker

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/redact"
)

// BenchmarkHit is the way of nearly every call: find the binding, hash the caller's token, take from the cache.
func BenchmarkHit(b *testing.B) {
	for name, actor := range map[string]bool{"plain": false, "actor": true} {
		b.Run(name, func(b *testing.B) {
			s := newTokenServer(b, nil)
			bd := exchangeBinding(s.URL)
			if actor {
				bd.TokenExchange.Impersonate = false
				bd.TokenExchange.ActorTokenFile = writeFile(b, actorSecret)
				ageFile(b, bd.TokenExchange.ActorTokenFile)
			}
			br, found := mustNew(b, bd, Options{})
			sub := alice()
			sub.Token = redact.New(strings.Repeat("t", 800))
			if _, err := br.Credential(b.Context(), found, sub); err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := br.Credential(ctx, br.Find("orders_tool", "api.orders.test", 443), sub); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	c := newCredential(Ref{}, "Authorization", "Bearer ", issuedSecret)
	out := &http.Request{Header: http.Header{"Accept": {"*/*"}, "User-Agent": {"x"}, "Authorization": {"tool"}, "Content-Type": {"x"}}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Apply(out, nil)
	}
}
