//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// testHardened is case K8S-19 on what the API server has stored; deploy/helm has it for every combination of values.
func testHardened(t *testing.T, r *release) {
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					SecurityContext struct {
						RunAsNonRoot   bool
						SeccompProfile struct{ Type string }
					}
					Containers []struct {
						Resources       struct{ Requests, Limits map[string]string }
						SecurityContext struct {
							ReadOnlyRootFilesystem, AllowPrivilegeEscalation *bool
							Capabilities                                     struct{ Add, Drop []string }
						}
					}
				}
			}
		}
	}
	read := func(v any, args ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.kubectl(t, append(append([]string{"get"}, args...), "-o", "json")...)), v); err != nil {
			t.Fatal(err)
		}
	}
	read(&d, "deployment", "toolgate-injector")
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" ||
		len(c.Resources.Requests) < 2 || len(c.Resources.Limits) < 2 {
		t.Errorf("found %+v", pod)
	}
	var hooks struct {
		Webhooks []struct {
			FailurePolicy, SideEffects, ReinvocationPolicy string
			TimeoutSeconds                                 int
		}
	}
	read(&hooks, "mutatingwebhookconfiguration", "toolgate-injector")
	for _, h := range hooks.Webhooks {
		if h.FailurePolicy != "Fail" || h.SideEffects != "None" || h.ReinvocationPolicy != "IfNeeded" || h.TimeoutSeconds > 10 {
			t.Errorf("found webhook %+v", h)
		}
	}
	var budgets, networks struct {
		Items []struct{ Spec map[string]any }
	}
	read(&budgets, "poddisruptionbudget")
	read(&networks, "networkpolicy")
	closed := false
	for _, n := range networks.Items {
		types, _ := n.Spec["policyTypes"].([]any)
		closed = closed || len(types) == 2
	}
	if len(budgets.Items) == 0 || !closed {
		t.Errorf("found budgets %+v and network policies %+v", budgets, networks)
	}
	// The webhook's own service account reaches what it needs and nothing more.
	for _, can := range []string{"list secrets", "get secrets/other", "delete secrets/toolgate-ca", "patch secrets/toolgate-ca", "update toolmanifests", "delete pods", "get configmaps", "update mutatingwebhookconfigurations/other", "create pods"} {
		r.may(t, can, "no")
	}
	for _, can := range []string{"get secrets/toolgate-ca", "update secrets/toolgate-ca", "list toolmanifests", "patch mutatingwebhookconfigurations/toolgate-injector", "list namespaces"} {
		r.may(t, can, "yes")
	}
}

// may asks RBAC about the injector's service account.
func (r *release) may(t *testing.T, what, want string) {
	t.Helper()
	verb, resource, _ := strings.Cut(what, " ")
	var out bytes.Buffer
	_ = r.try(&out, "auth", "can-i", verb, resource, "--as=system:serviceaccount:"+r.namespace+":toolgate-injector") // "no" is exit code 1
	if got := strings.TrimSpace(out.String()); got != want {
		t.Errorf("the injector may %s: found %s, expected %s", what, got, want)
	}
}
