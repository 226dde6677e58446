package audit

import "time"

// KindIntent is a record of a call that is about to be made: all that is known of it before anything of it leaves.
const KindIntent = "intent"

// Version of the record's schema.
const Version = 1

// Record is the audit entry of one call, one JSON line: flat, canonical (RFC 8785 key order), in snake case. Times are
// RFC 3339 in UTC with milliseconds, durations milliseconds as numbers, absent values left out. Texts are cut at 1,024
// bytes and lists at 64 entries or 16 KiB.
type Record struct {
	ID   string    // UUIDv7; the decision_id of a denial
	Time time.Time // when the call began
	Kind string    // "request" or "tunnel"; KindIntent before it is made

	Listener                                  string
	Issuer, Tenant, Subject, Agent, Task, Run string
	Tool, ToolVersion, Risk                   string
	CapabilityClasses                         []string
	SideEffects                               string // of the tool's manifest
	ApprovalRequired                          bool   // the tool's manifest says so; whether it was given is not known here
	RunClassesBefore                          []string

	Decision       string // "allow" or "deny"
	Code           string // of a denial, or of how an allowed call ended badly: revoked, upstream_unreachable, …
	Reason         string // why a token was not accepted: one of the words of identity.InvalidError
	Rule           string
	PolicyRevision string
	Mode           string // "enforce" or "report"

	Scheme, Host string
	Port         uint16
	Method       string
	Path         string // template of the rule that matched, else a keyed hash; never the path
	Status       int    // sent to the tool; 0: none
	ErrorClass   string // closed set: "", "dial", "tls", "timeout", "upstream_protocol", "client_gone", "cut", "panic", …
	Intercepted  bool

	Total, PolicyTime, CredentialTime, UpstreamTime time.Duration // UpstreamTime: until the response's header
	IntentTime                                      time.Duration // until the intent was safe
	BytesOut, BytesIn                               int64         // to and from the upstream, bodies or tunnel bytes
	DialAttempts                                    int
	Attempt                                         int // of the request that was answered; 0: the only one

	CredentialBinding, CredentialKind, CredentialAudience string
	CredentialScopes                                      []string
	CredentialExpires                                     time.Time

	IdempotencyKey  string // keyed hash of the header of that name
	InputType       string // media type of the request's body
	InputShape      []string
	RedactionStatus string // of the bodies in the log: "none", "redacted", "partial" or "failed_closed"; "": none was logged
	RedactionCounts map[string]int
	RedactionRules  string // name and version of the rules for vendors' tokens
	RedactionCut    bool   // the log has only the beginning of a body

	RevocationID string

	GatewayDecisionID string // of a sidecar's call: what the egress gateway's own record of its way out has as id
	SidecarDecisionID string // of a gateway's tunnel: the id of the sidecar's call that asked for it
	Workload          string // who came to a gateway for the caller
	TraceID, SpanID   string // of a W3C traceparent that the tool sent; TraceID of a traced call is that of its trace in any case
	CallSpanID        string // of the span that a traced call has of its own
}
