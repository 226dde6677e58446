package central_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
)

// TestSenders: a sender that cannot be heard for long is an alarm, which names it, and no reason to refuse requests.
func TestSenders(t *testing.T) {
	l := newLab(t)
	now := time.Now()
	var list []central.Sender
	conn, err := l.server.Connect()
	check(t, err)
	t.Cleanup(conn.Close)
	s, err := central.New(central.Options{Conn: conn, Signer: l.signer, Log: l.log, Now: func() time.Time { return now }})
	check(t, err)
	s.Senders(func() []central.Sender { return list })
	for name, tc := range map[string]struct {
		sender central.Sender
		alarm  bool
	}{
		"well":            {central.Sender{Heard: now, Polled: now, Stream: "enabled"}, false},
		"never heard":     {central.Sender{}, false},
		"fails for short": {central.Sender{Failing: now.Add(-5*time.Minute + time.Second), Problem: "no answer"}, false},
		"fails for long":  {central.Sender{Failing: now.Add(-5 * time.Minute), Problem: "no answer"}, true},
		"paused":          {central.Sender{Stream: "paused"}, true},
		"disabled":        {central.Sender{Stream: "disabled"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.sender.Name = "idp"
			list = []central.Sender{{Name: "other"}, tc.sender}
			o, err := s.Overview(root)
			check(t, err)
			raised := len(o.Alarms) == 1 && o.Alarms[0].Kind == central.AlarmSenders && strings.Contains(o.Alarms[0].Text, "from idp:")
			if raised != tc.alarm || len(o.Alarms) > 1 || len(o.Senders) != 2 || o.Senders[1] != tc.sender {
				t.Errorf("overview %+v", o)
			}
		})
	}
}
