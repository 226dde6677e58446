package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a sink that appends to a file, and begins another when that is full or somebody has moved it away. It is a Log's, which writes
// whole lines from one goroutine; it is not safe for more.
type File struct {
	path     string
	max      int64 // bytes; 0: no bound
	keep     int
	f        *os.File
	regular  bool // what can be moved, measured and synced: no pipe and no device
	midLine  bool // what was written last is not the end of a line
	repair   bool // the file ends within a line of a process before
	unsynced bool // the folder may not know of the file yet
}

// OpenFile opens or makes a file, mode 0640, and returns with it where the chain in it stands, or in the file that was renamed last where
// it is empty. A last line that is not complete is left as it is, for the Verifier to find, and ended before anything is written.
//
// A file of maxBytes, if that is not 0, is renamed: "name.000001", "name.000002" and so on; keep of them stay. Lines are never split over
// two files.
func OpenFile(path string, maxBytes int64, keep int) (*File, Head, error) {
	f := &File{path: filepath.Clean(path), max: maxBytes, keep: keep}
	if err := f.open(); err != nil {
		return nil, Head{}, err
	}
	if !f.regular {
		return f, Head{}, nil
	}
	head, empty, err := lastOf(f.path)
	if err == nil && empty {
		if old := rotated(f.path); len(old) > 0 {
			head, _, err = lastOf(old[len(old)-1])
			if errors.Is(err, ErrCut) {
				err = nil // of a file that is closed
			}
		}
	}
	f.repair = errors.Is(err, ErrCut)
	if err != nil && !f.repair {
		_ = f.f.Close()
		return nil, Head{}, err
	}
	return f, head, nil
}

func lastOf(path string) (h Head, empty bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return Head{}, false, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return Head{}, true, err
	}
	h, err = Last(f)
	return h, false, err
}

func (f *File) open() error {
	o, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	st, err := o.Stat()
	if err != nil {
		_ = o.Close()
		return err
	}
	f.f, f.regular, f.unsynced = o, st.Mode().IsRegular(), true
	return nil
}

// Regular reports whether the file keeps what is written to it: no pipe and no device.
func (f *File) Regular() bool { return f.regular }

// Write appends lines.
func (f *File) Write(b []byte) (int, error) {
	if f.regular && !f.midLine {
		if err := f.turn(len(b)); err != nil {
			return 0, err
		}
	}
	if f.repair {
		if _, err := f.f.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		f.repair = false
	}
	n, err := f.f.Write(b)
	if n > 0 {
		f.midLine = b[n-1] != '\n'
	}
	return n, err
}

// turn goes on in another file where this one was moved, or is full.
func (f *File) turn(more int) error {
	at, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mine, err := f.f.Stat()
	if err != nil {
		return err
	}
	if at == nil || !os.SameFile(at, mine) {
		return f.next()
	}
	if f.max == 0 || mine.Size() == 0 || mine.Size()+int64(more) <= f.max {
		return nil
	}
	old := rotated(f.path)
	n := 1
	if len(old) > 0 {
		n = number(f.path, old[len(old)-1]) + 1
	}
	if err := os.Rename(f.path, numbered(f.path, n)); err != nil {
		return err
	}
	for i := range max(0, len(old)+1-f.keep) {
		_ = os.Remove(old[i]) // what cannot be deleted now is tried again the next time
	}
	return f.next()
}

// next opens the file that is now under the name. The one before is safe first: whoever waits for its lines is told after a sync of the
// new one only.
func (f *File) next() error {
	was := f.f
	if err := was.Sync(); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	f.repair = false
	return was.Close()
}

// Commit returns when all that was written will survive a crash of the machine.
func (f *File) Commit() error {
	if !f.regular {
		return nil
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	if !f.unsynced {
		return nil
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		return err
	}
	f.unsynced = false
	return nil
}

// Close syncs and closes the file.
func (f *File) Close() error { return errors.Join(f.Commit(), f.f.Close()) }
