package main

import (
	"bytes"
	"os"
	"testing"
)

// TestRulesAreTheModules fails when the file was edited by hand, or the module was updated without generating anew.
func TestRulesAreTheModules(t *testing.T) {
	want, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../gitleaks.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("gitleaks.json is not what the module gives: run go generate ./redact/detect")
	}
}
