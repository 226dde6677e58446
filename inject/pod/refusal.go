package pod

import "fmt"

// Reason is why a pod is refused: a closed set, fit for a metric's label.
type Reason string

// The reasons. docs/kubernetes.md explains each.
const (
	ReservedID     Reason = "reserved_id"     // the sidecar's user or group id elsewhere
	ReservedSecret Reason = "reserved_secret" // the sidecar's Secret or token handed to a tool
	SharedID       Reason = "shared_id"       // one user id for two tools
	Privilege      Reason = "privilege"       // what would let a container leave
	HostNamespace  Reason = "host_namespace"  // a namespace of the host's or shared by all containers
	NameTaken      Reason = "name_taken"      // a container, volume, path or port of ours is the user's
	BadAnnotation  Reason = "bad_annotation"  // an annotation of ours that is unknown or says nothing
	NoTool         Reason = "no_tool"         // no tool is named for any container
	ForbiddenTool  Reason = "forbidden_tool"  // a tool that the namespace does not allow
	UnknownTool    Reason = "unknown_tool"    // no manifest, or one that cannot be used
	OptOut         Reason = "opt_out"         // the pod asks not to be injected
	Unfenced       Reason = "unfenced"        // in mode explicit, where the settings want the fence
	Resolution     Reason = "resolution"      // names that the pod's author would resolve
	Volume         Reason = "volume"          // a volume that the node mounts over the network
	ProbeHost      Reason = "probe_host"      // a probe or hook by which the node asks another host
	OtherMesh      Reason = "other_mesh"      // another sidecar captures connections as well
	TooLarge       Reason = "too_large"       // the config does not fit
	Unsupported    Reason = "unsupported"     // a kind of pod that cannot be injected
)

// Refusal is the error of Mutate for what the pod's author can mend.
type Refusal struct {
	Reason  Reason
	Message string // begins "toolgate: ", and says what to change
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, "toolgate: " + fmt.Sprintf(format, args...)}
}

// warnf tells the pod's author something, once.
func (in *injection) warnf(format string, args ...any) {
	in.warnings = append(in.warnings, "toolgate: "+fmt.Sprintf(format, args...))
}
