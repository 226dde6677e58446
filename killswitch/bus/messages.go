package bus

import (
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// HeartbeatEvery is how often each replica of the control plane publishes a heartbeat. A sidecar that hears none asks by
// SubjectSync before it goes stale.
const HeartbeatEvery = 5 * time.Second

// StatusEvery is how often a sidecar says that it is there, give or take a tenth so that a fleet does not speak at once.
const StatusEvery = 15 * time.Second

// SyncRequest asks for a fresh heartbeat.
type SyncRequest struct {
	Nonce string `json:"nonce"` // random; the answer must carry it
}

// Sidecar says who speaks. Nothing of it is verified beyond what the NATS permissions enforce.
type Sidecar struct {
	Instance  string   `json:"instance"` // random per process
	Pod       string   `json:"pod,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Node      string   `json:"node,omitempty"`
	Version   string   `json:"version"` // of the binary
	Tools     []string `json:"tools"`
}

// Status is a sidecar's sign of life.
type Status struct {
	Sidecar
	Revision uint64      `json:"revision"` // of the log, as verified and in force there
	Head     ledger.Hash `json:"head"`
	Refused  ledger.Kind `json:"refused,omitempty"` // the last refusal that still stands, such as fork or rollback
	Running  []Running   `json:"running"`           // at most 100 rows, the busiest first
	Leaving  bool        `json:"leaving,omitempty"` // it drains; no acknowledgement is to be waited for

	// Proof goes with Refused when that is rollback, fork or other_log: the newest Entry, Checkpoint or Heartbeat of the log
	// that the sidecar follows, as it was signed. The control plane takes no sidecar's word for it that its store has lost
	// entries, since that stops all writing.
	Proof []byte `json:"proof,omitempty"`
}

// Running counts calls that run now.
type Running struct {
	Tool   string `json:"tool"`
	Tenant string `json:"tenant,omitempty"`
	Calls  int    `json:"calls"`
}

// Ack says that the entries up to Revision are in force. It is sent once for each entry that was applied.
type Ack struct {
	Sidecar
	Revision uint64        `json:"revision"`
	Head     ledger.Hash   `json:"head"`
	Cut      int           `json:"cut"`       // running calls that were ended
	EffectIn time.Duration `json:"effect_ns"` // from receipt to effect
}

// Probe asks how many running calls a selector would cut. Signed by nobody: the answer is a count.
type Probe struct {
	ID       string          `json:"id"`
	Selector ledger.Selector `json:"selector"`
}

// Answer is one sidecar's answer to a Probe. A sidecar that runs no covered tool and no covered call answers too.
type Answer struct {
	Sidecar
	ID    string `json:"id"`
	Calls int    `json:"calls"`
}
