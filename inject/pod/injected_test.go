package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/toolgate/toolgate/inject"
)

func equal(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a, b) }

// again injects and checks that a second call changes nothing.
func again(t *testing.T, p *corev1.Pod, ns Namespace) *Result {
	t.Helper()
	s := testSettings(t, settingsText)
	first, err := Mutate(p, ns, s, manifestOf)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Mutate(first.Pod, ns, s, manifestOf)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Changed || second.Changed || !equal(first.Pod, second.Pod) {
		t.Errorf("changed %v, then %v", first.Changed, second.Changed)
	}
	return second
}

func TestTwice(t *testing.T) {
	for _, file := range pods(t) {
		text := read(t, file)
		again(t, parsePod(t, text), namespaceOf(text))
	}
}

// TestOthersInBetween: what other webhooks add between two calls is injected too, and ours comes first again.
func TestOthersInBetween(t *testing.T) {
	for _, name := range []string{"several", "transparent-unknown-users"} {
		text := read(t, "testdata/pods/"+name+".yaml")
		ns := namespaceOf(text)
		ns.Labels[NamespaceTool] = "mail"
		first := again(t, parsePod(t, text), ns).Pod
		between := first.DeepCopy()
		between.Spec.InitContainers = append([]corev1.Container{{Name: "early", Image: "x"}}, between.Spec.InitContainers...)
		between.Spec.Containers = append([]corev1.Container{{Name: "agent", Image: "x"}}, between.Spec.Containers...)
		at := slices.IndexFunc(between.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == SidecarContainer })
		ours := &between.Spec.InitContainers[at]
		ours.Env = append(ours.Env, corev1.EnvVar{Name: "SSL_CERT_FILE", Value: "/tmp/mine.pem"})
		ours.VolumeMounts = append(ours.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
		ours.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		got := again(t, between, ns)
		if n := ourFirst(got.Pod); n == "" {
			t.Errorf("%s: ours is not first: %v", name, names(got.Pod.Spec.InitContainers))
		}
		for _, c := range append(got.Pod.Spec.InitContainers, got.Pod.Spec.Containers...) {
			was := find(first, c.Name)
			switch {
			case slices.Contains(ourContainers, c.Name): // the fence has a user id more
			case was != nil && !equality.Semantic.DeepEqual(*was, c):
				t.Errorf("%s: container %s is no longer what it was: %v", name, c.Name, c)
			case was == nil && !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "SSL_CERT_FILE" && e.Value == FileBundle }):
				t.Errorf("%s: container %s came later and was not injected", name, c.Name)
			}
		}
	}
}

func find(p *corev1.Pod, name string) *corev1.Container {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func names(list []corev1.Container) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return out
}

// ourFirst names the first container that starts, if it is ours.
func ourFirst(p *corev1.Pod) string {
	if first := p.Spec.InitContainers[0].Name; first == SidecarContainer || first == FenceContainer && p.Spec.InitContainers[1].Name == SidecarContainer {
		return first
	}
	return ""
}

// TestForged: a pod that brings a sidecar of its own and claims that it was injected gets ours.
func TestForged(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{AnnotationTool: "search", StatusKey: `{"version":"v1"}`},
			Labels:      map[string]string{LabelInjected: "true"},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{
				Name: SidecarContainer, Image: "evil:1", RestartPolicy: &always, VolumeMounts: []corev1.VolumeMount{{Name: VolumeToken, MountPath: "/t"}},
			}},
			Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			Volumes:    []corev1.Volume{{Name: VolumeCA, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	honest := p.DeepCopy()
	honest.Annotations, honest.Labels = map[string]string{AnnotationTool: "search"}, nil
	honest.Spec.InitContainers, honest.Spec.Volumes = nil, nil
	ns := Namespace{Name: "agents"}
	if got, want := again(t, p, ns).Pod, again(t, honest, ns).Pod; !equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSecretsAreTheSidecars: no tool mounts a volume of the sidecar but the CA, and that read-only.
func TestSecretsAreTheSidecars(t *testing.T) {
	for _, file := range pods(t) {
		text := read(t, file)
		p := again(t, parsePod(t, text), namespaceOf(text)).Pod
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			if slices.Contains(ourContainers, c.Name) {
				continue
			}
			for _, m := range c.VolumeMounts {
				if strings.HasPrefix(m.Name, "toolgate-") && (m.Name != VolumeCA || !m.ReadOnly) {
					t.Errorf("%s: %s mounts %+v", file, c.Name, m)
				}
			}
			for _, e := range c.Env {
				if e.Name == configVariable {
					t.Errorf("%s: %s has %s", file, c.Name, e.Name)
				}
			}
		}
	}
}

// TestPodSecurity asks Kubernetes' own evaluator: in explicit mode a pod stays at the level restricted, and in transparent mode all that
// offends is the one capability of the one init container.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	text := read(t, "testdata/pods/restricted.yaml")
	p := parsePod(t, text)
	for mode, offence := range map[string]string{
		"explicit":    "",
		"transparent": `container "toolgate-fence" must not include "NET_ADMIN" in securityContext.capabilities.add`,
	} {
		p.Annotations[AnnotationMode] = mode
		got := again(t, p, namespaceOf(text)).Pod
		var offences []string
		for _, r := range evaluator.EvaluatePod(restricted, &got.ObjectMeta, &got.Spec) {
			if !r.Allowed {
				offences = append(offences, r.ForbiddenDetail)
			}
		}
		for _, o := range offences {
			if offence == "" || !strings.Contains(o, offence) || strings.Contains(o, "containers ") {
				t.Errorf("%s: %s", mode, o)
			}
		}
		if offence != "" && len(offences) == 0 {
			t.Errorf("%s: nothing offends, so the evaluator judges nothing", mode)
		}
	}
}

// TestManyIDs holds the bound equal to the fence's.
func TestManyIDs(t *testing.T) {
	if maxIDs != inject.MaxTools {
		t.Errorf("maxIDs is %d, the fence has %d", maxIDs, inject.MaxTools)
	}
}
