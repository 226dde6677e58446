package settings

// Settings is one installation's way of injecting, checked and with its defaults in place. It is not changed after Load, so that
// calls may share it. Its tags are the keys of the file.
type Settings struct {
	// APIVersion is toolgate/v1 and Kind is Injector; both are required.
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`

	// SidecarImage and FenceImage are references such as toolgate/sidecar@sha256:…; both are required. The second is the same
	// binary with the file capability cap_net_admin+ep.
	SidecarImage string `yaml:"sidecarImage"`
	FenceImage   string `yaml:"fenceImage"`
	// SidecarRegistryPrefix is put before both images, with a slash: a mirror. Default: none.
	SidecarRegistryPrefix string `yaml:"sidecarRegistryPrefix"`
	// ImagePullPolicy is Always, IfNotPresent or Never. Default: IfNotPresent.
	ImagePullPolicy string `yaml:"imagePullPolicy"`

	// Mode is of pods that do not name one. Default: explicit.
	Mode Mode `yaml:"mode"`
	// RequireFence has pods in mode explicit refused, so that no annotation takes a tool out of the fence. Default: false.
	RequireFence bool `yaml:"requireFence"`
	// UID is the sidecar's user and group id, which nothing else in the pod may have. Default: 64117.
	UID int64 `yaml:"uid"`
	// ToolUID is the first of the ids that containers without one get in transparent mode. Default: 64200.
	ToolUID int64 `yaml:"toolUID"`
	// IPv6 makes transparent listeners listen for both families. Default: true. False where nodes have no IPv6 at all: nothing
	// passes over it.
	IPv6 bool `yaml:"ipv6"`

	// RequireAllowedTools has a namespace without the annotation toolgate/allowed-tools allow no tool. Default: false, any tool.
	RequireAllowedTools bool `yaml:"requireAllowedTools"`
	// UnknownPodFields says what becomes of a pod with a field that this version does not know. Default: refuse.
	UnknownPodFields UnknownFields `yaml:"unknownPodFields"`

	// Resources are the sidecar's; a pod's annotations win. FenceResources are those of the init container that writes the rules.
	Resources      Resources `yaml:"resources"`
	FenceResources Resources `yaml:"fenceResources"`
	Probes         Probes    `yaml:"probes"`

	// TokenAudience is of the pod's projected token, by which the sidecar knows the caller. Default: toolgate.
	TokenAudience string  `yaml:"tokenAudience"`
	Cluster       Cluster `yaml:"cluster"`
	// SecretName is a Secret of the pod's own namespace, mounted for the sidecar alone, for bindings with files. It may be missing.
	// Default: toolgate-secrets.
	SecretName string `yaml:"secretName"`

	CA             CA             `yaml:"ca"`
	ProxyVariables ProxyVariables `yaml:"proxyVariables"`
	// Passthrough are hosts that pods may ask not to have intercepted. Default: none, so that no pod may.
	Passthrough []string `yaml:"passthrough"`

	KillSwitch KillSwitch `yaml:"killSwitch"`
	Gateway    Gateway    `yaml:"gateway"`

	// ToolsDir holds manifests as files NAME.yaml, for `injector serve` and `injector mutate`. Default: /etc/toolgate/tools.
	ToolsDir string `yaml:"toolsDir"`
	// SidecarConfig is the base of every sidecar's config: the mapping of docs/config.md, without listeners and manifests.
	SidecarConfig map[string]any `yaml:"sidecarConfig"`

	// Revision is 12 hex digits of a hash of the file, for the status that a pod carries.
	Revision string `yaml:"-"`
}

// Mode is how a pod's tools reach the sidecar.
type Mode string

// The modes.
const (
	Explicit    Mode = "explicit"    // by proxy variables; whoever ignores them is not kept in
	Transparent Mode = "transparent" // the fence redirects every connection
)

// UnknownFields is what becomes of a pod with a field that is newer than this version, such as one that an API server fills in after an
// upgrade of the cluster.
type UnknownFields string

// What becomes of such a pod.
const (
	RefuseUnknown UnknownFields = "refuse" // the field could open a way past the sidecar
	WarnUnknown   UnknownFields = "warn"   // the field stays as it is, and whoever creates the pod is told
)

// Resources are quantities of Kubernetes. All four are always set: a quota demands limits, and a LimitRange would fill them in.
type Resources struct {
	CPURequest    string `yaml:"cpuRequest"`
	CPULimit      string `yaml:"cpuLimit"`
	MemoryRequest string `yaml:"memoryRequest"`
	MemoryLimit   string `yaml:"memoryLimit"`
}

// Probes are of the sidecar's own port. The kubelet asks; tools start once startup has passed.
type Probes struct {
	StartupPeriodSeconds   int32 `yaml:"startupPeriodSeconds"`   // default 1
	StartupFailures        int32 `yaml:"startupFailures"`        // default 120
	ReadinessPeriodSeconds int32 `yaml:"readinessPeriodSeconds"` // default 5
	LivenessPeriodSeconds  int32 `yaml:"livenessPeriodSeconds"`  // default 10
	LivenessFailures       int32 `yaml:"livenessFailures"`       // default 6
	TimeoutSeconds         int32 `yaml:"timeoutSeconds"`         // default 2, of one answer
}

// Cluster says who issues the pods' own tokens.
type Cluster struct {
	Issuer  string `yaml:"issuer"`  // exact iss; default https://kubernetes.default.svc
	JWKSURL string `yaml:"jwksURL"` // default https://kubernetes.default.svc/openid/v1/jwks
}

// CA says how tools come to trust the sidecar.
type CA struct {
	// SystemBundle mounts the bundle over the file of roots that most images have, in containers that mount nothing there. Default:
	// true.
	SystemBundle bool `yaml:"systemBundle"`
	// Extra are PEM certificates of other roots, such as a company's, that go into the bundle as well.
	Extra string `yaml:"extra"`
	// Java makes every pod's tools get a trust store as if they had the annotation toolgate/java. Default: false.
	Java bool `yaml:"java"`
}

// ProxyVariables are of tools in explicit mode.
type ProxyVariables struct {
	// Enabled sets HTTP_PROXY and its kin. Default: true.
	Enabled bool `yaml:"enabled"`
	// NoProxy are entries beside loopback and the cluster's API.
	NoProxy []string `yaml:"noProxy"`
}

// KillSwitch is the fleet's control plane, from which every sidecar takes revocations. Without servers there is none.
type KillSwitch struct {
	Servers        []string `yaml:"servers"`        // NATS URLs
	PublicKeyFile  string   `yaml:"publicKeyFile"`  // with the control plane's public key, read by the injector
	CAFile         string   `yaml:"caFile"`         // PEM roots of servers and credentialsURL, read by the injector
	CredentialsURL string   `yaml:"credentialsURL"` // where a sidecar gets NATS credentials for its token
	Audience       string   `yaml:"audience"`       // of that token; default toolgate-killswitch

	PublicKey string `yaml:"-"` // contents of PublicKeyFile
	CA        string `yaml:"-"` // contents of CAFile
}

// Gateway is the egress gateway that sidecars chain to. Without an address there is none.
type Gateway struct {
	Address    string `yaml:"address"`    // host:port; the host is looked up as it is, without search domains
	ServerName string `yaml:"serverName"` // in the gateway's certificate; empty: the host of Address
	CAFile     string `yaml:"caFile"`     // PEM roots of the gateway, read by the injector
	// Audience is of the pod's projected token for the gateway. Default: toolgate-gateway.
	Audience string `yaml:"audience"`

	CA string `yaml:"-"` // contents of CAFile
}
