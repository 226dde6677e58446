package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// folder is where the chart has its dashboards, from here.
const folder = "../toolgate/dashboards"

// dashboards are all of them, by the name of their file.
func dashboards() map[string]*boardBuilder {
	return map[string]*boardBuilder{
		"fleet":      fleet(),
		"tool":       tool(),
		"killswitch": killSwitch(),
		"injector":   injector(),
	}
}

// render returns a dashboard as it stands in its file.
func render(b *boardBuilder) ([]byte, error) {
	d, err := b.Build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, d := range dashboards() {
		text, err := render(d)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
