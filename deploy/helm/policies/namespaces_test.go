package policies

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var someone = &user.DefaultInfo{Name: "someone", Groups: []string{"developers"}}

// platformMay has the user platform do the verb unfence on namespace x.
var platformMay = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "unfence" && a.GetResource() == "namespaces" && a.GetName() == "x" && a.GetUser().GetName() == "platform" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

func namespace(label string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if label != "" {
		n.Labels = map[string]string{"toolgate/inject": label}
	}
	return n
}

// TestLabelledNamespaces: the label stays, unless whoever takes it off may unfence.
func TestLabelledNamespaces(t *testing.T) {
	p := compile(t, render(t, plain), "labelled-namespaces")
	for _, c := range []struct {
		name     string
		old, new string
		user     user.Info
		refused  bool
	}{
		{"taken off", "enabled", "", someone, true},
		{"changed", "enabled", "disabled", someone, true},
		{"kept", "enabled", "enabled", someone, false},
		{"put on", "", "enabled", someone, false},
		{"never there", "", "", someone, false},
		{"taken off by who may", "enabled", "", &user.DefaultInfo{Name: "platform"}, false},
		{"taken off by an administrator", "enabled", "", &user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := p.judge(t, request{operation: admission.Update, kind: "Namespace", resource: "namespaces", object: namespace(c.new), old: namespace(c.old), user: c.user, authorizer: platformMay})
			if (refused != nil) != c.refused {
				t.Errorf("found %v", refused)
			}
		})
	}
}
