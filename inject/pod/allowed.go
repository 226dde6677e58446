package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxAllowed bounds the list, which is looked through for every pod.
const maxAllowed = 256

// whoMayChange ends sentences about a namespace, which a pod's author cannot change.
const whoMayChange = "whoever may change the namespace (with the backstop, who may do the verb unfence on it)"

// allowed checks the tools of the pod against those that its namespace allows. Without the annotation any is, unless the settings want one.
func (in *injection) allowed(manifest func(tool string) ([]byte, error)) error {
	if err := in.namespaceKeys(); err != nil {
		return err
	}
	list, there := in.namespace.Annotations[NamespaceAllowed]
	if !there {
		if in.settings.RequireAllowedTools {
			return refuse(ForbiddenTool, "%s has no annotation %s, and without one the platform allows no tool: ask %s to add it",
				in.space(), NamespaceAllowed, whoMayChange)
		}
		return nil
	}
	tools, err := in.readAllowed(list)
	if err != nil {
		return err
	}
	var unknown []string
	for _, tool := range tools {
		if _, err := manifest(tool); err != nil {
			unknown = append(unknown, tool)
		}
	}
	for _, tool := range in.plan.tools {
		if slices.Contains(tools, tool) {
			continue
		}
		hint := ""
		if len(unknown) > 0 {
			hint = fmt.Sprintf(" (no manifest that can be used: %s)", strings.Join(unknown, ", "))
		}
		return refuse(ForbiddenTool, "the tool %s is not allowed in %s, whose annotation %s allows %s%s: name one of these, or ask %s to add it",
			tool, in.space(), NamespaceAllowed, strings.Join(tools, ", "), hint, whoMayChange)
	}
	if len(unknown) > 0 {
		in.warnf("the annotation %s of %s names tools without a manifest that can be used: %s; is it a typo?", NamespaceAllowed, in.space(), strings.Join(unknown, ", "))
	}
	return nil
}

// namespaceKeys refuses what looks like one of ours and is none: with a misspelt allowed-tools every tool would be allowed.
func (in *injection) namespaceKeys() error {
	for _, of := range []struct {
		kind  string
		keys  map[string]string
		known []string
	}{
		{"label", in.namespace.Labels, []string{NamespaceInject, NamespaceTool}},
		{"annotation", in.namespace.Annotations, []string{NamespaceAllowed}},
	} {
		for _, key := range slices.Sorted(maps.Keys(of.keys)) {
			if strings.HasPrefix(key, Prefix) && !slices.Contains(of.known, key) {
				return refuse(BadAnnotation, "%s has the %s %s, which is none of Toolgate's: there are the labels %s, %s and the annotation %s; ask %s to correct it",
					in.space(), of.kind, key, NamespaceInject, NamespaceTool, NamespaceAllowed, whoMayChange)
			}
		}
	}
	return nil
}

// readAllowed reads the namespace's list, which is of an operator: what cannot be meant is refused, and not skipped.
func (in *injection) readAllowed(list string) ([]string, error) {
	var tools []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if !toolName.MatchString(entry) {
			return nil, refuse(BadAnnotation, "the annotation %s of %s has the entry %q: it is a list of tools, separated by commas, whose names have a-z, 0-9, _ . - and begin with a letter; ask %s to correct it",
				NamespaceAllowed, in.space(), entry, whoMayChange)
		}
		if tools = append(tools, entry); len(tools) > maxAllowed {
			return nil, refuse(BadAnnotation, "the annotation %s of %s has more than %d entries: ask %s to shorten it", NamespaceAllowed, in.space(), maxAllowed, whoMayChange)
		}
	}
	return tools, nil
}

func (in *injection) space() string {
	if in.namespace.Name == "" { // of a pod that was read from a file
		return "the pod's namespace"
	}
	return "the namespace " + in.namespace.Name
}
