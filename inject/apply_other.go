//go:build !linux

package inject

// Apply returns ErrUnsupported.
func Apply(Plan) error { return ErrUnsupported }

// Check returns ErrUnsupported.
func Check(Plan) error { return ErrUnsupported }

// Remove returns ErrUnsupported.
func Remove() error { return ErrUnsupported }
