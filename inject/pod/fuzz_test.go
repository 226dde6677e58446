package pod

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// choices make a pod of bytes: each byte picks one of a few values, of which many are ours or just beside.
type choices struct{ left []byte }

func (c *choices) next() int {
	if len(c.left) == 0 {
		return 0
	}
	b := c.left[0]
	c.left = c.left[1:]
	return int(b)
}

func pick[T any](c *choices, from ...T) T { return from[c.next()%len(from)] }

func ptr[T any](v T) *T { return &v }

func (c *choices) id() *int64 {
	return pick(c, nil, nil, ptr(int64(0)), ptr(int64(2001)), ptr(int64(2002)), ptr(int64(64117)), ptr(int64(64200)))
}

func (c *choices) container(names ...string) corev1.Container {
	out := corev1.Container{Name: pick(c, names...), Image: "x:1", Args: []string{"a"}, Stdin: c.next()%2 == 1}
	for range c.next() % 4 {
		out.Env = append(out.Env, corev1.EnvVar{
			Name:  pick(c, "HOME", "HTTP_PROXY", "https_proxy", "SSL_CERT_FILE", "NO_PROXY", "JAVA_TOOL_OPTIONS"),
			Value: pick(c, "", "x", FileBundle, "http://127.0.0.1:15001", "http://127.0.0.1:15002"),
		})
	}
	for range c.next() % 3 {
		out.VolumeMounts = append(out.VolumeMounts, corev1.VolumeMount{
			Name:      pick(c, "data", "data", "data", VolumeCA, VolumeToken),
			MountPath: pick(c, "/data", "/etc/ssl/certs", "/", "/var/run", DirCA, SystemBundle),
			SubPath:   pick(c, "", "", "ca-bundle.pem"), ReadOnly: c.next()%2 == 1,
		})
	}
	if c.next()%2 == 1 {
		sc := &corev1.SecurityContext{RunAsUser: c.id(), RunAsGroup: c.id(), Privileged: pick(c, nil, nil, nil, ptr(false), ptr(true))}
		sc.AllowPrivilegeEscalation = pick(c, nil, nil, ptr(false), ptr(true))
		if c.next()%2 == 1 {
			sc.Capabilities = &corev1.Capabilities{Drop: pick(c, nil, []corev1.Capability{"ALL"}, []corev1.Capability{"KILL"}),
				Add: pick(c, nil, nil, []corev1.Capability{"CHOWN"}, []corev1.Capability{"NET_ADMIN"})}
		}
		out.SecurityContext = sc
	}
	return out
}

func (c *choices) pod() *corev1.Pod {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{}
	for range c.next() % 6 {
		kv := pick(c, [2]string{AnnotationTool, "search"}, [2]string{AnnotationTool, "mail"}, [2]string{AnnotationTools, "web=mail"},
			[2]string{AnnotationTools, "web=mail,db=search"}, [2]string{AnnotationMode, "transparent"}, [2]string{AnnotationMode, "explicit"},
			[2]string{AnnotationJava, "true"}, [2]string{AnnotationLoopback, "web=db:80"}, [2]string{StatusKey, "{}"}, [2]string{AnnotationMemoryLimit, "1Gi"},
			[2]string{AnnotationPassthrough, "pinned.example"}, [2]string{"other", "x"})
		p.Annotations[kv[0]] = kv[1]
	}
	p.Labels = pick(c, nil, map[string]string{LabelInjected: "true"}, map[string]string{"app": "web"})
	if c.next()%4 == 1 {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: c.id(), FSGroup: c.id()}
	}
	for range c.next() % 3 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, c.container("setup", "logs", "toolgate", "toolgate-fence", "istio-proxy"))
	}
	for range 1 + c.next()%3 {
		p.Spec.Containers = append(p.Spec.Containers, c.container("web", "db", "web", "toolgate"))
	}
	for range c.next() % 3 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: pick(c, "data", "data", VolumeState)})
	}
	return p
}

// FuzzMutate: it never panics, refuses only with sentences, a second call changes nothing, ours comes first, and what the user wrote
// stays.
func FuzzMutate(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{3, 0, 4, 6, 2, 1, 2, 2, 0, 1, 3, 1, 1, 2, 2, 2, 1, 1, 1, 3, 0, 2, 0, 2, 1, 1, 1, 1, 1, 2, 2, 1})
	f.Add([]byte{2, 0, 8, 1, 0, 2, 2, 1, 1, 0, 2, 0, 1, 0, 1})
	for _, file := range pods(f) {
		f.Add([]byte(read(f, file)))
	}
	s := testSettings(f, settingsText)
	f.Fuzz(func(t *testing.T, data []byte) {
		p := (&choices{data}).pod()
		fromText := &corev1.Pod{}
		if err := yaml.Unmarshal(data, fromText); err == nil && len(fromText.Spec.Containers) > 0 {
			p = fromText
		}
		before := p.DeepCopy()
		r, err := Mutate(p, Namespace{Name: "agents"}, s, manifestOf)
		if !equal(p, before) {
			t.Fatal("the pod given was changed")
		}
		if err != nil {
			if refusal := (*Refusal)(nil); !errors.As(err, &refusal) {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		twice, err := Mutate(r.Pod, Namespace{Name: "agents"}, s, manifestOf)
		if err != nil || !equal(twice.Pod, r.Pod) || twice.Changed {
			t.Fatalf("the second call: %v", err)
		}
		if ourFirst(r.Pod) == "" {
			t.Fatalf("ours is not first: %v", names(r.Pod.Spec.InitContainers))
		}
		keptContainers(t, before, r.Pod)
	})
}

// keptContainers checks that containers of the user's have all that they had, in their order.
func keptContainers(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	users := func(list []corev1.Container) []corev1.Container {
		return slices.DeleteFunc(slices.Clone(list), func(c corev1.Container) bool { return slices.Contains(ourContainers, c.Name) })
	}
	was := users(slices.Concat(before.Spec.InitContainers, before.Spec.Containers))
	is := users(slices.Concat(after.Spec.InitContainers, after.Spec.Containers))
	if len(was) != len(is) {
		t.Fatalf("containers %v became %v", names(was), names(is))
	}
	for i, w := range was {
		g := *is[i].DeepCopy()
		if len(g.Env) < len(w.Env) {
			t.Fatalf("container %s lost variables", w.Name)
		}
		g.Env = g.Env[:len(w.Env)]
		for _, m := range w.VolumeMounts {
			if m.Name == VolumeCA {
				continue // of an earlier injection
			}
			if !slices.ContainsFunc(g.VolumeMounts, func(have corev1.VolumeMount) bool { return equality.Semantic.DeepEqual(have, m) }) {
				t.Fatalf("container %s lost the mount %v", w.Name, m)
			}
		}
		g.VolumeMounts, w.VolumeMounts = nil, nil
		if g.SecurityContext != nil && w.SecurityContext != nil {
			keptSecurity(t, w.SecurityContext, g.SecurityContext)
		}
		g.SecurityContext, w.SecurityContext = nil, nil
		if !equality.Semantic.DeepEqual(w, g) {
			t.Fatalf("container %s changed: %v, was %v", w.Name, g, w)
		}
	}
}

// keptSecurity checks that only what was not set is set, and capabilities only become fewer.
func keptSecurity(t *testing.T, was, is *corev1.SecurityContext) {
	t.Helper()
	is = is.DeepCopy()
	if was.RunAsUser == nil {
		is.RunAsUser = nil
	}
	if was.RunAsGroup == nil {
		is.RunAsGroup = nil
	}
	if was.AllowPrivilegeEscalation == nil {
		is.AllowPrivilegeEscalation = nil
	}
	if is.Capabilities != nil {
		if was.Capabilities != nil && !slices.Equal(is.Capabilities.Add, was.Capabilities.Add) {
			t.Fatalf("capabilities %v became %v", was.Capabilities, is.Capabilities)
		}
		is.Capabilities = was.Capabilities
	}
	if !equality.Semantic.DeepEqual(was, is) {
		t.Fatalf("%v became %v", was, is)
	}
}
