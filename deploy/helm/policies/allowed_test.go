package policies

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

const required = "injection: {requireAllowedTools: true}\n"

// allowing is a namespace with a list of tools; "-" is none.
func allowing(list string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"toolgate/inject": "enabled"}}}
	if list != "-" {
		n.Annotations = map[string]string{"toolgate/allowed-tools": list}
	}
	for _, l := range labels {
		n.Labels["toolgate/tool"] = l
	}
	return n
}

// TestAllowedTools: with the webhook down, a pod with a sidecar by hand names no tool that its namespace does not allow.
func TestAllowedTools(t *testing.T) {
	made := injected(t, render(t, plain), usual, "explicit")
	for _, values := range []string{plain, plain + required, byPolicy, strings.Replace(byPolicy, "mode: policy", "mode: policy, requireAllowedTools: true", 1)} {
		p := compile(t, render(t, values), "fenced-pods")
		must := strings.Contains(values, "requireAllowedTools")
		for _, c := range []struct {
			name        string
			namespace   *corev1.Namespace
			tool, tools string
			want        string
		}{
			{"allowed", allowing("mail, search"), "search", "", ""},
			{"allowed, of a container", allowing("search,mail"), "search", "tool=mail, second = search", ""},
			{"another", allowing("mail,web"), "search", "", "the tool search is not allowed in the namespace x, whose annotation toolgate/allowed-tools allows mail, web: name one"},
			{"of a container", allowing("search"), "search", "second=search,tool= mail", "the tool mail is not allowed"},
			{"by the namespace", allowing("mail", "search"), "", "", "the tool search is not allowed"},
			{"by the namespace, allowed", allowing("mail", "mail"), "", "", ""},
			{"a part of a name", allowing("searching,sear"), "search", "", "the tool search is not allowed"},
			{"no tool", allowing("mail"), "", "", "is not allowed"},
			{"empty list", allowing(""), "search", "", "has an entry that is no name of a tool"},
			{"empty entry", allowing("search,,mail"), "search", "", "has an entry that is no name of a tool"},
			{"no list", allowing("-"), "search", "", map[bool]string{true: "the namespace x has no annotation toolgate/allowed-tools"}[must]},
		} {
			pod := made.DeepCopy()
			delete(pod.Annotations, "toolgate/tool")
			for key, v := range map[string]string{"toolgate/tool": c.tool, "toolgate/tools": c.tools} {
				if v != "" {
					pod.Annotations[key] = v
				}
			}
			refused := strings.Join(p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: pod, namespace: c.namespace}), " | ")
			if c.want == "" && refused != "" || !strings.Contains(refused, c.want) {
				t.Errorf("%q: %s: found %q, expected it to say %q", values, c.name, refused, c.want)
			}
			if refused := p.judge(t, request{operation: admission.Update, kind: "Pod", resource: "pods", subresource: "status", object: pod, old: pod, namespace: c.namespace}); refused != nil {
				t.Errorf("%s: the kubelet's report of a pod that runs is refused: %v", c.name, refused)
			}
		}
	}
}

// TestListsOfTools: a namespace's list is checked as it is written, and only who may unfence changes one.
func TestListsOfTools(t *testing.T) {
	platform, root := &user.DefaultInfo{Name: "platform"}, &user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}
	odd := func(kind, key string) *corev1.Namespace {
		n := allowing("search")
		if kind == "label" {
			n.Labels[key] = "search"
		} else {
			n.Annotations[key] = "search"
		}
		return n
	}
	const may = "someone may not change the annotation toolgate/allowed-tools of namespace x: that needs the verb unfence"
	for _, c := range []struct {
		name     string
		old, new *corev1.Namespace // without an old one it is made
		user     user.Info
		want     string
		must     string // with requireAllowedTools, where it differs
	}{
		{"made with a list", nil, allowing("search,mail"), someone, "", may},
		{"made without", nil, allowing("-"), someone, "", ""},
		{"made with a list by who may", nil, allowing("search"), platform, "", ""},
		{"a first list", allowing("-"), allowing("search"), someone, "", may},
		{"widened", allowing("search"), allowing("search,mail"), someone, may, may},
		{"taken off", allowing("search"), allowing("-"), someone, may, may},
		{"widened by who may", allowing("search"), allowing("search,mail"), platform, "", ""},
		{"taken off by an administrator", allowing("search"), allowing("-"), root, "", ""},
		{"kept", allowing("search"), allowing("search", "mail"), someone, "", ""},
		{"broken and kept", allowing("search,,"), allowing("search,,", "mail"), someone, "", ""},
		{"empty", allowing("-"), allowing(""), root, "without empty entries", "without empty entries"},
		{"empty entry", allowing("-"), allowing("search,"), root, "without empty entries", "without empty entries"},
		{"wrong form", allowing("-"), allowing("search mail"), root, "without empty entries", "without empty entries"},
		{"typo in the key", allowing("search"), odd("annotation", "toolgate/allowed-tool"), root, "nothing else that begins with toolgate/", "nothing else"},
		{"as a label", allowing("search"), odd("label", "toolgate/allowed-tools"), root, "nothing else that begins with toolgate/", "nothing else"},
		{"typo from before", odd("label", "toolgate/tols"), odd("label", "toolgate/tols"), someone, "", ""},
	} {
		for _, values := range []string{plain, plain + required} {
			want := c.want
			if strings.Contains(values, required) {
				want = c.must
			}
			r := request{operation: admission.Create, kind: "Namespace", resource: "namespaces", object: c.new, user: c.user, authorizer: platformMay}
			if c.old != nil {
				r.operation, r.old = admission.Update, c.old
			}
			refused := strings.Join(compile(t, render(t, values), "allowed-tools").judge(t, r), " | ")
			if want == "" && refused != "" || !strings.Contains(refused, want) {
				t.Errorf("%q: %s: found %q, expected it to say %q", values, c.name, refused, want)
			}
		}
	}
	p := compile(t, render(t, byPolicy), "allowed-tools")
	for list, want := range map[string]string{"search, mail": "", "serach": "names a tool that is not there; there are mail, search"} {
		refused := strings.Join(p.judge(t, request{operation: admission.Create, kind: "Namespace", resource: "namespaces", object: allowing(list), user: root, authorizer: platformMay}), " | ")
		if want == "" && refused != "" || !strings.Contains(refused, want) {
			t.Errorf("%s: found %q, expected it to say %q", list, refused, want)
		}
	}
}
