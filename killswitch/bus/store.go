package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// StateFile is the name of the file in the state folder.
const StateFile = "killswitch.state"

// The file is text. Its first line says what it is, its second the SHA-256 of everything after it, its third a checkpoint
// (empty where the log is known from its beginning), and each line after that the next entry, all in their signed form.
// So a file that was torn is known by its sum, and one that was tampered with by the signatures and the chain.
const stateMagic = "toolgate kill switch state v1\n"

// maxState bounds the file. A log whose control plane makes checkpoints stays far below it.
const maxState = 64 << 20

// ErrNoState is the error of LoadState where no file is.
var ErrNoState = errors.New("no saved kill switch state")

// saved is what the state was made from.
type saved struct {
	checkpoint []byte
	first      uint64 // revision of entries[0]
	entries    [][]byte
}

// begin starts over from a checkpoint.
func (s *saved) begin(c *ledger.Checkpoint, raw []byte) {
	*s = saved{checkpoint: raw, first: c.Revision + 1}
}

func (s *saved) add(e *ledger.Entry, raw []byte) {
	if len(s.entries) == 0 {
		s.first = e.Revision
	}
	s.entries = append(s.entries, raw)
}

// newest is the last entry, or the checkpoint where nothing came after it.
func (s *saved) newest() []byte {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1]
	}
	return s.checkpoint
}

// keepLast forgets all but the newest, where no file is written.
func (s *saved) keepLast() {
	if n := len(s.entries); n > 1 {
		*s = saved{first: s.first + uint64(n-1), entries: [][]byte{s.entries[n-1]}}
	}
}

// compact takes a checkpoint, which was verified, in place of the entries up to it, and reports whether it is one of this
// history: its head must be the hash of an entry that is here.
func (s *saved) compact(c *ledger.Checkpoint, raw []byte, log string) bool {
	if c.Log != log || len(s.entries) == 0 || c.Revision < s.first || c.Revision-s.first >= uint64(len(s.entries)) {
		return false
	}
	at := c.Revision - s.first
	sum := sha256.Sum256(s.entries[at])
	if ledger.Hash("sha256:"+hex.EncodeToString(sum[:])) != c.Head {
		return false
	}
	*s = saved{checkpoint: raw, first: c.Revision + 1, entries: slices.Clone(s.entries[at+1:])}
	return true
}

// clone returns a copy for another goroutine. The texts themselves are never changed.
func (s *saved) clone() *saved {
	return &saved{checkpoint: s.checkpoint, first: s.first, entries: slices.Clone(s.entries)}
}

func (s *saved) encode() []byte {
	var body bytes.Buffer
	body.Write(s.checkpoint)
	body.WriteByte('\n')
	for _, e := range s.entries {
		body.Write(e)
		body.WriteByte('\n')
	}
	sum := sha256.Sum256(body.Bytes())
	return slices.Concat([]byte(stateMagic), []byte("sha256:"+hex.EncodeToString(sum[:])+"\n"), body.Bytes())
}

// write replaces the file in one step that survives a crash at any moment.
func (s *saved) write(dir string) (err error) {
	text := s.encode()
	if len(text) > maxState {
		return fmt.Errorf("the state has %d bytes, more than %d; the control plane's checkpoint would shorten it", len(text), maxState)
	}
	path := filepath.Join(dir, StateFile)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path + ".new")
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// LoadState reads the last verified state from the folder and verifies it again. Its error is ErrNoState where there is no
// file; a file that is torn, was tampered with or is signed with other keys is another error, and gives nothing.
func LoadState(dir string, keys ledger.Keys) (*ledger.State, error) {
	state, _, err := loadState(dir, keys)
	return state, err
}

func loadState(dir string, keys ledger.Keys) (*ledger.State, *saved, error) {
	f, err := os.Open(filepath.Join(dir, StateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, ErrNoState
	case err != nil:
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(text) > maxState:
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), maxState)
	}
	state, s, err := decodeState(text, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return state, s, nil
}

func decodeState(text []byte, keys ledger.Keys) (*ledger.State, *saved, error) {
	rest, ok := bytes.CutPrefix(text, []byte(stateMagic))
	if !ok {
		return nil, nil, errors.New("not a kill switch state of this version")
	}
	line, body, _ := bytes.Cut(rest, []byte("\n"))
	sum := sha256.Sum256(body)
	if string(line) != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, nil, errors.New("torn or changed: the checksum does not fit")
	}
	first, body, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return nil, nil, errors.New("no line for the checkpoint")
	}
	state, s := new(ledger.State), new(saved)
	if len(first) > 0 {
		c, err := keys.DecodeCheckpoint(first)
		if err == nil {
			err = state.Begin(c)
		}
		if err != nil {
			return nil, nil, err
		}
		s.begin(c, first)
	}
	for raw := range bytes.Lines(body) {
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		e, err := keys.Decode(raw)
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, nil, err
		}
		s.add(e, raw)
	}
	if state.Revision == 0 {
		return nil, nil, errors.New("it holds nothing")
	}
	return state, s, nil
}
