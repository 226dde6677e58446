package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

// identities refuses the sidecar's ids to all others, and in transparent mode, whose rules go by user ids, makes every container's known.
func (in *injection) identities() error {
	if err := in.idsFree(); err != nil {
		return err
	}
	in.plan.uid = map[string]int64{}
	if in.plan.mode != settings.Transparent {
		return nil
	}
	podWide := in.pod.Spec.SecurityContext
	for _, c := range in.containers() {
		switch {
		case c.SecurityContext.RunAsUser != nil:
			in.plan.uid[c.Name] = *c.SecurityContext.RunAsUser
		case podWide != nil && podWide.RunAsUser != nil:
			in.plan.uid[c.Name] = *podWide.RunAsUser
		}
	}
	for _, c := range in.containers() {
		if _, ok := in.plan.uid[c.Name]; !ok {
			in.assign(c)
		}
	}
	return in.apart()
}

// assign gives a container whose image decides its user an id that the rules can name.
func (in *injection) assign(c *corev1.Container) {
	taken := slices.Collect(maps.Values(in.plan.uid))
	id := in.settings.ToolUID
	for slices.Contains(taken, id) || id == in.settings.UID {
		id++
	}
	in.plan.uid[c.Name] = id
	c.SecurityContext.RunAsUser = &id
	podWide := in.pod.Spec.SecurityContext
	if c.SecurityContext.RunAsGroup == nil && (podWide == nil || podWide.RunAsGroup == nil) {
		group := id
		c.SecurityContext.RunAsGroup = &group
	}
	in.warnf("the container %s runs as user %d now, since the rules of mode transparent go by user ids; set its securityContext.runAsUser", c.Name, id)
}

// apart refuses root, who is not let out, and one id for two tools, which the rules could not tell apart.
func (in *injection) apart() error {
	first := map[int64]string{}
	for _, c := range in.containers() {
		id := in.plan.uid[c.Name]
		if id == 0 {
			return refuse(Privilege, "the container %s runs as root, whom mode transparent lets reach nothing: set its securityContext.runAsUser to another id", c.Name)
		}
		other, there := first[id]
		if !there {
			first[id] = c.Name
			continue
		}
		if in.plan.of[other] != in.plan.of[c.Name] {
			return refuse(SharedID, "the containers %s and %s have the user id %d and different tools, which the rules of mode transparent tell apart by user id: set runAsUser of one to another id",
				other, c.Name, id)
		}
	}
	if len(first) > maxIDs {
		return refuse(Unsupported, "the pod has %d user ids, of which the fence can tell %d apart: let containers of one tool share an id", len(first), maxIDs)
	}
	return nil
}

// maxIDs is inject.MaxTools, which a test holds equal.
const maxIDs = 32

// idsFree refuses the sidecar's user and group id anywhere else: with the first a container is let out, with the second it may read what
// the sidecar writes.
func (in *injection) idsFree() error {
	if sc := in.pod.Spec.SecurityContext; sc != nil {
		ids := map[string]*int64{"runAsUser": sc.RunAsUser, "runAsGroup": sc.RunAsGroup, "fsGroup": sc.FSGroup}
		for i := range sc.SupplementalGroups {
			ids[fmt.Sprintf("supplementalGroups[%d]", i)] = &sc.SupplementalGroups[i]
		}
		if err := in.reserved("the pod's securityContext", ids); err != nil {
			return err
		}
	}
	for _, c := range in.containers() {
		if sc := c.SecurityContext; sc != nil {
			if err := in.reserved("the container "+c.Name, map[string]*int64{"runAsUser": sc.RunAsUser, "runAsGroup": sc.RunAsGroup}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *injection) reserved(who string, ids map[string]*int64) error {
	for _, field := range slices.Sorted(maps.Keys(ids)) {
		if id := ids[field]; id != nil && *id == in.settings.UID {
			return refuse(ReservedID, "%s has %s %d, which is the sidecar's alone: choose another id", who, strings.TrimSpace(field), *id)
		}
	}
	return nil
}
