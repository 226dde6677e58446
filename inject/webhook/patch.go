package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// operation is one of RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// makePatch returns the JSON patch that turns raw into mutated. It replaces the keys of metadata and spec that differ, whole: a diff
// within lists would describe containers that moved as containers that changed. Nothing of raw gets lost: mutated, which is JSON, has the
// fields as well that this version does not know.
func makePatch(raw, mutated []byte) ([]byte, error) {
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(raw, &before); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(mutated, &after); err != nil {
		return nil, err
	}
	var ops []operation
	for _, key := range []string{"metadata", "spec"} {
		changed, err := differing("/"+key, before[key], after[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		ops = append(ops, changed...)
	}
	return json.Marshal(ops)
}

// differing returns the operations that turn one JSON object into another, key by key.
func differing(path string, from, to json.RawMessage) ([]operation, error) {
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(to, &after); err != nil {
		return nil, err
	}
	if len(from) == 0 || string(from) == "null" {
		return []operation{{"add", path, to}}, nil
	}
	if err := json.Unmarshal(from, &before); err != nil {
		return nil, err
	}
	var ops []operation
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if !bytes.Equal(before[key], after[key]) {
			ops = append(ops, operation{"add", path + "/" + key, after[key]}) // of a member that is there, add replaces (RFC 6902, section 4.1)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[key]; !kept && string(before[key]) != "null" {
			ops = append(ops, operation{Op: "remove", Path: path + "/" + key})
		}
	}
	return ops, nil
}
