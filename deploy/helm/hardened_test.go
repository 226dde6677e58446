package helm

import (
	"slices"
	"testing"
)

// TestHardened is case K8S-19: no installation ships a loose default.
func TestHardened(t *testing.T) {
	each(t, func(t *testing.T, i installation, text string) {
		all := objects(t, text)
		pods := 0
		for _, o := range all {
			spec, labels := o.podSpec()
			if spec != nil {
				pods++
				hardPod(t, o, spec)
				hardContainers(t, o, spec)
				if i.name != "open" {
					guarded(t, o, labels, all)
				}
				if o.kind() != "Pod" {
					budgeted(t, o, labels, all)
				}
			}
			hardWebhooks(t, o)
			hardRoles(t, o)
		}
		if pods == 0 && i.name != "policy" {
			t.Error("nothing runs")
		}
	})
}

// mounters may have the token of their service account mounted: they talk to the API server.
var mounters = []string{"Deployment toolgate-injector", "Deployment gate-injector"}

func hardPod(t *testing.T, o, spec object) {
	t.Helper()
	context := spec.sub("securityContext")
	if context.at("runAsNonRoot") != true || context.text("seccompProfile", "type") != "RuntimeDefault" || context.at("runAsUser") == nil {
		t.Errorf("%s: the pod's securityContext is %v", o.id(), context)
	}
	if spec.at("automountServiceAccountToken") != slices.Contains(mounters, o.id()) {
		t.Errorf("%s: automountServiceAccountToken is %v", o.id(), spec.at("automountServiceAccountToken"))
	}
	for _, k := range []string{"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} {
		if spec.at(k) != nil {
			t.Errorf("%s: has %s", o.id(), k)
		}
	}
	for _, v := range spec.list("volumes") {
		if v.at("hostPath") != nil {
			t.Errorf("%s: volume %s is a folder of the node", o.id(), v.text("name"))
		}
		if v.at("emptyDir") != nil && v.at("emptyDir", "sizeLimit") == nil {
			t.Errorf("%s: volume %s has no limit", o.id(), v.text("name"))
		}
	}
}

func hardContainers(t *testing.T, o, spec object) {
	t.Helper()
	containers := append(spec.list("containers"), spec.list("initContainers")...)
	if len(containers) == 0 {
		t.Errorf("%s has no containers", o.id())
	}
	for _, c := range containers {
		s := c.sub("securityContext")
		drop, _ := s.at("capabilities", "drop").([]any)
		if s.at("runAsNonRoot") != true || s.at("readOnlyRootFilesystem") != true || s.at("allowPrivilegeEscalation") != false ||
			s.text("seccompProfile", "type") != "RuntimeDefault" || !slices.Contains(drop, any("ALL")) || s.at("capabilities", "add") != nil || s.at("privileged") != nil {
			t.Errorf("%s: container %s: securityContext is %v", o.id(), c.text("name"), s)
		}
		for _, kind := range []string{"requests", "limits"} {
			for _, what := range []string{"cpu", "memory"} {
				if c.text("resources", kind, what) == "" {
					t.Errorf("%s: container %s: no %s of %s", o.id(), c.text("name"), kind, what)
				}
			}
		}
		for _, m := range c.list("volumeMounts") {
			if m.at("readOnly") != true && !slices.Contains([]string{"data", "state", "files"}, m.text("name")) {
				t.Errorf("%s: container %s can write to %s", o.id(), c.text("name"), m.text("name"))
			}
		}
		if o.kind() == "Pod" {
			continue
		}
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			if c.at(probe) == nil {
				t.Errorf("%s: container %s has no %s", o.id(), c.text("name"), probe)
			}
		}
	}
}

// guarded: a NetworkPolicy denies the pod everything, and another opens what it needs.
func guarded(t *testing.T, o, labels object, all []object) {
	t.Helper()
	denied, opened := false, false
	for _, p := range all {
		if p.kind() != "NetworkPolicy" || !p.sub("spec", "podSelector").selects(labels) {
			continue
		}
		types, _ := p.at("spec", "policyTypes").([]any)
		both := slices.Contains(types, any("Ingress")) && slices.Contains(types, any("Egress"))
		if both && p.at("spec", "ingress") == nil && p.at("spec", "egress") == nil {
			denied = true
		} else {
			opened = true
		}
		for _, rule := range p.list("spec", "ingress") {
			if rule.at("ports") == nil {
				t.Errorf("%s opens every port", p.id())
			}
		}
	}
	if !denied || !opened {
		t.Errorf("%s: denied by default: %v, has a policy of its own: %v", o.id(), denied, opened)
	}
}

func budgeted(t *testing.T, o, labels object, all []object) {
	t.Helper()
	for _, p := range all {
		if p.kind() == "PodDisruptionBudget" && p.sub("spec", "selector").selects(labels) {
			if p.text("spec", "unhealthyPodEvictionPolicy") != "AlwaysAllow" {
				t.Errorf("%s keeps a node from being drained", p.id())
			}
			return
		}
	}
	t.Errorf("%s has no PodDisruptionBudget", o.id())
}

func hardWebhooks(t *testing.T, o object) {
	t.Helper()
	if o.kind() != "MutatingWebhookConfiguration" && o.kind() != "ValidatingWebhookConfiguration" {
		return
	}
	for _, w := range o.list("webhooks") {
		if seconds, ok := w.at("timeoutSeconds").(uint64); !ok || seconds > 10 {
			t.Errorf("%s: timeoutSeconds is %v", o.id(), w.at("timeoutSeconds"))
		}
		if w.text("sideEffects") != "None" {
			t.Errorf("%s: sideEffects is %v", o.id(), w.at("sideEffects"))
		}
		if w.at("clientConfig", "caBundle") != nil {
			t.Errorf("%s: caBundle is the injector's to write", o.id())
		}
		if o.kind() == "MutatingWebhookConfiguration" && w.list("namespaceSelector", "matchExpressions") == nil {
			t.Errorf("%s: is for every namespace", o.id())
		}
	}
}

// hardRoles: no wildcard, and Secrets by name but for create.
func hardRoles(t *testing.T, o object) {
	t.Helper()
	if o.kind() != "Role" && o.kind() != "ClusterRole" {
		return
	}
	for _, r := range o.list("rules") {
		resources, _ := r.at("resources").([]any)
		verbs, _ := r.at("verbs").([]any)
		groups, _ := r.at("apiGroups").([]any)
		for _, words := range [][]any{resources, verbs, groups} {
			if slices.Contains(words, any("*")) || len(words) == 0 {
				t.Errorf("%s: rule %v is for everything", o.id(), r)
			}
		}
		create := len(verbs) == 1 && verbs[0] == "create"
		named := r.at("resourceNames") != nil
		if slices.Contains(resources, any("secrets")) && (o.kind() == "ClusterRole" || !named && !create) {
			t.Errorf("%s: rule %v reads any Secret", o.id(), r)
		}
		if len(groups) > 0 && groups[0] == "admissionregistration.k8s.io" && !named {
			t.Errorf("%s: rule %v changes any configuration", o.id(), r)
		}
	}
}
