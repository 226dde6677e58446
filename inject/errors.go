package inject

import (
	"errors"
	"fmt"
	"strings"
)

// The errors of Apply, Check and Remove, besides those of netlink itself.
var (
	ErrNotPermitted = errors.New("not permitted: this needs the capability CAP_NET_ADMIN in the pod's network namespace " +
		"(NET_ADMIN of the init container, with user id 0 or a file capability)")
	ErrUnsupported = errors.New("not supported: the fence needs Linux with nf_tables, NAT and connection tracking")
	ErrHostNetwork = errors.New("refused: this is the machine's own network, not a pod's, and everything on it would be cut off")
)

// Drift is how the rules in force differ from those of a plan. It is an error when it is not empty.
type Drift struct {
	Missing []string `json:"missing,omitempty"` // chains and rules that are not there
	Changed []string `json:"changed,omitempty"` // chains and rules that are there, but are not what the plan says, or not where
	Extra   []string `json:"extra,omitempty"`   // chains and rules that the plan does not have
}

// Error names everything that differs.
func (d *Drift) Error() string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{{"missing", d.Missing}, {"changed", d.Changed}, {"not ours", d.Extra}} {
		if len(p.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", p.what, strings.Join(p.list, ", ")))
		}
	}
	return "the fence is not as planned; " + strings.Join(parts, "; ")
}

func (d *Drift) err() error {
	if len(d.Missing)+len(d.Changed)+len(d.Extra) == 0 {
		return nil
	}
	return d
}
