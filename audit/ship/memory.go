package ship

import "sync"

// Memory is a spool for lines that no file keeps. A process that ends takes with it what it holds.
type Memory struct {
	max int

	mu    sync.Mutex
	lines [][]byte
	size  int
	chain string
}

// NewMemory returns a spool of so many bytes.
func NewMemory(size int) *Memory { return &Memory{max: size} }

// push keeps a line, and reports false where there is no room.
func (m *Memory) push(line []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size+len(line) > m.max {
		return false
	}
	m.lines, m.size = append(m.lines, append([]byte(nil), line...)), m.size+len(line)
	return true
}

// Lines is Spool's.
func (m *Memory) Lines(n, size int) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, line := range m.lines[:min(n, len(m.lines))] {
		if size -= len(line); size < 0 && i > 0 {
			return m.lines[:i:i], nil
		}
	}
	n = min(n, len(m.lines))
	return m.lines[:n:n], nil
}

// Done is Spool's.
func (m *Memory) Done(n int, chain string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range m.lines[:n] {
		m.size -= len(line)
	}
	clear(m.lines[:n])
	if m.lines, m.chain = m.lines[n:], chain; len(m.lines) == 0 {
		m.lines = nil
	}
	return nil
}

// Chain is Spool's.
func (m *Memory) Chain() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chain
}

// Waiting is Spool's.
func (m *Memory) Waiting() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.lines)), nil
}

// Close is Spool's.
func (m *Memory) Close() error { return nil }
