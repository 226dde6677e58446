package ledger

import "time"

// Heartbeat is how a control plane says that it is there and how far the log has got. It is signed, since whoever could
// forge one could keep a cut-off sidecar from going stale.
type Heartbeat struct {
	Version  int       `json:"v"` // 1
	Log      string    `json:"log"`
	Revision uint64    `json:"revision"` // 0: the log is empty
	Head     Hash      `json:"head"`     // hash of the last entry; empty at revision 0
	At       time.Time `json:"at"`       // by the signer's clock, UTC
	Instance string    `json:"instance"` // which replica
	Nonce    string    `json:"nonce,omitempty"`

	Signature
}

func (h *Heartbeat) check() error {
	switch {
	case h.Version != 1:
		return malformed("version %d is not 1", h.Version)
	case h.Log == "" || len(h.Log) > MaxID || h.Instance == "" || len(h.Instance) > MaxID || len(h.Nonce) > MaxID:
		return malformed("log, instance or nonce missing or long")
	case h.Revision > maxRevision || (h.Revision == 0) != (h.Head == ""):
		return malformed("revision %d with head %q", h.Revision, h.Head)
	case h.At.IsZero() || h.At.Location() != time.UTC:
		return malformed("at is missing or not in UTC")
	}
	return nil
}
