package pod

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// refusals are pods that differ from one that is injected in what is given here: fields of the pod, of its container "web", and
// annotations. Of each, what must be refused and a part of the sentence.
var refusals = []struct {
	name        string
	spec        string // of the pod
	container   string // of web
	annotations string
	namespace   string // a label, key=value
	meta        string // more metadata
	reason      Reason
	message     string
}{
	{name: "pod's uid", spec: "securityContext: {runAsUser: 64117}", reason: ReservedID, message: "the pod's securityContext has runAsUser 64117"},
	{name: "pod's gid", spec: "securityContext: {runAsGroup: 64117}", reason: ReservedID, message: "runAsGroup"},
	{name: "fsGroup", spec: "securityContext: {fsGroup: 64117}", reason: ReservedID, message: "fsGroup"},
	{name: "supplemental group", spec: "securityContext: {supplementalGroups: [1, 64117]}", reason: ReservedID, message: "supplementalGroups[1]"},
	{name: "uid", container: "securityContext: {runAsUser: 64117}", reason: ReservedID, message: "the container web has runAsUser 64117, which is the sidecar's alone: choose another id"},
	{name: "gid", container: "securityContext: {runAsGroup: 64117}", reason: ReservedID, message: "runAsGroup"},
	{name: "uid of an init container", spec: "initContainers: [{name: setup, image: x, securityContext: {runAsUser: 64117}}]", reason: ReservedID, message: "the container setup"},
	{name: "uid in transparent mode", container: "securityContext: {runAsUser: 64117}", annotations: "toolgate/mode: transparent", reason: ReservedID, message: "web"},

	{name: "privileged", container: "securityContext: {privileged: true}", reason: Privilege, message: "remove privileged"},
	{name: "SETUID", container: "securityContext: {capabilities: {add: [SETUID]}}", reason: Privilege, message: "adds the capability SETUID"},
	{name: "SETGID", container: "securityContext: {capabilities: {add: [CHOWN, SETGID]}}", reason: Privilege, message: "SETGID"},
	{name: "NET_ADMIN", container: "securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}}", reason: Privilege, message: "NET_ADMIN"},
	{name: "NET_RAW", container: "securityContext: {capabilities: {add: [NET_RAW]}}", reason: Privilege, message: "NET_RAW"},
	{name: "SYS_ADMIN", container: "securityContext: {capabilities: {add: [SYS_ADMIN]}}", reason: Privilege, message: "SYS_ADMIN"},
	{name: "SYS_PTRACE", container: "securityContext: {capabilities: {add: [SYS_PTRACE]}}", reason: Privilege, message: "SYS_PTRACE"},
	{name: "all capabilities", container: "securityContext: {capabilities: {add: [all]}}", reason: Privilege, message: "all"},
	{name: "spelt otherwise", container: "securityContext: {capabilities: {add: [cap_net_admin]}}", reason: Privilege, message: "cap_net_admin"},
	{name: "of a kernel to come", container: "securityContext: {capabilities: {add: [NET_EVERYTHING]}}", reason: Privilege, message: "NET_EVERYTHING"},
	{name: "escalation", container: "securityContext: {allowPrivilegeEscalation: true}", annotations: "toolgate/mode: transparent", reason: Privilege, message: "allowPrivilegeEscalation"},
	{name: "root", container: "securityContext: {runAsUser: 0}", annotations: "toolgate/mode: transparent", reason: Privilege, message: "runs as root"},
	{name: "root of the pod", spec: "securityContext: {runAsUser: 0}", annotations: "toolgate/mode: transparent", reason: Privilege, message: "runs as root"},
	{name: "root without a tool", spec: "initContainers: [{name: setup, image: x, securityContext: {runAsUser: 0}}]", annotations: "toolgate/mode: transparent", reason: Privilege, message: "setup runs as root"},

	{name: "hostNetwork", spec: "hostNetwork: true", reason: HostNamespace, message: "hostNetwork"}, // K8S-02
	{name: "hostPID", spec: "hostPID: true", reason: HostNamespace, message: "hostPID"},
	{name: "hostIPC", spec: "hostIPC: true", reason: HostNamespace, message: "hostIPC"},
	{name: "shareProcessNamespace", spec: "shareProcessNamespace: true", reason: HostNamespace, message: "shareProcessNamespace"},

	// K8S-08
	{name: "container named like ours", spec: "initContainers: [{name: toolgate, image: x, restartPolicy: Always}]", reason: NameTaken, message: "the container toolgate"},
	{name: "injected by its own word", spec: "initContainers: [{name: toolgate, image: x, restartPolicy: Always}]", annotations: "toolgate/status: '{}'", reason: NameTaken, message: "toolgate"},
	{name: "main container named like ours", spec: "initContainers: [{name: toolgate-fence, image: x}]", reason: NameTaken, message: "toolgate-fence"},
	{name: "volume of the CA's key", spec: "volumes: [{name: toolgate-ca-key, emptyDir: {}}]", reason: NameTaken, message: "the volume toolgate-ca-key"},
	{name: "volume named like ours", spec: "volumes: [{name: toolgate-state, emptyDir: {}}]", reason: NameTaken, message: "the volume toolgate-state"},
	{name: "mount of ours", container: "volumeMounts: [{name: toolgate-token, mountPath: /token}]", reason: NameTaken, message: "mounts the volume toolgate-token"},
	{name: "mount on ours", spec: "volumes: [{name: ca, emptyDir: {}}]", container: "volumeMounts: [{name: ca, mountPath: /var/run/toolgate/ca/}]", reason: NameTaken, message: "mount it elsewhere"},
	{name: "mount below ours", spec: "volumes: [{name: ca, emptyDir: {}}]", container: "volumeMounts: [{name: ca, mountPath: /var/run/toolgate/ca/ca.pem}]", reason: NameTaken, message: "mount it elsewhere"},
	{name: "admin port", container: "ports: [{containerPort: 15020}]", reason: NameTaken, message: "port 15020"},
	{name: "a listener's port", container: "ports: [{containerPort: 15002}]", reason: NameTaken, message: "port 15002"},

	{name: "our secret", spec: "volumes: [{name: s, secret: {secretName: toolgate-secrets}}]", reason: ReservedSecret, message: "the volume s"},
	{name: "our secret, projected", spec: "volumes: [{name: s, projected: {sources: [{secret: {name: toolgate-secrets}}]}}]", reason: ReservedSecret, message: "the volume s"},
	{name: "our secret as a variable", container: "env: [{name: S, valueFrom: {secretKeyRef: {name: toolgate-secrets, key: a}}}]", reason: ReservedSecret, message: "the container web"},
	{name: "our secret as variables", container: "envFrom: [{secretRef: {name: toolgate-secrets}}]", reason: ReservedSecret, message: "the container web"},
	{name: "our token", spec: "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: toolgate}}]}}]", reason: ReservedSecret, message: "the audience toolgate"},
	{name: "the kill switch's token", spec: "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: toolgate-killswitch}}]}}]", reason: ReservedSecret, message: "toolgate-killswitch"},
	{name: "the gateway's token", spec: "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: toolgate-gateway}}]}}]", reason: ReservedSecret, message: "toolgate-gateway"},

	{name: "our secret to a driver", spec: "volumes: [{name: s, csi: {driver: d, nodePublishSecretRef: {name: toolgate-secrets}}}]", reason: ReservedSecret, message: "the volume s"},
	{name: "our secret to an old driver", spec: "volumes: [{name: s, flexVolume: {driver: d/e, secretRef: {name: toolgate-secrets}}}]", reason: ReservedSecret, message: "the volume s"},

	{name: "hostAliases", spec: "hostAliases: [{ip: 192.0.2.1, hostnames: [api.search.example]}]", reason: Resolution, message: "hostAliases"},
	{name: "name of the pod", spec: "hostnameOverride: kubernetes.default.svc", reason: Resolution, message: "hostnameOverride"},
	{name: "DNS of its own", spec: "dnsPolicy: None", reason: Resolution, message: "dnsPolicy: None"},
	{name: "name server", spec: "dnsConfig: {nameservers: [192.0.2.1]}", reason: Resolution, message: "dnsConfig.nameservers"},
	{name: "search domain", spec: "dnsConfig: {searches: [evil.example]}", reason: Resolution, message: "dnsConfig.searches"},

	{name: "volume of another machine", spec: "volumes: [{name: v, nfs: {server: evil.example, path: /}}]", annotations: "toolgate/mode: transparent", reason: Volume, message: "the volume v"},
	{name: "disk of another machine", spec: "volumes: [{name: v, iscsi: {targetPortal: evil.example, iqn: x, lun: 0}}]", annotations: "toolgate/mode: transparent", reason: Volume, message: "the volume v"},
	{name: "repository", spec: "volumes: [{name: v, gitRepo: {repository: 'https://evil.example'}}]", annotations: "toolgate/mode: transparent", reason: Volume, message: "the volume v"},

	{name: "liveness elsewhere", container: "livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}", annotations: "toolgate/mode: transparent", reason: ProbeHost, message: "livenessProbe"},
	{name: "readiness elsewhere", container: "readinessProbe: {tcpSocket: {host: evil.example, port: 80}}", annotations: "toolgate/mode: transparent", reason: ProbeHost, message: "readinessProbe"},
	{name: "startup elsewhere", container: "startupProbe: {httpGet: {host: 127.0.0.1, port: 80}}", annotations: "toolgate/mode: transparent", reason: ProbeHost, message: "startupProbe"},
	{name: "hook elsewhere", container: "lifecycle: {postStart: {httpGet: {host: evil.example, port: 80}}}", annotations: "toolgate/mode: transparent", reason: ProbeHost, message: "postStart"},
	{name: "last hook elsewhere", container: "lifecycle: {preStop: {tcpSocket: {host: evil.example, port: 80}}}", annotations: "toolgate/mode: transparent", reason: ProbeHost, message: "preStop"},

	{name: "typo", annotations: "toolgate/tols: a=b", reason: BadAnnotation, message: "toolgate/tols is none of Toolgate's"},
	{name: "mode", annotations: "toolgate/mode: Transparent", reason: BadAnnotation, message: "set it to explicit or transparent"},
	{name: "empty mode", annotations: "toolgate/mode: ''", reason: BadAnnotation, message: "is empty"},
	{name: "no such container", annotations: "toolgate/tools: wb=mail", reason: BadAnnotation, message: "names the container wb, which the pod has not: name one of web"},
	{name: "two tools for one container", annotations: "toolgate/tools: 'web=mail,web=search'", reason: BadAnnotation, message: "two tools, mail and search"},
	{name: "form of tools", annotations: "toolgate/tools: 'web:mail'", reason: BadAnnotation, message: "container=tool"},
	{name: "empty tool", annotations: "toolgate/tools: 'web='", reason: BadAnnotation, message: "container=tool"},
	{name: "name of a tool", annotations: "toolgate/tools: 'web=../mail'", reason: BadAnnotation, message: "begins with a letter"},
	{name: "java", annotations: "toolgate/java: yes please", reason: BadAnnotation, message: `"true" or "false"`},
	{name: "quantity", annotations: "toolgate/memory-limit: lots", reason: BadAnnotation, message: "quantity"},
	{name: "no memory", annotations: "toolgate/memory-limit: '0'", reason: BadAnnotation, message: "quantity"},
	{name: "request above limit", annotations: "toolgate/memory-request: 1Gi", reason: BadAnnotation, message: "above its limit"},
	{name: "loopback", annotations: "toolgate/loopback: 'web=web'", reason: BadAnnotation, message: "container=container:port"},
	{name: "loopback to nobody", annotations: "toolgate/loopback: 'web=db:5432'", reason: BadAnnotation, message: "names the container db"},
	{name: "loopback to a listener", annotations: "toolgate/loopback: 'web=web:15001'", reason: BadAnnotation, message: "port 15001"},
	{name: "passthrough not allowed", annotations: "toolgate/passthrough-hosts: evil.example", reason: BadAnnotation, message: "does not let through unseen"},
	{name: "passthrough of what has a binding", annotations: "toolgate/passthrough-hosts: api.search.example", reason: BadAnnotation, message: "does not let through unseen"},

	{name: "unknown tool", annotations: "toolgate/tools: web=nothing", reason: UnknownTool, message: "the tool nothing cannot be used: there is no manifest of it"},
	{name: "manifest of two", annotations: "toolgate/tools: web=twin", reason: UnknownTool, message: "several documents"},
	{name: "manifest of another", annotations: "toolgate/tools: web=alias", reason: UnknownTool, message: `has the name "other"`},
	{name: "manifest that is none", annotations: "toolgate/tools: web=broken", reason: UnknownTool, message: "cannot be read"},
	{name: "too large", annotations: "toolgate/tools: web=fat", reason: TooLarge, message: "fewer tools"},

	// K8S-04
	{name: "opt-out by annotation", annotations: `toolgate/inject: "false"`, reason: OptOut, message: "turns nothing off"},
	{name: "opt-out by label", meta: "labels: {toolgate/inject: disabled}", reason: OptOut, message: "turns nothing off"},

	// K8S-12
	{name: "Istio's container", spec: "initContainers: [{name: istio-proxy, image: x}]", annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "the container istio-proxy"},
	{name: "Istio's namespace", namespace: "istio-injection=enabled", annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "Istio"},
	{name: "Istio's revision", namespace: "istio.io/rev=canary", annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "Istio"},
	{name: "Istio's label", meta: `labels: {sidecar.istio.io/inject: "true"}`, annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "sidecar.istio.io/inject"},
	{name: "ambient", namespace: "istio.io/dataplane-mode=ambient", annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "ambient"},
	{name: "Linkerd", annotations: "toolgate/mode: transparent, linkerd.io/inject: enabled", reason: OtherMesh, message: "linkerd.io/inject"},
	{name: "Kuma", namespace: "kuma.io/sidecar-injection=enabled", annotations: "toolgate/mode: transparent", reason: OtherMesh, message: "kuma"},

	{name: "Windows", spec: "os: {name: windows}", reason: Unsupported, message: "Windows"},
	{name: "Windows by selector", spec: "nodeSelector: {kubernetes.io/os: windows}", reason: Unsupported, message: "Windows"},
	{name: "static pod", annotations: "kubernetes.io/config.mirror: abc", reason: Unsupported, message: "static pod"},
	{
		name: "one uid for two tools", spec: "initContainers: [{name: setup, image: x, securityContext: {runAsUser: 2001}}]",
		container: "securityContext: {runAsUser: 2001}", annotations: "toolgate/mode: transparent, toolgate/tools: setup=mail", reason: SharedID, message: "setup and web have the user id 2001",
	},
}

// pod builds the pod that is refused, or without the field that offends.
func buildPod(t testing.TB, spec, container, annotations, meta string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	read := func(text string, to any) {
		if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	read(meta, &p.ObjectMeta)
	read("annotations: {toolgate/tool: search}", &p.ObjectMeta)
	read("annotations: {"+annotations+"}", &p.ObjectMeta)
	read(spec, &p.Spec)
	web := corev1.Container{Name: "web", Image: "web:1"}
	read(container, &web)
	p.Spec.Containers = []corev1.Container{web}
	return p
}

func TestRefusals(t *testing.T) {
	s := testSettings(t, settingsText)
	if _, err := Mutate(buildPod(t, "", "", "", ""), Namespace{}, s, manifestOf); err != nil {
		t.Fatalf("without anything to refuse: %v", err)
	}
	seen := map[Reason]bool{}
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			ns := namespaceOf("# namespace " + r.namespace)
			_, err := Mutate(buildPod(t, r.spec, r.container, r.annotations, r.meta), ns, s, manifestOf)
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != r.reason || !strings.Contains(refusal.Message, r.message) {
				t.Fatalf("got %v, want %s with %q", err, r.reason, r.message)
			}
			if !strings.HasPrefix(refusal.Message, "toolgate: ") || !strings.Contains(refusal.Message, ": ") || strings.HasSuffix(refusal.Message, ".") {
				t.Errorf("the sentence has another form: %s", refusal.Message)
			}
			seen[r.reason] = true
		})
	}
	_, err := Mutate(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}, Namespace{}, s, manifestOf)
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != NoTool {
		t.Errorf("no tool: %v", err)
	}
	seen[NoTool] = true
	for _, reason := range []Reason{ReservedID, ReservedSecret, SharedID, Privilege, HostNamespace, NameTaken, BadAnnotation, NoTool, UnknownTool, OptOut, Resolution, Volume, ProbeHost, OtherMesh, TooLarge, Unsupported} {
		if !seen[reason] {
			t.Errorf("no test is refused for %s", reason)
		}
	}
}

// TestNeighbours: what stands beside each refusal is let in.
func TestNeighbours(t *testing.T) {
	s := testSettings(t, settingsText)
	for _, n := range []struct{ spec, container, annotations, meta, namespace string }{
		{spec: "securityContext: {runAsUser: 64116, fsGroup: 64118, supplementalGroups: [64116]}"},
		{container: "securityContext: {capabilities: {add: [CHOWN, CAP_NET_BIND_SERVICE]}}"},
		{container: "securityContext: {allowPrivilegeEscalation: true}"},
		{container: "securityContext: {runAsUser: 0}"},
		{spec: "shareProcessNamespace: false"},
		{spec: "volumes: [{name: ca, emptyDir: {}}]", container: "volumeMounts: [{name: ca, mountPath: /var/run/toolgate/cat}]"},
		{container: "ports: [{containerPort: 15000}, {containerPort: 15017}, {containerPort: 8080, hostPort: 80}]"},
		{spec: "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: mine}}]}}, {name: s, secret: {secretName: mine}}]"},
		{annotations: "toolgate/passthrough-hosts: 'pinned.example, a.pins.example'"},
		{meta: `labels: {toolgate/inject: enabled}`},
		{annotations: "toolgate/mode: transparent", meta: `labels: {sidecar.istio.io/inject: "false"}`, namespace: "istio-injection=enabled"},
		{spec: "{dnsPolicy: Default, dnsConfig: {options: [{name: ndots, value: '2'}]}, hostname: a, subdomain: b}"},
		{spec: "volumes: [{name: v, nfs: {server: nfs.example, path: /}}]", container: "livenessProbe: {httpGet: {host: a.example, port: 80}}"},
		{
			spec:        "volumes: [{name: a, csi: {driver: d}}, {name: b, persistentVolumeClaim: {claimName: c}}, {name: c, image: {reference: i}}, {name: d, configMap: {name: d}}, {name: e}]",
			container:   "{livenessProbe: {httpGet: {path: /, port: 80}}, lifecycle: {preStop: {exec: {command: [x]}}}}",
			annotations: "toolgate/mode: transparent",
		},
		{annotations: "example.com/toolgate: x, toolgate/memory-request: 1Gi, toolgate/memory-limit: 1Gi"},
		{spec: "initContainers: [{name: setup, image: x, securityContext: {runAsUser: 2001}}]", container: "securityContext: {runAsUser: 2001}", annotations: "toolgate/mode: transparent"},
	} {
		if _, err := Mutate(buildPod(t, n.spec, n.container, n.annotations, n.meta), namespaceOf("# namespace "+n.namespace), s, manifestOf); err != nil {
			t.Errorf("%+v: %v", n, err)
		}
	}
}

// TestPassthrough: a host is no longer intercepted, unless it has to be.
func TestPassthrough(t *testing.T) {
	text := strings.Replace(settingsText, "passthrough: [", `passthrough: ["*.seen.example", api.search.example, `, 1)
	s := testSettings(t, text)
	for host, want := range map[string]string{
		"api.search.example": "needs to see into",      // binding and rules
		"a.seen.example":     "the platform intercept", // by a pattern
		"pinned.example":     "",
	} {
		r, err := Mutate(buildPod(t, "", "", "toolgate/passthrough-hosts: "+host, ""), Namespace{}, s, manifestOf)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", host, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		config := r.Pod.Spec.InitContainers[0].Env[0].Value
		if strings.Contains(config, `"pinned.example"`) || !strings.Contains(config, `"*.seen.example"`) {
			t.Errorf("intercepted all the same: %s", config)
		}
	}
}

// TestMainContainerNamedLikeOurs: the pretence of an injection does not excuse a container that is not an init container.
func TestMainContainerNamedLikeOurs(t *testing.T) {
	s := testSettings(t, settingsText)
	r, err := Mutate(buildPod(t, "", "", "", ""), Namespace{}, s, manifestOf)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Pod
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: SidecarContainer, Image: "x"})
	if _, err := Mutate(p, Namespace{}, s, manifestOf); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("got %v", err)
	}
	p.Spec.Containers = slices.Delete(p.Spec.Containers, 1, 2)
	for _, mount := range []corev1.VolumeMount{
		{Name: VolumeCA, MountPath: "/w"}, {Name: VolumeCA, MountPath: DirCA}, {Name: VolumeCA, MountPath: DirCA, SubPath: "x", ReadOnly: true},
		{Name: VolumeState, MountPath: DirCA, ReadOnly: true},
	} {
		q := p.DeepCopy()
		q.Spec.Containers[0].VolumeMounts = append(q.Spec.Containers[0].VolumeMounts, mount)
		if _, err := Mutate(q, Namespace{}, s, manifestOf); err == nil || !strings.Contains(err.Error(), "reserved for the sidecar") {
			t.Errorf("a mount that is not ours, %+v: got %v", mount, err)
		}
	}
}

// TestManyContainers: one request of 3 MiB, which holds a hundred thousand containers, is refused before any work that grows with them.
func TestManyContainers(t *testing.T) {
	s := testSettings(t, settingsText)
	for _, mode := range []string{"explicit", "transparent"} {
		p := buildPod(t, "", "", "toolgate/mode: "+mode, "")
		for i := range maxContainers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "x"})
		}
		_, err := Mutate(p, Namespace{}, s, manifestOf)
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != Unsupported || !strings.Contains(refusal.Message, "129 containers") {
			t.Errorf("%s: got %v", mode, err)
		}
		p.Spec.Containers = p.Spec.Containers[:20]
		p.Annotations["toolgate/loopback"] = strings.Repeat("web=web:80,", 30000)
		if _, err := Mutate(p, Namespace{}, s, manifestOf); err == nil || !strings.Contains(err.Error(), "annotations of") {
			t.Errorf("%s: a long annotation: got %v", mode, err)
		}
		delete(p.Annotations, "toolgate/loopback")
		if _, err := Mutate(p, Namespace{}, s, manifestOf); err != nil {
			t.Errorf("%s: twenty containers: %v", mode, err)
		}
	}
}

// TestFenceRequired: where the settings want the fence, a pod is transparent, by its annotation or by the platform's mode.
func TestFenceRequired(t *testing.T) {
	for _, c := range []struct {
		settings, annotations string
		refused               bool
	}{
		{"requireFence: true\n", "", true},
		{"requireFence: true\n", "toolgate/mode: explicit", true},
		{"requireFence: true\n", "toolgate/mode: transparent", false},
		{"requireFence: true\nmode: transparent\n", "", false},
		{"requireFence: true\nmode: transparent\n", "toolgate/mode: explicit", true},
		{"mode: transparent\n", "toolgate/mode: explicit", false},
	} {
		_, err := Mutate(buildPod(t, "", "", c.annotations, ""), Namespace{}, testSettings(t, settingsText+c.settings), manifestOf)
		refusal := (*Refusal)(nil)
		if errors.As(err, &refusal) != c.refused || c.refused && (refusal.Reason != Unfenced || !strings.Contains(refusal.Message, "set the annotation toolgate/mode to transparent")) {
			t.Errorf("%q with %q: got %v", c.settings, c.annotations, err)
		}
	}
}
