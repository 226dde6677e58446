package signals

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/killswitch"
)

// Request asks for one revocation.
type Request struct {
	ID       string // at most 64 bytes; the same event always has the same
	Selector killswitch.Selector
	Reason   string    // at most 512 bytes; callers may read it
	By       string    // "signals:" or "alerts:" and the configured name of the sender
	Ticket   string    // what the sender calls the event; at most 256 bytes
	Expires  time.Time // zero: until restored
}

// Revoker makes revocations rule; the control plane is one. Both methods return nil once the effect is durable, also when it was
// so before: they are idempotent by id. A request that was revoked and restored stays restored. Errors: ErrTaken, ErrUnknown (of
// Restore), ErrRefused; any other means that the same call may succeed later.
type Revoker interface {
	Revoke(ctx context.Context, r Request) error
	Restore(ctx context.Context, id, by, reason string) error
}

// Errors of a Revoker that repeating does not mend, to be tested with errors.Is.
var (
	ErrTaken   = errors.New("the id was used for another revocation")
	ErrUnknown = errors.New("there is no such revocation")
	ErrRefused = errors.New("the revocation is not accepted")
)
