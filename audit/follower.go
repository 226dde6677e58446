package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Follower reads the lines of a File in their order, across its renaming, for somebody who takes them elsewhere. What was done with is
// remembered in a file beside it, ".name.shipped", so that another process goes on there. Where that file is lost, all that is
// kept is read once more.
//
// It is not safe for concurrent use. It reads what another writes and changes nothing of it.
type Follower struct {
	path, state string
	f           *os.File
	number      int      // of f when it was opened; 0: it had the bare name
	passed      int      // the highest number that came before f
	at          int64    // where the lines begin that were not done with
	lines       [][]byte // that Lines returned last, in buffer
	ends        []int64  // where each of them ends
	buffer      []byte
	chain       string // that the last line done with is of, as whoever follows says
}

// place is what the state file holds: the last line that was done with, by what shows that it is that line.
type place struct {
	End   int64  `json:"end"`    // where it ends in its file, newline included
	Size  int    `json:"size"`   // without its newline
	Hash  string `json:"sha256"` // of it, without its newline
	Chain string `json:"chain"`
}

// Follow returns a Follower of a File's path, at the first line that was not done with.
func Follow(path string) (*Follower, error) {
	path = filepath.Clean(path)
	f := &Follower{path: path, state: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".shipped")}
	last, err := f.saved()
	if err != nil {
		return nil, err
	}
	if last.Size > 0 {
		names := append(rotated(path), path)
		for i := len(names) - 1; i >= 0; i-- {
			found, err := f.resume(names[i], &last)
			if err != nil || found {
				return f, err
			}
		}
	}
	return f, f.next()
}

// saved reads the state file. What is no state is none: what was done with is then done again.
func (f *Follower) saved() (place, error) {
	var p place
	b, err := os.ReadFile(f.state)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if json.Unmarshal(b, &p) != nil || p.Size <= 0 || p.Size > maxLine || p.End <= int64(p.Size) {
		return place{}, nil
	}
	return p, nil
}

// resume opens the file if it holds that line at that place.
func (f *Follower) resume(name string, last *place) (bool, error) {
	o, err := os.Open(filepath.Clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	line := make([]byte, last.Size)
	if _, err := o.ReadAt(line, last.End-1-int64(last.Size)); err != nil || lineHash(line) != last.Hash {
		_ = o.Close()
		return false, nil
	}
	f.f, f.at, f.chain = o, last.End, last.Chain
	if f.number = number(f.path, name); f.number > 0 {
		f.passed = f.number
	} else if old := rotated(f.path); len(old) > 0 {
		f.passed = number(f.path, old[len(old)-1])
	}
	return true, nil
}

// Chain is the name of the chain that the last line done with is of, as Done was told.
func (f *Follower) Chain() string { return f.chain }

// Lines returns lines that were not done with, the oldest first and without their newlines: at most n, of one file, and no more than max
// bytes, of which there must be room for a record. They are good until the next call. None means that there are none now.
func (f *Follower) Lines(n, most int) ([][]byte, error) {
	if most = max(most, maxLine); len(f.buffer) != most {
		f.buffer = make([]byte, most)
	}
	f.lines, f.ends = f.lines[:0], f.ends[:0]
	for {
		if err := f.open(); err != nil || f.f == nil {
			return nil, err
		}
		got, err := f.f.ReadAt(f.buffer, f.at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if f.split(f.buffer[:got], n); len(f.lines) > 0 {
			return f.lines, nil
		}
		more := true
		if got == len(f.buffer) {
			err = f.skip()
		} else {
			more, err = f.move(f.at + int64(got))
		}
		if err != nil || !more {
			return nil, err
		}
	}
}

func (f *Follower) open() error {
	if f.f == nil {
		return f.next()
	}
	st, err := f.f.Stat()
	if err == nil && st.Size() < f.at {
		f.at = 0 // truncated under our hands
	}
	return err
}

// split finds the whole lines, and leaves out empty ones.
func (f *Follower) split(b []byte, n int) {
	at := 0
	for len(f.lines) < n {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return
		}
		if i > 0 {
			f.lines, f.ends = append(f.lines, b[at:at+i]), append(f.ends, f.at+int64(at+i+1))
		}
		at += i + 1
	}
}

// skip goes on behind a line that is too long for a record, so nobody's who writes records.
func (f *Follower) skip() error {
	for {
		got, err := f.f.ReadAt(f.buffer, f.at)
		if i := bytes.IndexByte(f.buffer[:got], '\n'); i >= 0 {
			f.at += int64(i + 1)
			return nil
		}
		f.at += int64(got)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// move goes on with the file after this one, if this one is over: another has its name, and nothing follows what was read. It reports
// false if there is none yet.
func (f *Follower) move(read int64) (bool, error) {
	at, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mine, err := f.f.Stat() // after the other: whoever writes has left this one by then
	if err != nil || os.SameFile(at, mine) {
		return false, err
	}
	if mine.Size() > read {
		return true, nil // it grew while we looked
	}
	was := f.f
	if err := f.next(); err != nil {
		return false, err
	}
	_ = was.Close()
	return true, nil
}

// next opens the oldest file after f.
func (f *Follower) next() error {
	for {
		if o, n, err := f.after(); o != nil || err != nil {
			if err == nil {
				f.f, f.number, f.passed, f.at = o, n, n, 0
			}
			return err
		}
		o, err := os.Open(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if again, _, err := f.after(); again != nil || err != nil { // renamed meanwhile: it may not be the next
			_ = o.Close()
			if again != nil {
				_ = again.Close()
			}
			if err != nil {
				return err
			}
			continue
		}
		f.f, f.number, f.at = o, 0, 0
		return nil
	}
}

// after opens the renamed file after f, nil if there is none.
func (f *Follower) after() (*os.File, int, error) {
	for _, name := range rotated(f.path) {
		n := number(f.path, name)
		if n <= f.passed {
			continue
		}
		o, err := os.Open(filepath.Clean(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if same, err := f.same(o); err != nil || !same {
			return o, n, err
		}
		_ = o.Close()
		f.passed = n // it is f, by its new name
	}
	return nil, 0, nil
}

func (f *Follower) same(o *os.File) (bool, error) {
	if f.f == nil {
		return false, nil
	}
	mine, err := f.f.Stat()
	if err != nil {
		return false, err
	}
	other, err := o.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, other), nil
}

// Done notes that the first n of the lines last returned were done with, the last of them of that chain. An error means that a
// process to come will do them again.
func (f *Follower) Done(n int, chain string) error {
	if n <= 0 || n > len(f.lines) {
		return nil
	}
	f.at, f.chain = f.ends[n-1], chain
	line := f.lines[n-1]
	f.lines, f.ends = f.lines[:0], f.ends[:0]
	return f.save(&place{End: f.at, Size: len(line), Hash: lineHash(line), Chain: chain})
}

// save replaces the state file. It is not synced: after a crash of the machine, lines may be done with twice.
func (f *Follower) save(p *place) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(f.state), filepath.Base(f.state)+"-*") // never a file that somebody has put there
	if err != nil {
		return err
	}
	_, werr := next.Write(b)
	if err = errors.Join(werr, next.Close()); err == nil {
		err = os.Rename(next.Name(), f.state)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}

// Waiting counts the lines that were not done with.
func (f *Follower) Waiting() (uint64, error) {
	if f.f == nil {
		return 0, nil
	}
	n, err := countLines(f.f, f.at)
	if err != nil || f.number == 0 {
		return n, err
	}
	for _, name := range append(rotated(f.path), f.path) {
		if k := number(f.path, name); k > 0 && k <= f.passed {
			continue
		}
		o, err := os.Open(filepath.Clean(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		more, err := countLines(o, 0)
		_ = o.Close()
		if err != nil {
			return n, err
		}
		n += more
	}
	return n, nil
}

func countLines(f *os.File, from int64) (n uint64, err error) {
	b := make([]byte, 256<<10)
	for {
		got, err := f.ReadAt(b, from)
		n += uint64(bytes.Count(b[:got], []byte{'\n'}))
		from += int64(got)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Close closes the file that is being read.
func (f *Follower) Close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}
