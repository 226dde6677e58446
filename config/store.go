package config

import "sync/atomic"

// Store holds the Snapshot in force and replaces it whole or not at all.
type Store struct{ current atomic.Pointer[Snapshot] }

// NewStore returns a store that holds s.
func NewStore(s *Snapshot) *Store { st := &Store{}; st.current.Store(s); return st }

// Current returns the snapshot in force.
func (s *Store) Current() *Snapshot { return s.current.Load() }

// Swap puts next in force. It is the caller's to have prepared all that follows from it.
func (s *Store) Swap(next *Snapshot) { s.current.Store(next) }
