package pod

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/toolgate/toolgate/inject/settings"
)

const (
	configVariable = "TOOLGATE_CONFIG"
	configSource   = "env:" + configVariable
	memoryVariable = "TOOLGATE_MEMORY_LIMIT" // in bytes; the sidecar keeps nine tenths of it
)

// sidecar is the proxy. What the API server would fill in is said here, so that a second call changes nothing.
func (in *injection) sidecar(config string, resources corev1.ResourceRequirements) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	p := in.settings.Probes
	c := in.ours(SidecarContainer, in.settings.SidecarImage, config, resources)
	c.Args = []string{"run", "--config", configSource}
	c.RestartPolicy = &always
	c.Ports = []corev1.ContainerPort{{Name: "toolgate-admin", ContainerPort: PortAdmin, Protocol: corev1.ProtocolTCP}}
	c.Env = append(c.Env,
		corev1.EnvVar{Name: memoryVariable, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: SidecarContainer, Resource: "limits.memory", Divisor: resource.MustParse("0"),
		}}},
		downward("POD_NAME", "metadata.name"), downward("POD_NAMESPACE", "metadata.namespace"), downward("POD_UID", "metadata.uid"),
		downward("NODE_NAME", "spec.nodeName"), downward("SERVICE_ACCOUNT", "spec.serviceAccountName"))
	c.StartupProbe = probe("/readyz", p.StartupPeriodSeconds, p.StartupFailures, p.TimeoutSeconds)
	c.ReadinessProbe = probe("/readyz", p.ReadinessPeriodSeconds, 3, p.TimeoutSeconds)
	c.LivenessProbe = probe("/healthz", p.LivenessPeriodSeconds, p.LivenessFailures, p.TimeoutSeconds)
	c.VolumeMounts = append([]corev1.VolumeMount{{Name: VolumeCA, MountPath: DirCA}, {Name: VolumeCAKey, MountPath: DirCAKey}}, c.VolumeMounts...)
	return c
}

// fence writes the rules and ends. It reads the same config, whose files must be there.
func (in *injection) fence(config string) (corev1.Container, error) {
	r := in.settings.FenceResources
	resources, err := requirements(r)
	if err != nil {
		return corev1.Container{}, err
	}
	c := in.ours(FenceContainer, in.settings.FenceImage, config, resources)
	c.Args = append([]string{"netinit", "--config", configSource}, in.fenceArgs()...)
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	return c, nil
}

// fenceArgs name who may go where.
func (in *injection) fenceArgs() []string {
	args := []string{"--proxy-uid", strconv.FormatInt(in.settings.UID, 10)}
	named := map[int64]bool{}
	for _, c := range in.containers() {
		id, tool := in.plan.uid[c.Name], in.plan.of[c.Name]
		if tool != "" && !named[id] {
			named[id] = true
			args = append(args, "--tool-uid", fmt.Sprintf("%d=%s", id, in.listener(settings.Transparent, tool)))
		}
	}
	for _, l := range in.plan.loopback {
		args = append(args, "--loopback", fmt.Sprintf("%d=%d:%d", in.plan.uid[l.from], in.plan.uid[l.to], l.port))
	}
	if !in.settings.IPv6 {
		args = append(args, "--ipv4-only")
	}
	return args
}

// ours is what both containers of ours have.
func (in *injection) ours(name, image, config string, resources corev1.ResourceRequirements) corev1.Container {
	yes, no, id := true, false, in.settings.UID
	if prefix := in.settings.SidecarRegistryPrefix; prefix != "" {
		image = prefix + "/" + image
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullPolicy(in.settings.ImagePullPolicy), Resources: resources,
		Env: []corev1.EnvVar{{Name: configVariable, Value: config}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: VolumeState, MountPath: DirState},
			{Name: VolumeToken, MountPath: DirToken, ReadOnly: true},
			{Name: VolumeSecrets, MountPath: DirSecrets, ReadOnly: true},
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &id, RunAsGroup: &id, RunAsNonRoot: &yes, Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func downward(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func probe(path string, period, failures, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(PortAdmin), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: timeout, SuccessThreshold: 1,
	}
}

// resources are the settings' with what the pod's annotations say instead.
func (in *injection) resources() (corev1.ResourceRequirements, error) {
	r := in.settings.Resources
	for _, a := range []struct {
		key string
		to  *string
	}{
		{AnnotationCPURequest, &r.CPURequest}, {AnnotationCPULimit, &r.CPULimit},
		{AnnotationMemoryRequest, &r.MemoryRequest}, {AnnotationMemoryLimit, &r.MemoryLimit},
	} {
		v, there, err := in.annotation(a.key)
		if err != nil {
			return corev1.ResourceRequirements{}, err
		}
		if !there {
			continue
		}
		if q, err := resource.ParseQuantity(v); err != nil || q.Sign() <= 0 {
			return corev1.ResourceRequirements{}, refuse(BadAnnotation, "the annotation %s is %q: set it to a quantity above 0 such as 100m or 64Mi", a.key, v)
		}
		*a.to = v
	}
	out, err := requirements(r)
	if err != nil {
		return out, err
	}
	for name, limit := range out.Limits {
		if request := out.Requests[name]; request.Cmp(limit) > 0 {
			return out, refuse(BadAnnotation, "the sidecar's %s request, %s, is above its limit, %s: set both of the annotations %s%s-request and -limit",
				name, request.String(), limit.String(), Prefix, name)
		}
	}
	return out, nil
}

func requirements(r settings.Resources) (corev1.ResourceRequirements, error) {
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, q := range []struct {
		list corev1.ResourceList
		name corev1.ResourceName
		text string
	}{
		{out.Requests, corev1.ResourceCPU, r.CPURequest}, {out.Limits, corev1.ResourceCPU, r.CPULimit},
		{out.Requests, corev1.ResourceMemory, r.MemoryRequest}, {out.Limits, corev1.ResourceMemory, r.MemoryLimit},
	} {
		v, err := resource.ParseQuantity(q.text)
		if err != nil {
			return out, fmt.Errorf("settings: resources: found %q, expected a quantity: %w", q.text, err)
		}
		q.list[q.name] = v
	}
	return out, nil
}
