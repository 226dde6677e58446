package pod

// Names of ours in Kubernetes objects. Other packages and the chart go by them.
const (
	Prefix = "toolgate/" // of every label and annotation

	NamespaceInject = Prefix + "inject" // label of a namespace: Enabled
	NamespaceTool   = Prefix + "tool"   // label of a namespace: the default tool of its pods
	// NamespaceAllowed is an annotation of a namespace: the tools that its pods may name, separated by commas.
	NamespaceAllowed = Prefix + "allowed-tools"
	LabelInjected    = Prefix + "injected" // label of an injected pod: "true"
	StatusKey        = Prefix + "status"   // annotation of an injected pod: Status as JSON
	Enabled          = "enabled"

	SidecarContainer = "toolgate"
	FenceContainer   = "toolgate-fence"

	VolumeCA      = "toolgate-ca"
	VolumeCAKey   = "toolgate-ca-key"
	VolumeState   = "toolgate-state"
	VolumeToken   = "toolgate-token"
	VolumeSecrets = "toolgate-secrets"
)

// Annotations that a pod's author may set. docs/kubernetes.md has the table.
const (
	AnnotationTool          = Prefix + "tool"
	AnnotationTools         = Prefix + "tools"
	AnnotationMode          = Prefix + "mode"
	AnnotationCPURequest    = Prefix + "cpu-request"
	AnnotationCPULimit      = Prefix + "cpu-limit"
	AnnotationMemoryRequest = Prefix + "memory-request"
	AnnotationMemoryLimit   = Prefix + "memory-limit"
	AnnotationPassthrough   = Prefix + "passthrough-hosts"
	AnnotationJava          = Prefix + "java"
	AnnotationLoopback      = Prefix + "loopback"
)

// Places in containers.
const (
	DirCA      = "/var/run/toolgate/ca"      // in every container
	DirToken   = "/var/run/secrets/toolgate" // in the sidecar alone, as are those below
	DirState   = "/var/lib/toolgate"
	DirCAKey   = "/var/lib/toolgate-ca" // not even in the fence
	DirSecrets = "/etc/toolgate/secrets"

	FileBundle     = DirCA + "/ca-bundle.pem" // public roots, others', and the pod's CA
	FileCA         = DirCA + "/ca.pem"        // the pod's CA alone
	FileTrustStore = DirCA + "/truststore.p12"
	FileToken      = DirToken + "/token"
	FileKillSwitch = DirToken + "/killswitch-token"
	FileGateway    = DirToken + "/gateway-token"
	FileAPIToken   = DirToken + "/api-token" // for the cluster's keys
	FileClusterCA  = DirToken + "/ca.crt"

	// SystemBundle is where most images have their roots (Debian, Ubuntu, Alpine).
	SystemBundle = "/etc/ssl/certs/ca-certificates.crt"
)

// Ports of the sidecar. A tool's number, from 0, is added where there is one for each.
const (
	PortExplicit    = 15001
	PortTransparent = 15101
	PortDNS         = 15053
	PortAdmin       = 15020
	PortProbe       = 15091
)
