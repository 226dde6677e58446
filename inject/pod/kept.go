package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// kept refuses a pod that hands a tool what is meant for the sidecar alone: its Secret, or a token by which others know the sidecar.
func (in *injection) kept() error {
	secret := in.settings.SecretName
	audiences := []string{in.settings.TokenAudience, in.settings.KillSwitch.Audience, in.settings.Gateway.Audience}
	for _, v := range in.pod.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName == secret {
			return refuse(ReservedSecret, "the volume %s is of the Secret %s, which is the sidecar's alone: keep the tool's own secrets in another", v.Name, secret)
		}
		if ref := v.CSI; ref != nil && ref.NodePublishSecretRef != nil && ref.NodePublishSecretRef.Name == secret || v.FlexVolume != nil && v.FlexVolume.SecretRef != nil && v.FlexVolume.SecretRef.Name == secret {
			return refuse(ReservedSecret, "the volume %s hands the Secret %s to its driver, which is the sidecar's alone: keep the tool's own secrets in another", v.Name, secret)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil && source.Secret.Name == secret {
				return refuse(ReservedSecret, "the volume %s has the Secret %s in it, which is the sidecar's alone: keep the tool's own secrets in another", v.Name, secret)
			}
			if t := source.ServiceAccountToken; t != nil && slices.Contains(audiences, t.Audience) {
				return refuse(ReservedSecret, "the volume %s has a token for the audience %s in it, which is the sidecar's alone: use another audience", v.Name, t.Audience)
			}
		}
	}
	for _, c := range in.containers() {
		if namesSecret(c, secret) {
			return refuse(ReservedSecret, "the container %s takes variables from the Secret %s, which is the sidecar's alone: keep the tool's own secrets in another", c.Name, secret)
		}
	}
	return nil
}

func namesSecret(c *corev1.Container, secret string) bool {
	return slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil && e.SecretRef.Name == secret }) ||
		slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == secret
		})
}
