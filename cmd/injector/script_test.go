package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the program as well: scripts find it as "injector".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"injector": main})
}

// TestScript runs testdata/script: what a person sees of the commands.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
