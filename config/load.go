package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/killswitch"
	"github.com/toolgate/toolgate/killswitch/signals"
)

// Load reads a config file and the manifests that it names (relative to it) and checks all of it. The manifests may be further
// documents of the file instead. env:NAME in place of a file stands for the environment variable NAME, which holds such documents:
// then there is no folder, so every file that they name is absolute. The error is Problems.
func Load(name string) (*Snapshot, error) {
	l, err := newLoader(name)
	if err != nil {
		return nil, err
	}
	b, ok := l.bundle(name)
	if !ok {
		return nil, l.err()
	}
	c := &sidecar{loader: l, bundle: b, tools: map[string]*manifest{}}
	d := decoder{report: &l.report}
	if b.together {
		d.without = "manifests"
	}
	if c.raw, ok = decodeDocument[rawConfig](l, d, b.config, "Sidecar"); !ok {
		return nil, l.err()
	}
	s := c.snapshot()
	if err := l.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// LoadManifest reads and checks one manifest on its own, returning its risky defaults and other warnings as well. The
// error is Problems.
func LoadManifest(path string) (*Tool, []Problem, error) {
	l, err := newLoader(path)
	if err != nil {
		return nil, nil, err
	}
	m := l.manifest(path, nil)
	if err := l.err(); err != nil {
		return nil, sorted(l.warnings), err
	}
	return m.tool, sorted(l.warnings), nil
}

// ParseManifest checks the text of one manifest, which messages call name. It reads no file: of an input schema no property name
// becomes known, and a warning says so. The error is Problems.
func ParseManifest(name string, text []byte) (*Tool, []Problem, error) {
	l, err := newLoader(name)
	if err != nil {
		return nil, nil, err
	}
	l.read[l.resolveBase(name)], l.closed = text, true
	m := l.manifest(name, nil)
	if err := l.err(); err != nil {
		return nil, sorted(l.warnings), err
	}
	return m.tool, sorted(l.warnings), nil
}

// LoadRevocations reads a revocations file. The error is Problems.
func LoadRevocations(path string) ([]killswitch.Revocation, error) {
	l, err := newLoader(path)
	if err != nil {
		return nil, err
	}
	raw, ok := decodeFile[rawRevocations](l, path, "Revocations")
	if !ok {
		return nil, l.err()
	}
	set := l.revocations(raw)
	if err := l.err(); err != nil {
		return nil, err
	}
	return set, nil
}

// LoadSignals reads the file that says whose security events and alerts become revocations. It contacts nobody. The error is
// Problems.
func LoadSignals(path string) (signals.Config, error) {
	l, err := newLoader(path)
	if err != nil {
		return signals.Config{}, err
	}
	raw, ok := decodeFile[rawSignals](l, path, "Signals")
	if !ok {
		return signals.Config{}, l.err()
	}
	c := l.signals(raw)
	if err := l.err(); err != nil {
		return signals.Config{}, err
	}
	return c, nil
}

// loader reads files for one snapshot and remembers which.
type loader struct {
	report
	base  string            // folder of the first file, as the user named it, for messages
	dir   string            // the same, absolute; relative names start here; empty: there is no folder
	files []string          // absolute, in the order of reading
	read  map[string][]byte // contents by absolute name; they make the revision

	closed bool // nothing is read beyond what read holds
}

func newLoader(path string) (*loader, error) {
	if strings.HasPrefix(path, environment) {
		return &loader{read: map[string][]byte{}}, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, Problems{{path, 1, 1, "found a name that cannot be made absolute, expected a file"}}
	}
	return &loader{base: filepath.Dir(path), dir: filepath.Dir(abs), read: map[string][]byte{}}, nil
}

// resolve makes a file name absolute. Empty stays empty, and so becomes, with a mistake, a name that starts at a folder where there
// is none.
func (l *loader) resolve(f field[string]) string {
	if l.dir == "" && f.V != "" && !filepath.IsAbs(f.V) {
		l.errorf(f.at, "found the relative name %s, expected an absolute one: a config from the environment has no folder", quote(f.V))
		return ""
	}
	return l.path(f.V)
}

// path is resolve without the mistake.
func (l *loader) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(l.dir, name)
}

// open reads a file, once, and lists it. Private keys count in the revision as well: they have too much entropy for 12
// digits to tell anything, and a rotated key must not look like no change. Passwords and tokens are not read here.
func (l *loader) open(abs string) ([]byte, error) {
	if b, ok := l.read[abs]; ok {
		return b, nil
	}
	if l.closed {
		return nil, fs.ErrNotExist
	}
	if !slices.Contains(l.files, abs) {
		l.files = append(l.files, abs)
	}
	b, err := readFile(abs)
	if err != nil {
		return nil, err
	}
	l.read[abs] = b
	return b, nil
}

// relative names a file from the config's folder, so that two pods with one config in two places agree on its revision.
func (l *loader) relative(abs string) string {
	rel, err := filepath.Rel(l.dir, abs)
	if err != nil {
		return filepath.ToSlash(abs)
	}
	return filepath.ToSlash(rel)
}

// revision hashes every name and its contents, each with its length in front.
func (l *loader) revision() string {
	h := sha256.New()
	for _, abs := range slices.Sorted(maps.Keys(l.read)) {
		name := l.relative(abs)
		_, _ = fmt.Fprintf(h, "%d:%s%d:", len(name), name, len(l.read[abs]))
		h.Write(l.read[abs])
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// decodeFile reads one YAML or JSON file into its raw form. ok is false when there is nothing to check further; the
// raw form of a file with mistakes is still checked, so that all come at once.
func decodeFile[T any](l *loader, path, kind string) (raw *T, ok bool) {
	b, ok := l.file(path)
	if !ok {
		return nil, false
	}
	text, ok := l.text(path, b)
	if !ok {
		return nil, false
	}
	return decodeDocument[T](l, decoder{report: &l.report}, document{text, mark{path, 1, 1}}, kind)
}

// file reads a file that must be there.
func (l *loader) file(path string) ([]byte, bool) {
	b, err := l.open(l.resolveBase(path))
	if err != nil {
		l.errorf(mark{path, 1, 1}, "found no readable file, expected one: %v", err)
	}
	return b, err == nil
}

// decodeDocument is decodeFile for text that is at hand.
func decodeDocument[T any](l *loader, d decoder, doc document, kind string) (raw *T, ok bool) {
	root := l.parse(doc.at, unindented(doc.text))
	if root == nil || !l.rightKind(root, kind) {
		return nil, false
	}
	raw = new(T)
	d.keys(root, reflect.ValueOf(raw).Elem())
	return raw, root.kind == mappingNode
}

// resolveBase turns a name that messages use into an absolute one.
func (l *loader) resolveBase(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if rel, err := filepath.Rel(l.base, path); err == nil {
		return filepath.Join(l.dir, rel)
	}
	return path
}

// rightKind stops at a file of another kind or version, of which every key would be a mistake.
func (l *loader) rightKind(root *node, kind string) bool {
	if kind == "" || root.kind != mappingNode {
		return true
	}
	ok := true
	for _, want := range [][2]string{{"apiVersion", apiVersion("").values()[0]}, {"kind", kind}} {
		for _, e := range root.entries {
			if e.key == want[0] && e.value.kind != invalidNode && e.value.text != want[1] {
				l.errorf(e.value.at, "found %s, expected %s", found(e.value), oneOf([]string{want[1]}, e.value.text))
				ok = false
			}
		}
	}
	return ok
}

// glob returns the files that a pattern of the config matches, absolute, and the absolute pattern.
func (l *loader) glob(pattern string) (files []string, absolute string, err error) {
	absolute = pattern
	if !filepath.IsAbs(pattern) {
		absolute = filepath.Join(escapeGlob(l.dir), pattern)
	}
	matches, err := filepath.Glob(absolute)
	if err != nil {
		return nil, "", err
	}
	hidden := strings.HasPrefix(filepath.Base(pattern), ".")
	for _, m := range matches {
		// A mounted ConfigMap holds folders such as ..data beside its files.
		if hidden || !strings.HasPrefix(filepath.Base(m), ".") {
			files = append(files, m)
		}
	}
	return files, absolute, nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapeGlob(dir string) string { return globEscaper.Replace(dir) }

// display names an absolute file as the user would: below the folder that the user gave.
func (l *loader) display(abs string) string {
	rel, err := filepath.Rel(l.dir, abs)
	if err != nil || !filepath.IsLocal(rel) && filepath.IsAbs(l.base) {
		return abs
	}
	return filepath.Join(l.base, rel)
}
