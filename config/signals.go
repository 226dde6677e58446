package config

import (
	"net/http"

	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch/signals"
)

// signals checks the senders of a Signals file against each other and each in itself.
func (l *loader) signals(raw *rawSignals) signals.Config {
	var c signals.Config
	if len(raw.Transmitters.V)+len(raw.Alertmanagers.V) == 0 && len(l.mistakes) == 0 {
		l.errorf(raw.Kind.at, "found neither transmitters nor alertmanagers, expected at least one")
	}
	names := map[string]mark{}
	for i := range raw.Transmitters.V {
		f := &raw.Transmitters.V[i]
		l.once(names, &f.V.Name)
		before := len(l.mistakes)
		t := l.transmitter(&f.V)
		if !f.ok {
			continue
		}
		if !f.V.Push.present && !f.V.Poll.present {
			l.errorf(f.at, "found neither push nor poll, expected at least one")
		}
		l.rules(&f.V, &t)
		if len(l.mistakes) > before {
			continue
		}
		err := t.Check()
		if err == nil {
			_, err = identity.NewKeys(t.Keys)
		}
		if err != nil {
			l.errorf(f.at, "found a transmitter that cannot be used, expected another: %v", err)
		}
		c.Transmitters = append(c.Transmitters, t)
	}
	clear(names)
	for i := range raw.Alertmanagers.V {
		a := &raw.Alertmanagers.V[i].V
		l.once(names, &a.Name)
		c.Alertmanagers = append(c.Alertmanagers, signals.Alertmanager{
			Name: string(a.Name.V), TokenFile: l.secretFile(a.TokenFile), Expires: a.Expires.V, Restore: a.Restore.V,
		})
	}
	return c
}

// once reports a name that was given before.
func (l *loader) once(names map[string]mark, f *field[name]) {
	if first, twice := names[string(f.V)]; twice && f.ok {
		l.errorf(f.at, "found name %s a second time, expected unique names; the first is at %d:%d", quote(string(f.V)), first.line, first.col)
	} else if f.ok {
		names[string(f.V)] = f.at
	}
}

func (l *loader) transmitter(raw *rawTransmitter) signals.Transmitter {
	l.endpoint(raw.Issuer, false)
	l.endpoint(raw.JWKSURL, true)
	t := signals.Transmitter{
		Name: string(raw.Name.V),
		Keys: identity.Issuer{
			URL: raw.Issuer.V, JWKSURL: raw.JWKSURL.V, Audiences: plain(raw.Audiences.V), Algorithms: plain(raw.Algorithms.V),
		},
		SubjectIssuers: plain(raw.SubjectIssuers.V), Leeway: raw.Leeway.V, MaxAge: raw.MaxAge.V,
		Reason: signals.ReasonFrom(raw.Reason.V),
	}
	var pollClient *http.Client
	if _, pool := l.roots(raw.CAFile); pool != nil {
		t.Keys.Client, pollClient = keyClient(pool), keyClient(pool)
	}
	if raw.Push.present {
		t.Push = &signals.Push{TokenFile: l.secretFile(raw.Push.V.TokenFile)}
	}
	if raw.Poll.present {
		p := &raw.Poll.V
		l.endpoint(p.URL, true)
		t.Poll = &signals.Poll{URL: p.URL.V, TokenFile: l.secretFile(p.TokenFile), MaxEvents: p.MaxEvents.V, Wait: p.Wait.V, Client: pollClient}
	}
	return t
}

// rules fills t's and checks each at its place.
func (l *loader) rules(raw *rawTransmitter, t *signals.Transmitter) {
	for i := range raw.Rules.V {
		f := &raw.Rules.V[i]
		s := &f.V.Selector.V
		r := signals.Rule{
			Subject: signals.Template(s.Subject.V), Agent: signals.Template(s.Agent.V), Tenant: signals.Template(s.Tenant.V),
			Task: signals.Template(s.Task.V), Run: signals.Template(s.Run.V), Tool: signals.Template(s.Tool.V),
			Broader: plain(f.V.Broader.V), Expires: f.V.Expires.V,
		}
		for _, e := range plain(f.V.Events.V) {
			r.Events = append(r.Events, signals.Event(e))
		}
		if err := r.Check(); err != nil && f.ok {
			l.errorf(f.at, "found a rule that cannot be used, expected another: %v", err)
		}
		t.Rules = append(t.Rules, r)
	}
}
