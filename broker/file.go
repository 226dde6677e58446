package broker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// maxFile bounds what is read as a secret, a key or a token.
const maxFile = 64 << 10

// settled is how old a change must be before an equal size and time prove an equal content: file systems stamp in ticks,
// and two writes within one tick look the same.
const settled = 2 * time.Second

// watched is a file that is read again when it has changed. It asks the file system each time rather than listening,
// since projected volumes are replaced by swapping a symlink above the file.
type watched[T any] struct {
	path  string
	parse func([]byte) (T, error) // its error must not quote the content
	every time.Duration           // how long one look counts, where it would be at each call; 0: not at all
	last  atomic.Pointer[version[T]]
	seen  atomic.Int64 // when last was found to be current, in ns; used with every
}

type version[T any] struct {
	info    os.FileInfo
	settled bool
	value   T
}

func (w *watched[T]) get() (T, error) {
	v := w.last.Load()
	if v != nil && w.every > 0 && time.Since(time.Unix(0, w.seen.Load())) < w.every {
		return v.value, nil
	}
	if v != nil && v.settled {
		info, err := os.Stat(w.path)
		if err == nil && info.Size() == v.info.Size() && info.ModTime().Equal(v.info.ModTime()) && os.SameFile(info, v.info) {
			w.seen.Store(time.Now().UnixNano())
			return v.value, nil
		}
	}
	return w.read()
}

func (w *watched[T]) read() (T, error) {
	var none T
	b, info, err := readFile(w.path, maxFile)
	if err != nil {
		return none, err
	}
	value, err := w.parse(b)
	if err != nil {
		return none, err
	}
	w.seen.Store(time.Now().UnixNano())
	w.last.Store(&version[T]{info, time.Since(info.ModTime()) > settled, value})
	return value, nil
}

// readFile returns the content with the state of the very file that it came from. Its errors do not repeat the path.
func readFile(path string, limit int64) ([]byte, os.FileInfo, error) {
	// Opening a pipe would wait for a writer.
	if info, err := os.Stat(path); err != nil {
		return nil, nil, cause(err)
	} else if !info.Mode().IsRegular() {
		return nil, nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, cause(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, nil, cause(err)
	case int64(len(b)) > limit:
		return nil, nil, fmt.Errorf("is larger than %d KiB", limit>>10)
	}
	return b, info, nil
}

func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// line is the one line of a secret or token file.
type line struct {
	value redact.Secret
	hash  string // SHA-256, hex
}

// parseLine takes off one newline, which editors and shells add, and refuses what could end a header or hide a second value.
func parseLine(b []byte) (line, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if s == "" {
		return line{}, errors.New("is empty")
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' { // it does not reach a header's reader, and what comes back of it would not be known again
		return line{}, errors.New("begins or ends with a space")
	}
	for _, c := range []byte(s) {
		switch {
		case c == '\r' || c == '\n':
			return line{}, errors.New("holds more than one line")
		case c < ' ' || c >= 0x7f:
			return line{}, errors.New("holds a character that is not visible ASCII")
		}
	}
	return line{redact.New(s), hash(s)}, nil
}

func watchLine(path string) *watched[line] { return &watched[line]{path: path, parse: parseLine} }
