package config

import (
	"net/netip"
	"time"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch/ledger"
	"github.com/toolgate/toolgate/redact"
)

// Mode says whether policy alone denies.
type Mode string

// The modes. Report decides and records, and lets pass what the egress policy alone would deny.
const (
	Enforce Mode = "enforce"
	Report  Mode = "report"
)

// Snapshot is one valid configuration. It is never changed after Load returned it.
type Snapshot struct {
	Revision   string   // 12 hex digits of the SHA-256 over every file read; the policy revision
	Files      []string // for watching, absolute: every file read, the config's first, then the patterns of manifests
	Mode       Mode
	Listeners  []Listener
	Fence      Fence
	Admin      string // "host:port"; empty: no admin listener
	Tools      map[string]*Tool
	Identity   Identity
	Bindings   []broker.Binding
	Egress     Egress
	Intercept  Intercept
	InTunnel   bool // denials.inTunnel
	KillSwitch KillSwitch
	Audit      Audit
	Log        Log
	Limits     Limits
	Defaults   []Problem // risky defaults that were filled in, and other warnings
}

// The kinds of listener. An explicit one is an HTTP proxy; to a transparent one connections are redirected; a DNS one answers
// for the names that its tool may reach.
const (
	Explicit    = "explicit"
	Transparent = "transparent"
	DNS         = "dns"
)

// Listener is one proxy port.
type Listener struct {
	Name      string
	Kind      string   // Explicit, Transparent or DNS
	Address   string   // "host:port"; the host must be an address
	Tool      string   // the one tool of this listener, or
	Tools     []string // several, chosen by the user name of Proxy-Authorization
	TokenFile string   // the caller's token when the client gives none
}

// Whose rules fence the pod's network in.
const (
	FenceNetinit  = "netinit"
	FenceExternal = "external"
)

// Fence is what the sidecar may expect of the network around it.
type Fence struct {
	Rules     string // FenceNetinit, FenceExternal, or empty: none are expected
	ProbePort uint16
}

// Identity is whom the sidecar believes.
type Identity struct {
	Required          bool // default true
	Issuers           []identity.Issuer
	Digest            string // equal for two snapshots that believe the same issuers under the same roots
	WorkloadTokenFile string
}

// Egress is what holds for every tool.
type Egress struct {
	Resolver       string // "ip:port" or empty
	Exempt         []egress.Exemption
	Cluster        []netip.Prefix
	AllowECH       bool   // relay TLS whose server name is encrypted
	UpstreamCAFile string // added to the system's roots
	UpstreamProxy  UpstreamProxy
}

// UpstreamProxy is the HTTP proxy by which every upstream is reached. The zero value is none: upstreams are reached directly.
type UpstreamProxy struct {
	Host            string // canonical
	Port            uint16
	CredentialsFile string // with one line user:password; empty: none are sent
}

// Intercept is how TLS is terminated.
type Intercept struct {
	CACertFile, CAKeyFile string           // both or neither; neither: made at start
	CAOutFile             string           // where the CA's certificate is written
	Targets               []egress.Pattern // intercepted though no binding or rule asks for it
}

// KillSwitch is where revocations come from.
type KillSwitch struct {
	File     string // empty: no file source
	NATS     NATS
	MaxStale time.Duration
	// StaleRisks are denied after it, beside high and critical.
	StaleRisks []string
	StateDir   string
}

// NATS is the bus to the control plane.
type NATS struct {
	Servers         []string // empty: no control plane
	Keys            ledger.Keys
	CredentialsFile string
	CAFile          string
}

// Audit is where records go.
type Audit struct {
	Output string // "stdout", "stderr" or a file's path
	Chain  bool
}

// Log is what the sidecar prints about itself, on stderr.
type Log struct {
	Level    string // debug, info, warn, error
	Format   string // json or text
	Payloads bool   // print each call's headers and JSON body, redacted
}

// Limits bound what a tool or an upstream can take. Zero values never occur in a Snapshot.
type Limits struct {
	MaxConnections                            int // of one listener
	MaxTunnelsPerTool                         int
	MaxTunnelsPerTenant, MaxRequestsPerTenant int
	MaxTunnels                                int
	MaxHeaderBytes                            int
	HeaderTimeout                             time.Duration
	DialTimeout                               time.Duration
	IdleTimeout                               time.Duration
	Drain                                     time.Duration
}

// Tool is one manifest, ready to use.
type Tool struct {
	Name, Owner, Version, Description string
	Risk                              string
	CapabilityClasses                 []string
	RequiredScopes                    []string
	Roles                             []string // permissions.roles; empty: any
	SideEffects                       string
	IdempotencyRequired               bool
	ApprovalRequired                  bool
	ApprovalRequiredFor               []string
	Timeout                           time.Duration
	InputSchemaRef, OutputSchemaRef   string
	InputFields                       []string // property names of the input schema, where its file is at hand
	Policy                            *egress.Policy
	AllowPrivateNetwork               bool
	RequiredTraceFields               []string
	RedactFields                      []string
	Scrubber                          *redact.Scrubber // of RedactFields
}

// SideEffecting reports whether the tool changes something outside.
func (t *Tool) SideEffecting() bool { return t.SideEffects != "none" }
