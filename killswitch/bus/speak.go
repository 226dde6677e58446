package bus

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch"
)

// outgoing is one message to send. What does not fit into the queue is dropped: who hears must never wait for who speaks.
type outgoing struct {
	subject, reply string
	data           []byte
	ack            bool
}

func (s *Source) send(m outgoing) {
	select {
	case s.out <- m:
	default:
		if m.ack {
			s.o.Observe(Event{Name: "ack", Result: "dropped"})
			s.Changed()
		}
	}
}

// acknowledge says that the entries up to the present one are in force. A status would say the same, and follows at once only where
// this could not be sent.
func (s *Source) acknowledge(effect killswitch.Effect, took time.Duration) {
	s.send(outgoing{subject: SubjectAck(s.speaker(), s.instance), ack: true, data: encode(Ack{
		Sidecar: s.self(), Revision: s.state.Revision, Head: s.state.Head, Cut: effect.Cut, EffectIn: took,
	})})
}

func (s *Source) self() Sidecar {
	self := s.o.Self()
	self.Instance = s.instance
	return self
}

// Pace of what is said. A burst of changes is told once, after settle, at a moment of each sidecar's own.
const (
	soon        = time.Second
	answerEvery = 50 * time.Millisecond // probes; counting walks all running calls
)

// speak publishes what is queued, a status now and then, and answers probes.
func (s *Source) speak(ctx context.Context) {
	status := time.NewTimer(rand.N(soon))
	defer status.Stop()
	due := time.Now().Add(soon)
	var answered time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.out:
			err := s.publish(m)
			if m.ack {
				s.o.Observe(Event{Name: "ack", Result: result(err)})
				if err != nil {
					s.Changed()
				}
			}
		case m := <-s.probes:
			if now := time.Now(); now.Sub(answered) >= answerEvery {
				answered = now
				s.probe(m)
			}
		case <-s.tell:
			if at := time.Now().Add(rand.N(soon)); at.Before(due) {
				due = at
				status.Reset(time.Until(due))
			}
		case <-status.C:
			_ = s.publish(s.status())
			due = time.Now().Add(StatusEvery*9/10 + rand.N(StatusEvery/5))
			status.Reset(time.Until(due))
		}
	}
}

// publish hands a message to the connection, or fails at once where there is none.
func (s *Source) publish(m outgoing) error {
	return s.conn.PublishMsg(&nats.Msg{Subject: m.subject, Reply: m.reply, Data: m.data})
}

// maxRows bounds a status.
const maxRows = 100

func (s *Source) status() outgoing {
	v := s.View()
	st := Status{Sidecar: s.self(), Revision: v.Revision, Head: v.Head, Refused: v.Refused, Proof: v.proof, Running: []Running{}, Leaving: s.leaving.Load()}
	for _, r := range s.o.Switch.Summary(maxRows) {
		st.Running = append(st.Running, Running(r))
	}
	return outgoing{subject: SubjectStatus(s.speaker(), s.instance), data: encode(st)}
}

// probe answers how many running calls a selector covers. Nobody signs the question, and the answer is a count.
func (s *Source) probe(m *nats.Msg) {
	var p Probe
	if json.Unmarshal(m.Data, &p) != nil {
		return
	}
	answer := Answer{Sidecar: s.self(), ID: p.ID, Calls: s.o.Switch.Count(p.Selector.KillSwitch())}
	_ = s.publish(outgoing{subject: SubjectAnswer(s.speaker(), s.instance), data: encode(answer)})
}

// encode cannot fail: what is encoded holds texts and numbers.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
