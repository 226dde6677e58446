package helm

import (
	"path/filepath"
	"strings"
	"testing"
)

// conform runs kubeconform over rendered text.
func conform(t *testing.T, text string) (string, error) {
	t.Helper()
	return command(t, text, tool(t, "kubeconform", kubeconformVersion), "-strict", "-summary",
		"-skip", "cert-manager.io/v1/Certificate", // its definition is not at hand
		"-schema-location", filepath.Join(schemas(t), "{{.ResourceKind}}{{.KindSuffix}}.json"), "-")
}

// TestKinds: every object is what the API server of this version takes, without a field that it would drop.
func TestKinds(t *testing.T) {
	each(t, func(t *testing.T, _ installation, text string) {
		out, err := conform(t, text)
		if err != nil || !strings.Contains(out, "Invalid: 0, Errors: 0") {
			t.Errorf("kubeconform: %v\n%s", err, out)
		}
	})
}

// TestKindsAreStrict: the schemas see an unknown field, also deep inside, and a wrong type.
func TestKindsAreStrict(t *testing.T) {
	text, err := render(t, operator...)
	if err != nil {
		t.Fatal(text)
	}
	for _, c := range []struct{ old, new string }{
		{"enableServiceLinks: false", "enableServiceLink: false"},
		{"allowPrivilegeEscalation: false", "allowPrivilegesEscalation: false"},
		{"replicas: 2", "replicas: two"},
		{"unhealthyPodEvictionPolicy:", "unhealthyPodEviction:"},
		{"podMetricsEndpoints:", "podMetricEndpoints:"},
		{"messageExpression:", "messageExpressions:"},
	} {
		broken := strings.Replace(text, c.old, c.new, 1)
		if broken == text {
			t.Errorf("the chart has no %q", c.old)
			continue
		}
		if out, err := conform(t, broken); err == nil {
			t.Errorf("%q passes: %s", c.new, out)
		}
	}
}
