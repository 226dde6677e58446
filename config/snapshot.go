package config

import (
	"crypto/x509"
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
	Gateway    GatewayPeers
	Admin      string // "host:port"; empty: no admin listener
	Tools      map[string]*Tool
	Identity   Identity
	Bindings   []broker.Binding
	Egress     Egress
	Intercept  Intercept
	InTunnel   bool // denials.inTunnel
	KillSwitch KillSwitch
	Audit      Audit
	Tracing    Tracing
	Log        Log
	Limits     Limits
	Notes      []Problem // what presets have filled in
	Defaults   []Problem // risky defaults that were filled in, and other warnings
}

// The kinds of listener. An explicit one is an HTTP proxy; to a transparent one connections are redirected; a DNS one answers
// for the names that its tool may reach. To a gateway come the tunnels of sidecars.
const (
	Explicit    = "explicit"
	Transparent = "transparent"
	DNS         = "dns"
	Gateway     = "gateway"
)

// Listener is one proxy port.
type Listener struct {
	Name      string
	Kind      string   // Explicit, Transparent, DNS or Gateway
	Address   string   // "host:port"; the host must be an address
	Tool      string   // the one tool of this listener, or
	Tools     []string // several, chosen by the user name of Proxy-Authorization
	TokenFile string   // the caller's token when the client gives none

	CertFile, KeyFile string // of a Gateway; else empty
}

// GatewayPeers is who may come to a gateway. The zero value is nobody.
type GatewayPeers struct {
	ClientCAs *x509.CertPool   // nil: no certificate is accepted
	Tokens    *identity.Issuer // nil: no token is accepted
	Digest    string           // equal for two snapshots with the same Tokens under the same roots
	Workloads []Workload
}

// Workload is who may speak for which tools and for callers of which tenants.
type Workload struct {
	IDs     []identity.WorkloadPattern
	Tools   []string
	Tenants []string // empty: any
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
	Gateway        GatewayWay
}

// GatewayWay is the egress gateway by which every upstream is reached. The zero value is none.
type GatewayWay struct {
	Host              string // canonical
	Port              uint16
	ServerName        string         // that its certificate must have
	Roots             *x509.CertPool // nil: the system's
	CertFile, KeyFile string         // of the workload; both or neither
	TokenFile         string         // of the workload; empty beside a certificate
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
	CAStateDir            string           // where one made at start is kept for the next start; empty: nowhere
	CAOutFile             string           // where the CA's certificate is written
	BundleOutFile         string           // where it is written behind all others that a tool is to trust, in PEM
	TrustStoreFile        string           // where the same are written as a trust store for Java
	ExtraCAs              [][]byte         // further CAs that tools and the sidecar trust for upstreams, in DER
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
	Servers         []string    // empty: no control plane
	Keys            ledger.Keys // may change while the sidecar runs
	CredentialsFile string
	CredentialsURL  string // in place of CredentialsFile, with TokenFile
	TokenFile       string
	CAFile          string
	CA              string // in place of CAFile: PEM text
}

// Audit is where records go.
type Audit struct {
	Output         string // "stdout", "stderr" or a file's path
	Chain          bool
	SigningKeyFile string // empty: no checkpoints
	Records        int    // between checkpoints
	Interval       time.Duration
	MaxBytes       int64 // of the file; 0: it is never renamed
	Keep           int   // renamed files
	OTLP           AuditOTLP
	Capture        Capture
}

// AuditOTLP is the collector that is sent a copy of each line of records.
type AuditOTLP struct {
	Endpoint            string // http or https URL; empty: none, and the rest is of no account
	Protocol            string // "http/protobuf" or "grpc"
	CAFile, HeadersFile string // empty: the system's roots, no headers
	SpoolBytes          int    // of memory for lines that wait, where the output is no file
}

// Capture is which calls are written as fixtures. The zero value is none.
type Capture struct {
	Dir                      string // a path; empty: nothing is captured
	Tools                    []string
	MaxBodyBytes, MaxEntries int
	MaxFileBytes             int64
}

// Tracing is where the traces of calls go.
type Tracing struct {
	Endpoint            string // http or https URL; empty: nothing is traced, and the rest is of no account
	Protocol            string // "http/protobuf" or "grpc"
	CAFile, HeadersFile string // empty: the system's roots, no headers
	SampleRatio         float64
	MaxPerSecond        int // of each tool
	Propagate           []egress.Pattern
}

// Log is what the sidecar prints about itself, on stderr.
type Log struct {
	Level    string // debug, info, warn, error
	Format   string // json or text
	Payloads bool   // print headers and body of each call's request and response, redacted
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
