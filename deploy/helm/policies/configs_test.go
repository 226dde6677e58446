package policies

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

const byPolicy = "injection: {mode: policy}\nmanifests: {search: \"name: search\", mail: \"name: mail\"}\n" + plain

// literal is a string of CEL that is compared with a variable's value.
var literal = regexp.MustCompile(`(?s)orValue\(''\) ==\s+("(?:[^"\\]|\\.)*")`)

// TestOwnConfigs: where no webhook makes the sidecar anew, a pod that brings one with a policy of its own is refused.
func TestOwnConfigs(t *testing.T) {
	docs := render(t, byPolicy)
	p := compile(t, docs, "config-search")
	found := literal.FindStringSubmatch(p.spec.Validations[0].Expression)
	if found == nil {
		t.Fatalf("no config in %s", p.spec.Validations[0].Expression)
	}
	var config string
	if err := json.Unmarshal([]byte(found[1]), &config); err != nil || !strings.Contains(config, "name: search") {
		t.Fatalf("%v: found %s", err, config)
	}
	made := injected(t, render(t, plain), usual, "explicit")
	for _, c := range []struct {
		name, config, tool string
		refused            bool
	}{
		{"as the policy gives it", config, "search", false},
		{"of the author", strings.Replace(config, "name: search", "name: search\negress: {allowedDomains: [evil.example]}", 1), "search", true},
		{"none", "", "search", true},
		{"of another tool, which has a policy of its own", "x", "mail", false},
	} {
		brought := made.DeepCopy()
		brought.Annotations["toolgate/tool"] = c.tool
		named(brought, "toolgate").Env[0].Value = c.config
		refused := p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: brought})
		if (refused != nil) != c.refused {
			t.Errorf("a config %s: found %v", c.name, refused)
		}
	}
	twice := made.DeepCopy()
	named(twice, "toolgate").Env[0].Value = config
	named(twice, "toolgate").Env = append(named(twice, "toolgate").Env, corev1.EnvVar{Name: "TOOLGATE_CONFIG", Value: "x"})
	if p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: twice}) == nil {
		t.Error("a second config is admitted")
	}
}

// TestUnknownTools: a tool that no policy knows has no config to compare with.
func TestUnknownTools(t *testing.T) {
	p := compile(t, render(t, byPolicy), "fenced-pods")
	made := injected(t, render(t, plain), usual, "explicit")
	for tool, want := range map[string]string{"search": "", "mail": "", "mine": "one of the tools mail, search"} {
		made.Annotations["toolgate/tool"] = tool
		refused := strings.Join(p.judge(t, request{operation: admission.Create, kind: "Pod", resource: "pods", object: made}), " | ")
		if want == "" && refused != "" || !strings.Contains(refused, want) {
			t.Errorf("%s: found %q, expected it to say %q", tool, refused, want)
		}
	}
}
