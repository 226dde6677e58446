package central

import (
	"strings"
	"time"
)

// Sender is what is known of a sender whose security events become revocations. Times are zero for never.
type Sender struct {
	Name    string    `json:"name"`
	Heard   time.Time `json:"heard,omitzero"`    // the last event that was accepted
	Stream  string    `json:"stream,omitempty"`  // what the sender said last of its stream: enabled, paused, disabled
	Polled  time.Time `json:"polled,omitzero"`   // the last poll that was answered
	Failing time.Time `json:"failing,omitzero"`  // the first of the polls that have failed since one was answered
	Problem string    `json:"problem,omitempty"` // why the newest one failed
}

// maxUnheard is how long polls may fail before somebody must look: long enough for a transmitter to start anew.
const maxUnheard = 5 * time.Minute

// Senders has f tell Overview and Alarms of the senders, by name. It must be called before Run, and f must return at once.
func (s *Service) Senders(f func() []Sender) { s.senders = f }

// CountSignal counts a security event or alert. Each argument is one of a small set.
func (s *Service) CountSignal(sender, event, result string) {
	s.metrics.signals.WithLabelValues(sender, event, result).Inc()
}

// unheard names the senders whose events cannot arrive. It is an error, and the same while the same are meant: watchers are told
// of each change.
func (s *Service) unheard() error {
	var names []string
	for _, sender := range s.senders() {
		failing := !sender.Failing.IsZero() && s.opts.Now().Sub(sender.Failing) >= maxUnheard
		if failing || sender.Stream == "paused" || sender.Stream == "disabled" {
			names = append(names, sender.Name)
		}
	}
	if names == nil {
		return nil
	}
	return refuse(Unavailable, "no security events come from %s: polls fail, or the stream is paused or disabled", strings.Join(names, ", "))
}
