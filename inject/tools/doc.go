// Package tools finds the manifest of a tool by its name: in folders of YAML and JSON files (mounted ConfigMaps), and in the cluster's
// ToolManifest objects, whose status it writes.
//
// A name that is defined twice stands for nothing: neither place wins, and both are named.
//
// Limits: it checks manifests with config.ParseManifest and adds no rule of its own; it looks at no pod. Only cmd/injector may import it.
package tools
