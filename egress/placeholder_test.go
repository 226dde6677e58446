package egress

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// An answer of the sidecar's own name server, to which a query went astray, is no answer. One that comes each time is an upstream's own,
// and is denied as any address of its range.
func TestAnswerWithThePlaceholder(t *testing.T) {
	for name, tt := range map[string]struct {
		astray, asked int32
		reached       bool
	}{"once": {1, 2, true}, "three times": {3, 4, true}, "always": {1 << 30, 4, false}} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := startDNS(t, func(_ string, typ dnsmessage.Type) dnsReply {
				switch {
				case typ != dnsmessage.TypeA:
					return dnsReply{}
				case asked.Add(1) <= tt.astray:
					return addrs(Placeholder.String())
				}
				return addrs("127.0.0.2")
			})
			_, port := listen(t, "127.0.0.2")
			conn, err := dialerTo(s, port, "127.0.0.2/32").Dial(t.Context(), "t", "api.ok.test", port, nil)
			if conn != nil {
				_ = conn.Close()
			}
			if (err == nil) != tt.reached || asked.Load() != tt.asked {
				t.Errorf("asked %d times: %v", asked.Load(), err)
			}
			if _, denied := errors.AsType[*AddressError](err); !tt.reached && !denied {
				t.Errorf("%v", err)
			}
		})
	}
}
