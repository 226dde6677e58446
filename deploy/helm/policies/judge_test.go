package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// helmVersion is that of ../../../e2e/cluster.
const helmVersion = "v3.22.0"

// render is the chart with values, as documents.
func render(t *testing.T, values string) [][]byte {
	t.Helper()
	dir := os.Getenv("TOOLGATE_CLUSTER_CACHE")
	if dir == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(home, "toolgate-cluster")
	}
	helm := filepath.Join(dir, "bin", "helm-"+helmVersion+"-"+runtime.GOARCH, "helm")
	if _, err := os.Stat(helm); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: run go run ./e2e/cluster build -only chart", err)
		}
		t.Skipf("%v: run go run ./e2e/cluster build -only chart", err)
	}
	watchChart(t)
	cmd := exec.CommandContext(t.Context(), helm, "template", "toolgate", "../toolgate", "--namespace", "toolgate", "-f", "-")
	cmd.Stdin = strings.NewReader(values)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var all [][]byte
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		one, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// watchChart reads the chart in this process: the test cache does not see what helm reads.
func watchChart(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"../toolgate/*.yaml", "../toolgate/*.json", "../toolgate/templates/*", "../toolgate/templates/*/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			_, _ = os.ReadFile(f) // a folder among them is no matter
		}
	}
}

// policy is a compiled ValidatingAdmissionPolicy.
type policy struct {
	validating.Validator
	spec admissionv1.ValidatingAdmissionPolicySpec
}

// compile finds a policy by the end of its name, and compiles it as the API server does (plugin/policy/validating, compilePolicy).
func compile(t *testing.T, docs [][]byte, name string) policy {
	t.Helper()
	for _, doc := range docs {
		var p admissionv1.ValidatingAdmissionPolicy
		if json.Unmarshal(doc, &p) != nil || p.Kind != "ValidatingAdmissionPolicy" || !strings.HasSuffix(p.Name, name) {
			continue
		}
		compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		if err != nil {
			t.Fatal(err)
		}
		with := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
		var variables []plugincel.NamedExpressionAccessor
		for _, v := range p.Spec.Variables {
			variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
		}
		compiler.CompileAndStoreVariables(variables, with, environment.NewExpressions)
		var conditions, checks, messages []plugincel.ExpressionAccessor
		for _, c := range p.Spec.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&c))
		}
		for _, v := range p.Spec.Validations {
			checks = append(checks, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
			var message plugincel.ExpressionAccessor
			if v.MessageExpression != "" {
				message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
			}
			messages = append(messages, message)
		}
		var matcher matchconditions.Matcher
		if len(conditions) > 0 {
			matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, with, environment.NewExpressions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
		}
		return policy{validating.NewValidator(
			compiler.CompileCondition(checks, with, environment.NewExpressions), matcher,
			compiler.CompileCondition(nil, with, environment.NewExpressions),
			compiler.CompileCondition(messages, plugincel.OptionalVariableDeclarations{}, environment.NewExpressions), p.Spec.FailurePolicy, nil), p.Spec}
	}
	t.Fatalf("the chart has no policy %s", name)
	return policy{}
}

// request is what is asked of the API server.
type request struct {
	operation   admission.Operation
	kind        string
	resource    string
	subresource string
	object, old any
	user        user.Info
	authorizer  authorizer.Authorizer
	namespace   *corev1.Namespace // of the object; may be nil
}

// judge returns the sentences of what was refused. It fails the test where an expression cannot be evaluated, or a sentence is not one.
func (p policy) judge(t *testing.T, r request) []string {
	t.Helper()
	gvk := schema.GroupVersionKind{Version: "v1", Kind: r.kind}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: r.resource}
	object, old := loose(t, r.object), loose(t, r.old)
	attributes := admission.NewAttributesRecord(object, old, gvk, "tools", "x", gvr, r.subresource, r.operation, nil, false, r.user)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk}
	versioned.VersionedObject.Set(object)
	if old != nil {
		versioned.VersionedOldObject.Set(old)
	}
	namespace := r.namespace
	if namespace == nil {
		namespace = &corev1.Namespace{}
	}
	result := p.Validate(t.Context(), gvr, versioned, nil, namespace, celconfig.RuntimeCELCostBudget, r.authorizer)
	var refused []string
	for _, d := range result.Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("cannot be evaluated: %s", d.Message)
		}
		if d.Action == validating.ActionDeny {
			if !strings.HasPrefix(d.Message, "toolgate: ") || strings.Contains(d.Message, "\n") {
				t.Errorf("found %q, expected a sentence", d.Message)
			}
			refused = append(refused, d.Message)
		}
	}
	return refused
}

// loose is an object as the API server's CEL sees it.
func loose(t *testing.T, v any) kruntime.Object {
	t.Helper()
	if v == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
