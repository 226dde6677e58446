package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	sigsjson "sigs.k8s.io/json"
)

// onlyUnknown reports whether all that a strict reading found is fields that this version does not know. A field that is there twice, or
// in another case than the API's, is one that somebody else may read differently, and stays refused.
func onlyUnknown(strict []error, raw []byte, p *corev1.Pod) bool {
	for _, err := range strict {
		if !strings.HasPrefix(err.Error(), "unknown field ") {
			return false
		}
	}
	var inAnyCase corev1.Pod
	return json.Unmarshal(raw, &inAnyCase) == nil && equality.Semantic.DeepEqual(&inAnyCase, p)
}

var errLost = errors.New("a field that this version does not know would get lost")

// withUnknown returns mutated as JSON with the fields of raw that this version does not know put back where they were: in the same
// object, which in a list is known by its name. It checks that none is missing.
func withUnknown(raw []byte, mutated *corev1.Pod, fields int) ([]byte, error) {
	text, err := json.Marshal(mutated)
	if err != nil {
		return nil, err
	}
	from, err := tree(raw)
	if err != nil {
		return nil, err
	}
	to, err := tree(text)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(graft(from, to))
	if err != nil {
		return nil, err
	}
	var read corev1.Pod
	strict, err := sigsjson.UnmarshalStrict(out, &read)
	switch {
	case err != nil:
		return nil, err
	case len(strict) != fields || !equality.Semantic.DeepEqual(&read, mutated):
		return nil, errLost
	}
	return out, nil
}

func tree(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	return v, d.Decode(&v)
}

// graft adds to an object of to the members that only from has, and does so within each pair of objects that are the same one.
func graft(from, to any) any {
	switch to := to.(type) {
	case map[string]any:
		from, ok := from.(map[string]any)
		if !ok {
			return to
		}
		for key, v := range from {
			if have, there := to[key]; there {
				to[key] = graft(v, have)
			} else {
				to[key] = v
			}
		}
	case []any:
		from, ok := from.([]any)
		if !ok {
			return to
		}
		old := map[string]any{}
		identities := identity()
		for _, v := range from {
			old[identities(v)] = v
		}
		identities = identity()
		for i, v := range to {
			if was, there := old[identities(v)]; there {
				to[i] = graft(was, v)
			}
		}
	}
	return to
}

// identity returns a function that tells the elements of one list apart: by where they are mounted, by their name, else by their place
// among those that have neither. The second of one name is another.
func identity() func(any) string {
	seen := map[string]int{}
	return func(v any) string {
		m, _ := v.(map[string]any)
		id := fmt.Sprintf("%v %v", m["mountPath"], m["name"])
		seen[id]++
		return fmt.Sprintf("%s %d", id, seen[id])
	}
}
