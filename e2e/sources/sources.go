// Package sources builds the binaries that a test runs, and tells the go command what the test depends on: its cache of results knows what a test
// opened or looked at, not what a subprocess did.
//
// Limits: only what a test itself calls counts; TestMain is before the go command's watch.
//
// It imports nothing of this module. Only tests that build binaries may import it.
package sources

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Note looks at all files below root, the module's folder, so that the result of an earlier build is not taken for this one's. It
// leaves out what begins with ".git" and node_modules. Its error is that of the file system.
func Note(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			_, err = os.Stat(path)
			return err
		case d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".git"):
			return fs.SkipDir
		}
		return nil
	})
}

// Build notes the sources below root and builds the command of this name, such as "sidecar", in the folder dir. It returns the
// binary's path. Its error has what the go command said.
func Build(root, dir, name string) (string, error) {
	if err := Note(root); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, name)
	out, err := exec.Command("go", "build", "-o", bin, "github.com/toolgate/toolgate/cmd/"+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
}
