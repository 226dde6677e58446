package central

import (
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/bus"
)

// maxSaid bounds what is read of a sidecar's message. A status with a proof is the largest.
const maxSaid = 512 << 10

// said reads a sidecar's message. It returns false for what does not come from a sidecar: user and instance stand in the
// subject, of which the NATS server vouches for the user, and something signed is an answer that somebody had sent here.
func said(m *nats.Msg, into any, who *bus.Sidecar) (sidecarKey, bool) {
	tokens := strings.Split(m.Subject, ".")
	var signed struct {
		Sig *json.RawMessage `json:"sig"`
	}
	if len(tokens) < 2 || len(m.Data) > maxSaid || json.Unmarshal(m.Data, &signed) != nil || signed.Sig != nil ||
		json.Unmarshal(m.Data, into) != nil {
		return sidecarKey{}, false
	}
	k := sidecarKey{user: tokens[len(tokens)-2], instance: tokens[len(tokens)-1]}
	return k, who.Instance != "" && bus.Token(who.Instance) == k.instance
}

func (s *Service) onStatus(m *nats.Msg) {
	var st bus.Status
	k, ok := said(m, &st, &st.Sidecar)
	if !ok {
		return
	}
	s.roster.status(k, &st)
	if len(st.Proof) > 0 {
		s.prove(st.Proof)
	}
}

// prove takes something signed from a sidecar: the one thing that it can say which counts.
func (s *Service) prove(b []byte) {
	if e, err := s.log.keys.Decode(b); err == nil {
		s.witness(witness{e.Log, e.Revision, e.Hash()})
		return
	}
	if c, err := s.log.keys.DecodeCheckpoint(b); err == nil {
		s.witness(witness{c.Log, c.Revision, c.Head})
		return
	}
	if h, err := s.log.keys.DecodeHeartbeat(b); err == nil {
		s.witness(witness{h.Log, h.Revision, h.Head})
	}
}

func (s *Service) onAck(m *nats.Msg) {
	var a bus.Ack
	k, ok := said(m, &a, &a.Sidecar)
	if !ok {
		return
	}
	if s.roster.acked(k, &a) {
		s.watch.progress(a.Revision)
	}
}

func (s *Service) onAnswer(m *nats.Msg) {
	var a bus.Answer
	if k, ok := said(m, &a, &a.Sidecar); ok {
		s.probes.answer(k, &a)
	}
}
