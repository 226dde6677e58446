package pod

import (
	"encoding/json"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultContainer is read by kubectl logs and exec.
const defaultContainer = "kubectl.kubernetes.io/default-container"

func (in *injection) volumes() []corev1.Volume {
	ca, key, state, mode, yes := resource.MustParse("4Mi"), resource.MustParse("1Mi"), resource.MustParse("64Mi"), int32(0o644), true
	return []corev1.Volume{
		{Name: VolumeCA, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &ca}}},
		{Name: VolumeCAKey, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &key}}},
		{Name: VolumeState, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &state}}},
		{Name: VolumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: in.tokens()}}},
		{Name: VolumeSecrets, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: in.settings.SecretName, DefaultMode: &mode, Optional: &yes}}},
	}
}

// tokenSeconds is how long a projected token lasts. The kubelet replaces it in good time; the API server refuses less than 600.
const tokenSeconds = 3600

// tokens are the pod's own identity, one for each who asks for it, and the roots of the cluster's API.
func (in *injection) tokens() []corev1.VolumeProjection {
	token := func(audience, file string) corev1.VolumeProjection {
		seconds := int64(tokenSeconds)
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: audience, ExpirationSeconds: &seconds, Path: path.Base(file),
		}}
	}
	out := []corev1.VolumeProjection{token(in.settings.TokenAudience, FileToken)}
	if len(in.settings.KillSwitch.Servers) > 0 {
		out = append(out, token(in.settings.KillSwitch.Audience, FileKillSwitch))
	}
	if in.settings.Gateway.Address != "" {
		out = append(out, token(in.settings.Gateway.Audience, FileGateway))
	}
	if in.keysFromAPI() {
		out = append(out, token("", FileAPIToken)) // without an audience it is the API server's
	}
	return append(out, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: path.Base(FileClusterCA)}},
	}})
}

// Status is what the annotation toolgate/status says of an injection.
type Status struct {
	Version    string            `json:"version"` // of this form: v1
	Mode       string            `json:"mode"`
	Containers map[string]string `json:"containers"` // those with a tool: container to tool
	Settings   string            `json:"settings"`   // revision of the settings
}

// mark says on the pod what was done.
func (in *injection) mark() {
	p := in.pod
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	status, err := json.Marshal(Status{Version: "v1", Mode: string(in.plan.mode), Containers: in.plan.of, Settings: in.settings.Revision})
	if err != nil {
		panic(err) // strings alone
	}
	p.Annotations[StatusKey], p.Labels[LabelInjected] = string(status), "true"
	if p.Annotations[defaultContainer] == "" {
		p.Annotations[defaultContainer] = in.firstTool()
	}
}

// firstTool is the container that people mean: the first main one with a tool.
func (in *injection) firstTool() string {
	for _, c := range in.pod.Spec.Containers {
		if in.plan.of[c.Name] != "" {
			return c.Name
		}
	}
	return in.pod.Spec.Containers[0].Name
}
