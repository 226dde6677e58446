package certs

import (
	"bytes"
	"os"
	"path/filepath"
)

// writeFile puts what the injector's settings name into the folder for it, whole or not at all, and only when it differs: a change has the
// settings read again.
func (k *Keeper) writeFile(name string, content []byte) error {
	if k.Files == "" || len(content) == 0 {
		return nil
	}
	path := filepath.Join(k.Files, name)
	if old, err := os.ReadFile(filepath.Clean(path)); err == nil && bytes.Equal(old, content) {
		return nil
	}
	f, err := os.CreateTemp(k.Files, "."+name+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
