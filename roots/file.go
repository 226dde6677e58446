package roots

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a file that everyone may read. Its folder must exist. A file that holds the same already stays as it is. Another one
// of ours is overwritten where it is, and not replaced: a container that mounts the file alone (a subPath of Kubernetes) has the
// file and not its name, and would keep the old contents until it is started again. Whoever reads in the instant of the writing may
// see the end of the old contents, or less; what comes before the first difference is there at any time. A new file appears whole.
func WriteFile(name string, contents []byte) error {
	dir := filepath.Dir(name)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no folder %s", name, dir)
	}
	if done, err := overwrite(name, contents); done || err != nil {
		return err
	}
	return create(name, contents)
}

// overwrite gives a regular file of the name the contents. It is not done if there is none that this process may write: a link may lead
// to a file that is somebody else's.
func overwrite(name string, contents []byte) (done bool, err error) {
	named, err := os.Lstat(name)
	if err != nil || !named.Mode().IsRegular() || named.Mode().Perm() != fileMode {
		return false, nil
	}
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR, 0)
	if err != nil {
		return false, nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if st, err := f.Stat(); err != nil || !os.SameFile(st, named) {
		return false, nil
	}
	old, err := io.ReadAll(io.LimitReader(f, named.Size()+1))
	if err != nil {
		return false, nil
	}
	if bytes.Equal(old, contents) {
		return true, nil
	}
	same := 0
	for same < len(old) && same < len(contents) && old[same] == contents[same] {
		same++
	}
	_, err = f.WriteAt(contents[same:], int64(same))
	return true, errors.Join(err, f.Truncate(int64(len(contents))))
}

const fileMode = 0o644

func create(name string, contents []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".toolgate-*")
	if err != nil {
		return err
	}
	_, werr := tmp.Write(contents)
	err = errors.Join(werr, tmp.Chmod(fileMode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
