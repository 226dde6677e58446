package ledger

import "time"

// Checkpoint is the fold of the log up to Revision, signed, so that a sidecar that knows nothing yet need not read the log
// from its beginning. One that knows a revision follows the log instead: only the chain shows that histories agree.
type Checkpoint struct {
	Version     int          `json:"v"` // 1
	Log         string       `json:"log"`
	Revision    uint64       `json:"revision"`
	Head        Hash         `json:"head"`
	At          time.Time    `json:"at"`
	Revocations []Revocation `json:"revocations"` // in force, ordered by id

	Signature
}

// Revocation is one that is in force.
type Revocation struct {
	ID       string    `json:"id"`
	Revision uint64    `json:"revision"` // of the entry that put it in force
	Selector Selector  `json:"selector"`
	Reason   string    `json:"reason,omitempty"`
	Ticket   string    `json:"ticket,omitempty"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Expires  time.Time `json:"expires,omitzero"`
}

func (c *Checkpoint) check() error {
	switch {
	case c.Version != 1:
		return malformed("version %d is not 1", c.Version)
	case c.Log == "" || len(c.Log) > MaxID:
		return malformed("log id of %d bytes", len(c.Log))
	case c.Revision == 0 || c.Revision > maxRevision || c.Head == "":
		return malformed("revision %d with head %q", c.Revision, c.Head)
	case c.At.IsZero() || c.At.Location() != time.UTC:
		return malformed("at is missing or not in UTC")
	}
	last := ""
	for i := range c.Revocations {
		r := &c.Revocations[i]
		if r.ID <= last || r.Revision == 0 || r.Revision > c.Revision {
			return malformed("revocation %d is out of order", i)
		}
		last = r.ID
		if err := r.Selector.check(); err != nil {
			return err
		}
	}
	return nil
}
