package roots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile writes a file that everyone may read, whole or not at all: whoever opens the name sees the old contents or the new ones.
// Its folder must exist.
func WriteFile(name string, contents []byte) error {
	dir := filepath.Dir(name)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no folder %s", name, dir)
	}
	tmp, err := os.CreateTemp(dir, ".toolgate-*")
	if err != nil {
		return err
	}
	_, werr := tmp.Write(contents)
	err = errors.Join(werr, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
