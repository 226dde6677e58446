package hunt

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// window is the length of the shortest piece of a canary that counts as a leak. Canaries have 26 bytes or more, so it is less than half
// of any.
const window = 12

// canary is one secret text, or one secret run of bytes.
type canary struct {
	input string // a row of the table
	where string // which call or file, for the report
	value string
}

// planted are the canaries of a run. Peers add those that they make up, such as tokens, while it runs.
type planted struct {
	mu   sync.Mutex
	list []canary
}

// plant returns a new canary of an input. It is in lower case, which survives where case does not, and has no form by which it could be
// known to be secret. It has a digit: in a query, captures replace a long value with letters and digits, and may show a word.
func (p *planted) plant(input, where string) string {
	value := strings.ToLower(rand.Text())
	for !strings.ContainsAny(value, digits) {
		value = strings.ToLower(rand.Text())
	}
	p.add(input, where, value)
	return value
}

// add makes something that exists a canary.
func (p *planted) add(input, where, value string) {
	if _, known := table[input]; !known {
		panic("the table has no input " + input)
	}
	if len(value) < window {
		panic(fmt.Sprintf("%s, %s: %q is too short to be looked for", input, where, value))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := canary{input, where, value}
	if !slices.Contains(p.list, c) {
		p.list = append(p.list, c)
	}
}

func (p *planted) all() []canary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// addToken plants the signature of a JWT, or an opaque token whole. What is in the other parts is alike in many tokens; the canaries in
// them are found when they are decoded.
func (p *planted) addToken(input, where, token string) {
	p.add(input, where+", signature", token[strings.LastIndexByte(token, '.')+1:])
}

// leak is a piece of a canary in an output where it may not be.
type leak struct {
	canary
	outlet outlet
	in     string // file or command
	around string
}

func (l leak) String() string {
	return fmt.Sprintf("%s (%s) is in %s, %s:\n  …%s…", l.input, l.where, l.outlet, l.in, l.around)
}

// output is something that came out of the sidecar.
type output struct {
	outlet outlet
	name   string
	bytes  []byte
}

// sighting is a canary in an output.
type sighting struct {
	canary
	output
	around string
}

// look finds every canary in every output.
func look(canaries []canary, outputs []output) []sighting {
	var seen []sighting
	s := newScanner(canaries)
	for _, o := range outputs {
		s.scan(o.bytes, o.outlet == crash, func(c canary, around string) { seen = append(seen, sighting{c, o, around}) })
	}
	return seen
}

// allowed reports whether the table lets an input be there. The copies of records are records.
func allowed(input string, o outlet) bool {
	may := table[input].may
	return slices.Contains(may, o) || o == copies && slices.Contains(may, records)
}

// judge returns what the table does not allow, once for each canary and outlet.
func judge(seen []sighting) []leak {
	type key struct {
		c canary
		o outlet
	}
	told := make(map[key]bool)
	var leaks []leak
	for _, s := range seen {
		if k := (key{s.canary, s.outlet}); !allowed(s.input, s.outlet) && !told[k] {
			told[k] = true
			leaks = append(leaks, leak{s.canary, s.outlet, s.name, s.around})
		}
	}
	return leaks
}

func report(t *testing.T, leaks []leak) {
	t.Helper()
	for _, l := range leaks {
		t.Error(l)
	}
}
