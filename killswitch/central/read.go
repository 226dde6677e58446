package central

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Overview is the state of the control plane at one glance.
type Overview struct {
	Instance   string      `json:"instance"`
	Log        string      `json:"log"`
	Revision   uint64      `json:"revision"`
	Head       ledger.Hash `json:"head"`
	At         time.Time   `json:"at,omitzero"` // of the last entry
	Revoked    int         `json:"revoked"`
	Proposals  int         `json:"proposals"`
	Sidecars   Counts      `json:"sidecars"`
	PublicKey  string      `json:"public_key"`
	SecondFor  []string    `json:"second_person_for"` // "restore", "all"
	Alarms     []Alarm     `json:"alarms"`
	Connection string      `json:"connection"`        // to NATS: "connected" or not
	Unready    string      `json:"unready,omitempty"` // why requests cannot be served
	Senders    []Sender    `json:"senders,omitempty"` // whose security events become revocations
}

// Overview returns it. Tenants limit nothing in it but counts.
func (s *Service) Overview(p Principal) (Overview, error) {
	if err := p.require(Viewer); err != nil {
		return Overview{}, err
	}
	o := Overview{
		Instance: s.opts.Instance, PublicKey: s.opts.Signer.PublicKey(), Alarms: s.Alarms(), Sidecars: s.roster.counts(),
		SecondFor: []string{}, Connection: "connected", Senders: s.senders(),
	}
	if err := s.Ready(); err != nil {
		o.Unready = err.Error()
	}
	if s.opts.Conn.Status() != nats.CONNECTED {
		o.Connection = "not connected"
	}
	if s.opts.SecondPerson.Restore {
		o.SecondFor = append(o.SecondFor, "restore")
	}
	if s.opts.SecondPerson.All {
		o.SecondFor = append(o.SecondFor, "all")
	}
	s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		o.Log, o.Revision, o.Head, o.At = v.Log, v.Revision, v.Head, v.At
		o.Revoked, o.Proposals = len(v.Active()), len(v.Proposals())
	})
	return o, nil
}

// List returns what is revoked, by id.
func (s *Service) List(p Principal) ([]ledger.Revocation, error) {
	if err := p.require(Viewer); err != nil {
		return nil, err
	}
	if err := s.log.readable(); err != nil {
		return nil, err
	}
	list := []ledger.Revocation{}
	s.log.snapshot(func(v *View, _ []*ledger.Entry) {
		for _, r := range v.Active() {
			if p.covers(&r.Selector) {
				list = append(list, r)
			}
		}
	})
	return list, nil
}

// MaxPage bounds what History returns at once.
const MaxPage = 1000

// History returns entries before a revision, newest first. before 0 is the end of the log; id "" is every id.
func (s *Service) History(p Principal, before uint64, limit int, id string) ([]*ledger.Entry, error) {
	if err := p.require(Viewer); err != nil {
		return nil, err
	}
	if err := s.log.readable(); err != nil {
		return nil, err
	}
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	page := []*ledger.Entry{}
	s.log.snapshot(func(v *View, entries []*ledger.Entry) {
		end := len(entries)
		if before > 0 && before-1 < uint64(end) {
			end = int(before - 1)
		}
		for i := end - 1; i >= 0 && len(page) < limit; i-- {
			if e := entries[i]; (id == "" || e.ID == id) && p.covers(selectorOf(v, e)) {
				page = append(page, e)
			}
		}
	})
	return page, nil
}

// Export returns the whole log, oldest first. Each entry's Encode is a line of an export.
func (s *Service) Export(p Principal) ([]*ledger.Entry, error) {
	if err := p.requireAll(Viewer); err != nil {
		return nil, err
	}
	if err := s.log.readable(); err != nil {
		return nil, err
	}
	var all []*ledger.Entry
	s.log.snapshot(func(_ *View, entries []*ledger.Entry) { all = entries })
	return all, nil
}

// PublicKeys returns what sidecars are to trust: the signing key and the earlier ones.
func (s *Service) PublicKeys() []string {
	return append([]string{s.opts.Signer.PublicKey()}, s.opts.Trusted...)
}
