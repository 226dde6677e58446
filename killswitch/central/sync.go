package central

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
)

// syncBatch is how many sidecars are answered by one look at the store, at most. After a restart all ask at once, and a look for each
// would take longer than they wait.
const syncBatch = 1024

// syncRequest is a sidecar that wants to know how things stand now.
type syncRequest struct {
	m     *nats.Msg
	nonce string
}

func (s *Service) onSync(ctx context.Context, m *nats.Msg) {
	// Whoever asks chooses where the answer goes. It goes to an inbox only, never into a subject that means something.
	if !strings.HasPrefix(m.Reply, nats.InboxPrefix) && !strings.HasPrefix(m.Reply, "_R_.") {
		return
	}
	var q bus.SyncRequest
	if len(m.Data) > 1024 || json.Unmarshal(m.Data, &q) != nil || q.Nonce == "" {
		return
	}
	select {
	case s.syncs <- syncRequest{m, q.Nonce}:
	case <-ctx.Done():
	}
}

// answerSyncs answers until ctx ends. Those that came before a look at the store began are answered by it.
func (s *Service) answerSyncs(ctx context.Context) {
	for {
		var asked []syncRequest
		select {
		case <-ctx.Done():
			return
		case q := <-s.syncs:
			asked = append(asked, q)
		}
		for more := true; more && len(asked) < syncBatch; {
			select {
			case q := <-s.syncs:
				asked = append(asked, q)
			default:
				more = false
			}
		}
		s.answer(ctx, asked)
	}
}

func (s *Service) answer(ctx context.Context, asked []syncRequest) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if !s.log.isOpen() || s.log.vouch(ctx) != nil {
		return
	}
	for _, q := range asked {
		if h, err := s.log.signHeartbeat(s.opts.Instance, q.nonce); err == nil {
			_ = q.m.Respond(h.Encode())
		}
	}
}
