package main

import (
	"fmt"
	"slices"
	"strings"
)

// kind is an image that can be made.
type kind struct {
	name        string // of the image
	program     string // the folder in cmd, and the file in the image
	description string
	netAdmin    bool // the file may raise the capability NET_ADMIN
}

// kinds are all images. The fence is the sidecar once more, with a file capability, for the init container that writes nftables rules
// without being root. The sidecar itself has none: it runs as long as the pod, and a file with an effective capability that the container
// dropped would not even start (execve(2), EPERM).
var kinds = []kind{
	{name: "sidecar", program: "sidecar", description: "The proxy beside a tool"},
	{name: "fence", program: "sidecar", description: "The sidecar's netinit, for an init container that is not root", netAdmin: true},
	{name: "killswitch", program: "killswitch", description: "The control plane of the kill switch"},
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
		if !slices.Contains(found, kinds[i]) {
			found = append(found, kinds[i])
		}
	}
	return found, nil
}

// platform is an operating system and an architecture by their Go names, which are OCI's as well.
type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

func (p platform) String() string { return p.OS + "/" + p.Architecture }

func parsePlatform(name string) (platform, error) {
	for _, p := range []platform{{"linux", "amd64"}, {"linux", "arm64"}} {
		if p.String() == name {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("platform: found %q, expected linux/amd64 or linux/arm64", name)
}
