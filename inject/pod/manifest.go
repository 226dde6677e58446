package pod

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// toolManifest is a manifest as far as the injector reads it; the sidecar checks the rest.
type toolManifest struct {
	Name   string `json:"name"`
	Egress struct {
		Rules []struct {
			Host string `json:"host"`
		} `json:"rules"`
	} `json:"egress"`

	text string
}

func readManifest(tool string, manifest func(string) ([]byte, error)) (toolManifest, error) {
	var m toolManifest
	b, err := manifest(tool)
	if err != nil {
		return m, refuse(UnknownTool, "the tool %s cannot be used: %v", tool, err)
	}
	m.text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n")), "---\n"))
	for line := range strings.Lines(m.text) {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") {
			return m, refuse(UnknownTool, "the manifest of the tool %s has several documents, or marks in it: keep one document in it", tool)
		}
	}
	if err := yaml.Unmarshal([]byte(m.text), &m); err != nil {
		return m, refuse(UnknownTool, "the manifest of the tool %s cannot be read as YAML: have it corrected", tool)
	}
	if m.Name != tool {
		return m, refuse(UnknownTool, "the manifest of the tool %s has the name %q in it: have it corrected", tool, m.Name)
	}
	return m, nil
}
