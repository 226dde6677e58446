package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// kind is an image that can be made.
type kind struct {
	name        string // of the image
	program     string // the folder in cmd, and the file in the image
	description string
	capability  []byte // of the file
	roots       bool   // the image needs the public roots in a file; the sidecar has them built in
}

// kinds are all images. The fence is the sidecar once more, with a file capability, for the init container that writes nftables rules
// without being root. The sidecar itself has none: it runs as long as the pod, and a file with an effective capability that the container
// dropped would not even start (execve(2), EPERM).
var kinds = []kind{
	{name: "sidecar", program: "sidecar", description: "The proxy beside a tool"},
	{name: "fence", program: "sidecar", description: "The sidecar's netinit, for an init container that is not root", capability: netAdminFile},
	{name: "killswitch", program: "killswitch", description: "The control plane of the kill switch", roots: true},
	{name: "injector", program: "injector", description: "Puts the sidecar into pods"},
}

func kindsOf(names []string) ([]kind, error) {
	var all []string
	for _, k := range kinds {
		all = append(all, k.name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no image named, expected some of %s", strings.Join(all, ", "))
	}
	var found []kind
	for _, n := range names {
		i := slices.Index(all, n)
		if i < 0 {
			return nil, fmt.Errorf("image: found %q, expected some of %s", n, strings.Join(all, ", "))
		}
		if !slices.ContainsFunc(found, func(k kind) bool { return k.name == n }) {
			found = append(found, kinds[i])
		}
	}
	return found, nil
}

func parsePlatform(name string) (layout.Platform, error) {
	for _, p := range []layout.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}} {
		if p.String() == name {
			return p, nil
		}
	}
	return layout.Platform{}, fmt.Errorf("platform: found %q, expected linux/amd64 or linux/arm64", name)
}
