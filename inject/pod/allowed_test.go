package pod

import (
	"errors"
	"strings"
	"testing"
)

// TestAllowedTools: a namespace's list binds its pods, whichever way they name their tools.
func TestAllowedTools(t *testing.T) {
	free, strict := testSettings(t, settingsText), testSettings(t, settingsText+"requireAllowedTools: true\n")
	const ask = "ask whoever may change the namespace (with the backstop, who may do the verb unfence on it) to add it"
	for _, c := range []struct {
		name    string
		pod     string // annotations
		labels  map[string]string
		notes   map[string]string
		require bool
		reason  Reason
		want    string // in the sentence, or in a warning
	}{
		{name: "nothing said, nothing wanted"},
		{name: "nothing said and one wanted", require: true, reason: ForbiddenTool, want: "the namespace agents has no annotation toolgate/allowed-tools, and without one the platform allows no tool: " + ask},
		{name: "allowed", notes: map[string]string{NamespaceAllowed: "mail, search"}, require: true},
		{name: "another", notes: map[string]string{NamespaceAllowed: "mail,fat"}, reason: ForbiddenTool, want: "the tool search is not allowed in the namespace agents, whose annotation toolgate/allowed-tools allows mail, fat: name one of these, or " + ask},
		{name: "of a container", pod: "toolgate/tools: 'web=mail'", notes: map[string]string{NamespaceAllowed: "search"}, reason: ForbiddenTool, want: "the tool mail is not allowed"},
		{name: "the default beside a container's", pod: "toolgate/tools: 'web=mail'", notes: map[string]string{NamespaceAllowed: "mail"}, reason: ForbiddenTool, want: "the tool search is not allowed"},
		{name: "the namespace's", pod: "none", labels: map[string]string{NamespaceTool: "search"}, notes: map[string]string{NamespaceAllowed: "mail"}, reason: ForbiddenTool, want: "the tool search is not allowed"},
		{name: "the namespace's, allowed", pod: "none", labels: map[string]string{NamespaceTool: "mail"}, notes: map[string]string{NamespaceAllowed: "mail"}},
		{name: "a part of a name", notes: map[string]string{NamespaceAllowed: "search-more,sear"}, reason: ForbiddenTool, want: "the tool search is not allowed"},
		{name: "empty", notes: map[string]string{NamespaceAllowed: ""}, reason: BadAnnotation, want: `has the entry "": it is a list of tools`},
		{name: "empty entry", notes: map[string]string{NamespaceAllowed: "search,,mail"}, reason: BadAnnotation, want: `has the entry ""`},
		{name: "wrong form", notes: map[string]string{NamespaceAllowed: "search mail"}, reason: BadAnnotation, want: `has the entry "search mail"`},
		{name: "every tool", notes: map[string]string{NamespaceAllowed: "*"}, reason: BadAnnotation, want: `has the entry "*"`},
		{name: "too many", notes: map[string]string{NamespaceAllowed: strings.Repeat("search,", maxAllowed) + "mail"}, reason: BadAnnotation, want: "more than 256 entries"},
		{name: "typo in an entry", notes: map[string]string{NamespaceAllowed: "serach,mail"}, reason: ForbiddenTool, want: "allows serach, mail (no manifest that can be used: serach): name one"},
		{name: "typo in another entry", notes: map[string]string{NamespaceAllowed: "search,mial"}, want: "names tools without a manifest that can be used: mial"},
		{name: "typo in the key", notes: map[string]string{"toolgate/allowed-tool": "mail"}, reason: BadAnnotation, want: "has the annotation toolgate/allowed-tool, which is none of Toolgate's"},
		{name: "as a label", labels: map[string]string{NamespaceAllowed: "mail"}, reason: BadAnnotation, want: "has the label toolgate/allowed-tools, which is none"},
		{name: "by the pod itself", pod: "toolgate/allowed-tools: search", notes: map[string]string{NamespaceAllowed: "mail"}, reason: BadAnnotation, want: "the annotation toolgate/allowed-tools is none of Toolgate's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := buildPod(t, "", "", strings.TrimPrefix(c.pod, "none"), ""), free
			if c.pod == "none" {
				delete(p.Annotations, AnnotationTool)
			}
			if c.require {
				s = strict
			}
			r, err := Mutate(p, Namespace{Name: "agents", Labels: c.labels, Annotations: c.notes}, s, manifestOf)
			if c.reason != "" {
				if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != c.reason || !strings.Contains(refusal.Message, c.want) {
					t.Fatalf("got %v, want %s with %q", err, c.reason, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if warned := strings.Join(r.Warnings, "\n"); !strings.Contains(warned, c.want) || c.want == "" && strings.Contains(warned, NamespaceAllowed) {
				t.Errorf("warnings %q, want %q", warned, c.want)
			}
		})
	}
}
