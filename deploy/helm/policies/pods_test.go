package policies

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

// plain has no kill switch, whose keys only a cluster has.
const plain = "killSwitch: {enabled: false}\n"

const transparent = "injection: {traffic: transparent}\n"

// chartSettings are those that the chart gives the injector.
func chartSettings(t *testing.T, docs [][]byte) *settings.Settings {
	t.Helper()
	for _, doc := range docs {
		var c corev1.ConfigMap
		if json.Unmarshal(doc, &c) == nil && c.Data["settings.yaml"] != "" {
			s, err := settings.Parse("settings.yaml", []byte(c.Data["settings.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatal("the chart has no settings")
	return nil
}

// injected is what the injector makes of a pod with the chart's own settings.
func injected(t *testing.T, docs [][]byte, spec, mode string) *corev1.Pod {
	t.Helper()
	s := chartSettings(t, docs)
	var p corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	p.Name, p.Annotations = "x", map[string]string{"toolgate/tool": "search", "toolgate/mode": mode}
	p.APIVersion, p.Kind = "v1", "Pod"
	r, err := pod.Mutate(&p, pod.Namespace{Name: "tools"}, s, func(string) ([]byte, error) { return []byte("name: search\nowner: x\nversion: \"1\"\n"), nil })
	if err != nil {
		t.Fatal(err)
	}
	return r.Pod
}

const usual = `
initContainers: [{name: prepare, image: tool:1}]
containers: [{name: tool, image: tool:1, env: [{name: A, value: b}]}, {name: second, image: tool:2, securityContext: {runAsUser: 2000, capabilities: {add: [NET_BIND_SERVICE, cap_chown]}}}]
volumes: [{name: work, emptyDir: {}}, {name: own, secret: {secretName: own}}]
`

// TestInjectedPodsPass: what the injector makes, the backstop admits, when it is made, changed and reported on.
func TestInjectedPodsPass(t *testing.T) {
	for _, values := range []string{plain, plain + transparent, plain + transparent + "fence: {require: annotated}\n", plain + "image: {registry: ''}\nsidecar: {image: {repository: s, tag: x}}\nfence: {image: {repository: f, digest: 'sha256:" + strings.Repeat("0", 64) + "'}}\n"} {
		docs := render(t, values)
		p := compile(t, docs, "fenced-pods")
		for _, mode := range []string{"explicit", "transparent"} {
			if mode == "explicit" && strings.Contains(values, transparent) && !strings.Contains(values, "annotated") {
				continue
			}
			made := injected(t, docs, usual, mode)
			for _, r := range []request{
				{operation: admission.Create, object: made},
				{operation: admission.Update, object: made, old: made},
				{operation: admission.Update, subresource: "status", object: made, old: made},
			} {
				r.kind, r.resource = "Pod", "pods"
				if refused := p.judge(t, r); refused != nil {
					t.Errorf("%s %s: %v", mode, r.operation, refused)
				}
			}
		}
	}
}

// change is something that a tenant does to an injected pod before it is admitted; the backstop has to see it if the webhook does not.
type change struct {
	name string
	do   func(*corev1.Pod)
	want string // in the sentence
}

func tool(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }

func secured(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

func ptr[T any](v T) *T { return &v }

func named(p *corev1.Pod, name string) *corev1.Container {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return &p.Spec.InitContainers[i]
		}
	}
	return nil
}

func ourVolume(p *corev1.Pod, name string) *corev1.Volume {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return &p.Spec.Volumes[i]
		}
	}
	return nil
}

const ours = 64117

func changes() []change {
	capability := func(name corev1.Capability) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			secured(tool(p)).Capabilities = &corev1.Capabilities{Add: []corev1.Capability{name}, Drop: []corev1.Capability{"ALL"}}
		}
	}
	mount := func(name string, readOnly bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			tool(p).VolumeMounts = append(tool(p).VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/x", ReadOnly: readOnly})
		}
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "mine", VolumeSource: source})
		}
	}
	token := func(audience string) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}}}}})
	}
	return []change{
		{"not injected", func(p *corev1.Pod) { p.Spec.InitContainers = nil }, "no init container"},
		{"sidecar among containers", func(p *corev1.Pod) {
			p.Spec.Containers, p.Spec.InitContainers = append(p.Spec.Containers, *named(p, "toolgate")), nil
		}, "no init container"},
		{"sidecar that ends", func(p *corev1.Pod) { named(p, "toolgate").RestartPolicy = nil }, "restartPolicy: Always"},
		{"another image", func(p *corev1.Pod) { named(p, "toolgate").Image = "ghcr.io/toolgate/sidecar-of-mine:1" }, "sidecar-of-mine"},
		{"image of a longer name", func(p *corev1.Pod) { named(p, "toolgate").Image = "ghcr.io/toolgate/sidecar/x:1" }, "expected one of"},
		{"command", func(p *corev1.Pod) { named(p, "toolgate").Command = []string{"/sidecar", "version"} }, "as the injector makes it"},
		{"arguments", func(p *corev1.Pod) { named(p, "toolgate").Args = []string{"version"} }, "as the injector makes it"},
		{"sidecar as another", func(p *corev1.Pod) { named(p, "toolgate").SecurityContext.RunAsUser = ptr[int64](1) }, "as the injector makes it"},
		{"privileged sidecar", func(p *corev1.Pod) { named(p, "toolgate").SecurityContext.Privileged = ptr(true) }, "as the injector makes it"},
		{"sidecar with a capability", func(p *corev1.Pod) {
			named(p, "toolgate").SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		}, "as the injector makes it"},
		{"something before it", func(p *corev1.Pod) {
			p.Spec.InitContainers = append([]corev1.Container{{Name: "first", Image: "x", SecurityContext: tool(p).SecurityContext}}, p.Spec.InitContainers...)
		}, "must come before first"},
		{"hostNetwork", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "hostNetwork"},
		{"hostPID", func(p *corev1.Pod) { p.Spec.HostPID = true }, "hostPID"},
		{"hostIPC", func(p *corev1.Pod) { p.Spec.HostIPC = true }, "hostIPC"},
		{"shared processes", func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr(true) }, "shareProcessNamespace"},
		{"our user", func(p *corev1.Pod) { secured(tool(p)).RunAsUser = ptr[int64](ours) }, "container tool runs as 64117"},
		{"our group", func(p *corev1.Pod) { secured(tool(p)).RunAsGroup = ptr[int64](ours) }, "container tool runs as 64117"},
		{"our user in an init container", func(p *corev1.Pod) { secured(named(p, "prepare")).RunAsUser = ptr[int64](ours) }, "container prepare runs as 64117"},
		{"our user for all", func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr[int64](ours)} }, "securityContext uses 64117"},
		{"our group for all", func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsGroup: ptr[int64](ours)} }, "securityContext uses 64117"},
		{"our group for files", func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr[int64](ours)} }, "securityContext uses 64117"},
		{"our group beside", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1, ours}}
		}, "securityContext uses 64117"},
		{"privileged", func(p *corev1.Pod) { secured(tool(p)).Privileged = ptr(true) }, "container tool is privileged"},
		{"NET_ADMIN", capability("NET_ADMIN"), "adds a capability"},
		{"net_admin", capability("net_admin"), "adds a capability"},
		{"CAP_SETUID", capability("CAP_SETUID"), "adds a capability"},
		{"ALL", capability("ALL"), "adds a capability"},
		{"a new one", capability("CHECKPOINT_RESTORE"), "adds a capability"},
		{"token of the sidecar", mount("toolgate-token", true), "mounts a volume of the sidecar"},
		{"key of the CA", mount("toolgate-ca-key", true), "mounts a volume of the sidecar"},
		{"state of the sidecar", mount("toolgate-state", true), "mounts a volume of the sidecar"},
		{"secrets of the sidecar", mount("toolgate-secrets", true), "mounts a volume of the sidecar"},
		{"CA to write", mount("toolgate-ca", false), "mounts a volume of the sidecar"},
		{"folder of the node", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}), "hostPath"},
		{"Secret by another volume", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "toolgate-secrets"}}), "for the sidecar alone"},
		{"Secret by projection", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "toolgate-secrets"}}}}}}), "for the sidecar alone"},
		{"token of the sidecar's audience", token("toolgate"), "for the sidecar alone"},
		{"token for the kill switch", token("toolgate-killswitch"), "for the sidecar alone"},
		{"token for the gateway", token("toolgate-gateway"), "for the sidecar alone"},
		{"another volume of ours", func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "toolgate-x"}) }, "for the sidecar alone"},
		{"Secret to a driver", volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "toolgate-secrets"}}}), "for the sidecar alone"},
		{"Secret to an old driver", volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: &corev1.LocalObjectReference{Name: "toolgate-secrets"}}}), "for the sidecar alone"},
		{"names of its own", func(p *corev1.Pod) {
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"api.search.example"}}}
		}, "take hostAliases"},
		{"named like a host", func(p *corev1.Pod) { p.Spec.HostnameOverride = ptr("kubernetes.default.svc") }, "hostnameOverride"},
		{"DNS of its own", func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone }, "dnsPolicy: None"},
		{"name server of its own", func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}
		}, "dnsConfig.nameservers"},
		{"search domain of its own", func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"evil.example"}} }, "and .searches"},
		{"another config for the sidecar", func(p *corev1.Pod) {
			named(p, "toolgate").Args = []string{"run", "--config", "/var/run/secrets/mine/config.yaml"}
		}, "as the injector makes it"},
		{"config from elsewhere", func(p *corev1.Pod) {
			e := &named(p, "toolgate").Env[0]
			e.Value, e.ValueFrom = "", &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "mine"}}
		}, "as the injector makes it"},
		{"variables from elsewhere", func(p *corev1.Pod) {
			named(p, "toolgate").EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
		}, "as the injector makes it"},
		{"roots for the sidecar", func(p *corev1.Pod) {
			named(p, "toolgate").Env = append(named(p, "toolgate").Env, corev1.EnvVar{Name: "SSL_CERT_FILE", Value: "/x"})
		}, "as the injector makes it"},
		{"a hook in the sidecar", func(p *corev1.Pod) {
			named(p, "toolgate").Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
		}, "as the injector makes it"},
		{"a volume in the sidecar", func(p *corev1.Pod) {
			named(p, "toolgate").VolumeMounts = append(named(p, "toolgate").VolumeMounts, corev1.VolumeMount{Name: "work", MountPath: "/etc/ssl/certs"})
		}, "as the injector makes it"},
		{"a volume over its tokens", func(p *corev1.Pod) {
			named(p, "toolgate").VolumeMounts = append(named(p, "toolgate").VolumeMounts, corev1.VolumeMount{Name: "work", MountPath: "/var/run/secrets/toolgate/token"})
		}, "as the injector makes it"},
		{"its state elsewhere", func(p *corev1.Pod) {
			for i, m := range named(p, "toolgate").VolumeMounts {
				if m.Name == "toolgate-state" {
					named(p, "toolgate").VolumeMounts[i].MountPath = "/var/run/toolgate/ca/state"
				}
			}
		}, "as the injector makes it"},
		{"a token in the CA's volume", func(p *corev1.Pod) {
			ourVolume(p, "toolgate-ca").VolumeSource = ourVolume(p, "toolgate-token").VolumeSource
		}, "a volume whose name begins with toolgate-"},
		{"roots of its own with the tokens", func(p *corev1.Pod) {
			s := ourVolume(p, "toolgate-token").Projected.Sources
			s[len(s)-1].ConfigMap.Name = "mine"
		}, "a volume whose name begins with toolgate-"},
		{"Secret as a variable", func(p *corev1.Pod) {
			tool(p).Env = append(tool(p).Env, corev1.EnvVar{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "toolgate-secrets"}}}})
		}, "reads the Secret toolgate-secrets"},
		{"Secret as variables", func(p *corev1.Pod) {
			tool(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "toolgate-secrets"}}}}
		}, "reads the Secret toolgate-secrets"},
	}
}

func fencedChanges() []change {
	return []change{
		{"no fence", func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[1:] }, "toolgate-fence"},
		{"fence after", func(p *corev1.Pod) {
			c := p.Spec.InitContainers
			c[0], c[1] = c[1], c[0]
		}, "toolgate-fence"},
		{"fence that checks", func(p *corev1.Pod) {
			named(p, "toolgate-fence").Args = append(named(p, "toolgate-fence").Args, "--check")
		}, "not as the injector makes it"},
		{"fence that lets the tool out", func(p *corev1.Pod) { named(p, "toolgate-fence").Args[4] = "64200" }, "not as the injector makes it"},
		{"fence that lets the tool out at last", func(p *corev1.Pod) {
			named(p, "toolgate-fence").Args = append(named(p, "toolgate-fence").Args, "--proxy-uid=64200")
		}, "not as the injector makes it"},
		{"fence of the node", func(p *corev1.Pod) {
			named(p, "toolgate-fence").Args = append(named(p, "toolgate-fence").Args, "--host-network")
		}, "not as the injector makes it"},
		{"fence that does something else", func(p *corev1.Pod) { named(p, "toolgate-fence").Args = []string{"version"} }, "not as the injector makes it"},
		{"fence of another image", func(p *corev1.Pod) { named(p, "toolgate-fence").Image = "x" }, "must have an image of"},
		{"fence with more", func(p *corev1.Pod) {
			named(p, "toolgate-fence").SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN", "SYS_ADMIN"}
		}, "not as the injector makes it"},
		{"fence that stays", func(p *corev1.Pod) {
			named(p, "toolgate-fence").RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		}, "not as the injector makes it"},
		{"fence with another config", func(p *corev1.Pod) {
			named(p, "toolgate-fence").Env[0].ValueFrom = &corev1.EnvVarSource{}
			named(p, "toolgate-fence").Env[0].Value = ""
		}, "not as the injector makes it"},
		{"volume of another machine", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "mine", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "evil.example"}}})
		}, "mounted by the node over the network"},
		{"probe elsewhere", func(p *corev1.Pod) {
			tool(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254"}}}
		}, "take host out of those of tool"},
		{"hook elsewhere", func(p *corev1.Pod) {
			tool(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "evil.example"}}}
		}, "take host out of those of tool"},
		{"root", func(p *corev1.Pod) { tool(p).SecurityContext.RunAsUser = ptr[int64](0) }, "set securityContext.runAsUser of tool"},
		{"nobody knows who", func(p *corev1.Pod) { tool(p).SecurityContext.RunAsUser = nil }, "set securityContext.runAsUser of tool"},
		{"escalation", func(p *corev1.Pod) { tool(p).SecurityContext.AllowPrivilegeEscalation = nil }, "in the securityContext of tool"},
		{"capabilities kept", func(p *corev1.Pod) { tool(p).SecurityContext.Capabilities = nil }, "in the securityContext of tool"},
	}
}

// TestChangedPodsAreRefused: cases K8S-02, K8S-04, K8S-06, K8S-08 and K8S-12 as the API server judges them while the webhook is down.
func TestChangedPodsAreRefused(t *testing.T) {
	docs := render(t, plain)
	p := compile(t, docs, "fenced-pods")
	try := func(mode string, all []change) {
		for _, c := range all {
			t.Run(mode+"/"+c.name, func(t *testing.T) {
				made := injected(t, docs, usual, mode)
				c.do(made)
				refused := strings.Join(p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: made}), " | ")
				if !strings.Contains(refused, c.want) {
					t.Errorf("found %q, expected it to say %q", refused, c.want)
				}
			})
		}
	}
	try("explicit", changes())
	try("transparent", changes())
	try("transparent", fencedChanges())
}

// TestFenceAlways: where the fence is demanded of all, which is so where the platform's mode is transparent, the annotation is no way out: with
// the backstop alone, and with the injector.
func TestFenceAlways(t *testing.T) {
	for values, want := range map[string]string{
		transparent:                  "set the annotation toolgate/mode to transparent, or remove it",
		"fence: {require: always}\n": "set the annotation toolgate/mode to transparent",
		transparent + "fence: {require: annotated}\n": "",
		"": "",
	} {
		docs := render(t, plain+values)
		made := injected(t, render(t, plain), usual, "explicit")
		refused := strings.Join(compile(t, docs, "fenced-pods").judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: made}), " | ")
		if want == "" && refused != "" || !strings.Contains(refused, want) {
			t.Errorf("%q: found %q, expected it to say %q", values, refused, want)
		}
		if s := chartSettings(t, docs); s.RequireFence != (want != "") {
			t.Errorf("%q: the injector's settings have requireFence: %v", values, s.RequireFence)
		}
	}
}

// TestSentencesAreWhole: a pod that has nothing of ours is told that, and not of containers without names.
func TestSentencesAreWhole(t *testing.T) {
	bare := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "tool", Image: "x"}}}}
	for _, values := range []string{"", transparent, "fence: {require: always}\n"} {
		for _, said := range compile(t, render(t, plain+values), "fenced-pods").judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: bare}) {
			if strings.Contains(said, " : ") || strings.Contains(said, "  ") || strings.HasSuffix(said, " ") {
				t.Errorf("%q: found %q, expected a sentence with a name", values, said)
			}
		}
	}
}

// TestUpdates is case K8S-11, and that a pod from before the label can still be reported on and ended.
func TestUpdates(t *testing.T) {
	docs := render(t, plain)
	p := compile(t, docs, "fenced-pods")
	made := injected(t, docs, usual, "transparent")
	bare := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "tool", Image: "x"}}}}
	for _, c := range []struct {
		name, subresource string
		old               *corev1.Pod
		do                func(*corev1.Pod)
		want              string
	}{
		{"our label gone", "", made, func(p *corev1.Pod) { delete(p.Labels, "toolgate/injected") }, "labels that begin with toolgate/"},
		{"our label changed", "", made, func(p *corev1.Pod) { p.Labels["toolgate/injected"] = "false" }, "labels that begin with toolgate/"},
		{"a label of ours added", "", made, func(p *corev1.Pod) { p.Labels["toolgate/x"] = "y" }, "labels that begin with toolgate/"},
		{"our label gone by status", "status", made, func(p *corev1.Pod) { p.Labels = nil }, "labels that begin with toolgate/"},
		{"tool changed", "", made, func(p *corev1.Pod) { p.Annotations["toolgate/tool"] = "mail" }, "annotations that begin with toolgate/"},
		{"status changed", "status", made, func(p *corev1.Pod) { p.Annotations["toolgate/status"] = "{}" }, "annotations that begin with toolgate/"},
		{"sidecar's image changed", "", made, func(p *corev1.Pod) { named(p, "toolgate").Image = "pause:1" }, "pause:1"},
		{"sidecar of an older release", "", made, func(p *corev1.Pod) { named(p, "toolgate").Image = "ghcr.io/toolgate/sidecar:0.0.1" }, "sidecar:0.0.1"},
		{"fence's image changed", "", made, func(p *corev1.Pod) { named(p, "toolgate-fence").Image = "pause:1" }, "must have an image of"},
		{"another label", "", made, func(p *corev1.Pod) { p.Labels["app"] = "x" }, ""},
		{"tool's image changed", "", made, func(p *corev1.Pod) { tool(p).Image = "tool:3" }, ""},
		{"label of a pod from before", "", bare, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} }, ""},
		{"status of a pod from before", "status", bare, func(p *corev1.Pod) { p.Status.Phase = "Failed" }, ""},
		{"finalizer of a pod from before", "", bare, func(p *corev1.Pod) { p.Finalizers = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.old.DeepCopy()
			c.do(changed)
			refused := strings.Join(p.judge(t, request{operation: admission.Update, kind: "Pod", resource: "pods", subresource: c.subresource, object: changed, old: c.old}), " | ")
			if c.want == "" && refused != "" || !strings.Contains(refused, c.want) {
				t.Errorf("found %q, expected it to say %q", refused, c.want)
			}
		})
	}
	moved := compile(t, render(t, plain+"image: {registry: mirror.example}\n"), "fenced-pods")
	if refused := moved.judge(t, request{operation: admission.Update, kind: "Pod", resource: "pods", subresource: "status", object: made, old: made}); refused != nil {
		t.Errorf("once the chart names another registry, the kubelet's report is refused: %v", refused)
	}
}

// TestEphemeralContainers: kubectl debug is no way out.
func TestEphemeralContainers(t *testing.T) {
	docs := render(t, plain)
	p := compile(t, docs, "fenced-pods")
	made := injected(t, docs, usual, "transparent")
	confined := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](3000), AllowPrivilegeEscalation: ptr(false)}
	}
	for _, c := range []struct {
		name string
		do   func(*corev1.EphemeralContainer)
		want string
	}{
		{"confined", func(*corev1.EphemeralContainer) {}, ""},
		{"beside the tool", func(c *corev1.EphemeralContainer) { c.TargetContainerName = "tool" }, ""},
		{"nothing said", func(c *corev1.EphemeralContainer) { c.SecurityContext = nil }, "must set runAsNonRoot"},
		{"root", func(c *corev1.EphemeralContainer) { c.SecurityContext.RunAsUser = ptr[int64](0) }, "must set runAsNonRoot"},
		{"no user", func(c *corev1.EphemeralContainer) { c.SecurityContext.RunAsUser = nil }, "must set runAsNonRoot"},
		{"escalation", func(c *corev1.EphemeralContainer) { c.SecurityContext.AllowPrivilegeEscalation = nil }, "must set runAsNonRoot"},
		{"our user", func(c *corev1.EphemeralContainer) { c.SecurityContext.RunAsUser = ptr[int64](ours) }, "container debug runs as 64117"},
		{"our group", func(c *corev1.EphemeralContainer) { c.SecurityContext.RunAsGroup = ptr[int64](ours) }, "container debug runs as 64117"},
		{"privileged", func(c *corev1.EphemeralContainer) { c.SecurityContext.Privileged = ptr(true) }, "container debug is privileged"},
		{"SYS_PTRACE", func(c *corev1.EphemeralContainer) {
			c.SecurityContext.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}
		}, "adds a capability"},
		{"our token", func(c *corev1.EphemeralContainer) { c.VolumeMounts = []corev1.VolumeMount{{Name: "toolgate-token"}} }, "mounts a volume of the sidecar"},
		{"beside the sidecar", func(c *corev1.EphemeralContainer) { c.TargetContainerName = "toolgate" }, "must not target container toolgate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "x", SecurityContext: confined()}}
			c.do(&e)
			changed := made.DeepCopy()
			changed.Spec.EphemeralContainers = append(changed.Spec.EphemeralContainers, e)
			r := request{operation: admission.Update, kind: "Pod", resource: "pods", subresource: "ephemeralcontainers", object: changed, old: made}
			refused := strings.Join(p.judge(t, r), " | ")
			if c.want == "" && refused != "" || !strings.Contains(refused, c.want) {
				t.Errorf("found %q, expected it to say %q", refused, c.want)
			}
			r.subresource, r.old = "status", changed
			if refused := p.judge(t, r); refused != nil {
				t.Errorf("once it is there, the kubelet's report is refused: %v", refused)
			}
		})
	}
}

// TestChangedRegistry: while injectors are replaced that still name the former images, nobody's pod is refused for that, and only for those.
func TestChangedRegistry(t *testing.T) {
	old := render(t, plain)
	const moved = plain + "image: {registry: 'mirror.example:5000'}\n"
	p := compile(t, render(t, moved+"backstop: {formerRepositories: {sidecar: [ghcr.io/toolgate/sidecar], fence: [ghcr.io/toolgate/fence]}}\n"), "fenced-pods")
	alone := compile(t, render(t, moved), "fenced-pods")
	for _, mode := range []string{"explicit", "transparent"} {
		for name, c := range map[string]struct {
			p       policy
			docs    [][]byte
			refused bool
		}{
			"new images": {p, render(t, moved), false}, "former images": {p, old, false}, "new images alone": {alone, render(t, moved), false}, "former images, forgotten": {alone, old, true},
		} {
			if refused := c.p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: injected(t, c.docs, usual, mode)}); (refused != nil) != c.refused {
				t.Errorf("%s, %s: found %v", mode, name, refused)
			}
		}
	}
	for image, refused := range map[string]bool{
		"ghcr.io/toolgate/sidecar": false, "ghcr.io/toolgate/sidecar:1.0": false, "mirror.example:5000/toolgate/sidecar:v1_x@sha256:" + strings.Repeat("0a", 32): false,
		"ghcr.io/toolgate/fence:1.0": true, "ghcr.io/toolgate/sidecar2:1.0": true, "ghcr.io/toolgate/sidecar:5000/evil/sidecar": true, "mirror.example:5000/evil/sidecar": true, "evil.example/ghcr.io/toolgate/sidecar": true,
	} {
		made := injected(t, old, usual, "explicit")
		named(made, "toolgate").Image = image
		if got := p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: made}); (got != nil) != refused {
			t.Errorf("%s: found %v", image, got)
		}
	}
}
