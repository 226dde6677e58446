package redact

import (
	"runtime"

	"github.com/toolgate/toolgate/redact/known"
)

// live holds the credentials of this process. There is one for all, like the key of hashes: whoever prints something must not have
// to know who holds what.
var live = known.New()

// Live makes s known to everything in this package for as long as the process holds it, and returns it: until the garbage collector
// has found that nobody does. So it covers a token in the cache, one in use that has left it, and one that was never cached. A value
// shorter than known.MinLength is not known, since it would be found by chance.
func Live(s Secret) Secret {
	if s.p != nil && live.Add(s) {
		runtime.AddCleanup(s.p, forget, *s.p)
	}
	return s
}

func forget(value string) { live.Remove(New(value)) }
