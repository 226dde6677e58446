package config

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/toolgate/toolgate/killswitch"
)

// Problem is one mistake in a file, printed as "file:line:col: message".
type Problem struct {
	File      string
	Line, Col int
	Message   string // "found …, expected …", and a hint where there is one
}

func (p Problem) String() string { panic("contract") }

// Problems is the error of Load: every mistake, sorted by file and position.
type Problems []Problem

func (p Problems) Error() string { panic("contract") }

// Load reads a config file and the manifests that it names (relative to it) and checks all of it. The error is Problems.
func Load(path string) (*Snapshot, error) { panic("contract") }

// LoadManifest reads and checks one manifest on its own, returning its risky defaults as well.
func LoadManifest(path string) (*Tool, []Problem, error) { panic("contract") }

// LoadRevocations reads a revocations file. The error is Problems.
func LoadRevocations(path string) ([]killswitch.Revocation, error) { panic("contract") }

// Store holds the Snapshot in force and replaces it whole or not at all.
type Store struct{ current atomic.Pointer[Snapshot] }

// NewStore returns a store that holds s.
func NewStore(s *Snapshot) *Store { st := &Store{}; st.current.Store(s); return st }

// Current returns the snapshot in force.
func (s *Store) Current() *Snapshot { return s.current.Load() }

// Swap puts next in force. It is the caller's to have prepared all that follows from it.
func (s *Store) Swap(next *Snapshot) { s.current.Store(next) }

// Watch calls changed, from one goroutine, whenever one of the files (or the target of a symlink on its way, as in a
// mounted ConfigMap) has changed, was replaced, removed or made, after things have been quiet for a moment (20 ms). It returns when ctx
// ends. files is asked again after each change. Glob patterns are watched by their folder.
func Watch(ctx context.Context, log *slog.Logger, files func() []string, changed func()) error {
	panic("contract")
}
