package main

import (
	"fmt"
	"time"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// newImage is an image of two layers: the one that all share, and its own.
func newImage(k kind, p layout.Platform, prog program, o options) (layout.Image, error) {
	base, err := layout.NewLayer(baseFiles(), o.created)
	if err != nil {
		return layout.Image{}, err
	}
	own, err := layout.NewLayer(programFiles(k, prog), o.created)
	if err != nil {
		return layout.Image{}, err
	}
	return layout.NewImage(layout.Config{
		Platform: p, Created: o.created,
		Config: layout.Run{
			User: fmt.Sprintf("%d:%d", uid, uid), Env: []string{"PATH=/"}, Entrypoint: []string{"/" + k.program}, WorkingDir: "/", Labels: labels(k, o),
		},
		History: []layout.History{
			{Created: o.created, CreatedBy: "toolgate: user and folders"},
			{Created: o.created, CreatedBy: "toolgate: " + k.program},
		},
	}, base, own)
}

// labels are the predefined keys (OCI image specification 1.1, annotations.md).
func labels(k kind, o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "toolgate/" + k.name,
		"org.opencontainers.image.description": k.description,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
		"org.opencontainers.image.source":      "https://" + module,
		"org.opencontainers.image.vendor":      "Toolgate",
	}
}
