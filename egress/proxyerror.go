package egress

import (
	"strconv"
	"time"
)

// ProxyReason says why the upstream proxy gave no connection.
type ProxyReason string

// The reasons of a ProxyError. They are a closed set.
const (
	ProxyUnreachable ProxyReason = "cannot be reached"
	ProxyCredentials ProxyReason = "cannot be given credentials"
	ProxyAuth        ProxyReason = "does not accept the credentials"
	ProxyRefused     ProxyReason = "refused to connect"
	ProxyMalformed   ProxyReason = "gave no valid answer"
	ProxyTLS         ProxyReason = "has no acceptable certificate or TLS"
)

// ProxyError says that the upstream proxy, or the egress gateway, gave no connection to a target. Its text holds nothing of what
// that wrote
// but its status, and no credential.
type ProxyError struct {
	Reason     ProxyReason
	Status     int // what the proxy answered; 0 without a valid answer
	Gateway    bool
	Code       string        // of a gateway's refusal, in the form of a code; empty: it gave none
	ID         string        // of the gateway's decision
	RetryAfter time.Duration // what a gateway asks for; 0: nothing
	Err        error         // what broke, nil after a valid answer; a timeout can be told by it. Not for the tool: it may name addresses
}

// Error names the reason.
func (e *ProxyError) Error() string {
	who := "the upstream proxy "
	if e.Gateway {
		who = "the egress gateway "
	}
	text := who + string(e.Reason)
	if e.Status != 0 {
		text += " (" + strconv.Itoa(e.Status) + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *ProxyError) Unwrap() error { return e.Err }
