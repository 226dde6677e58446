package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Load reads and checks a settings file, and the files with the kill switch's key and with roots that it names, relative to its own
// folder. The error is Problems, or that of reading the file.
func Load(path string) (*Settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	s, f, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	for _, r := range []struct {
		key, file string
		to        *string
	}{
		{"$.killSwitch.publicKeyFile", s.KillSwitch.PublicKeyFile, &s.KillSwitch.PublicKey},
		{"$.killSwitch.caFile", s.KillSwitch.CAFile, &s.KillSwitch.CA},
		{"$.gateway.caFile", s.Gateway.CAFile, &s.Gateway.CA},
	} {
		if r.file == "" {
			continue
		}
		if !filepath.IsAbs(r.file) {
			r.file = filepath.Join(filepath.Dir(path), r.file)
		}
		b, err := os.ReadFile(r.file)
		if err != nil {
			f.errorf(r.key, "found no readable file, expected one: %v", err)
		}
		*r.to = strings.TrimSpace(string(b))
	}
	f.certificates("$.killSwitch.caFile", s.KillSwitch.CA)
	f.certificates("$.gateway.caFile", s.Gateway.CA)
	s.Revision = revision(string(data), s.KillSwitch.PublicKey, s.KillSwitch.CA, s.Gateway.CA)
	return s, f.err()
}

// Parse checks the text of a settings file that messages call name. Files that it names are not read. The error is Problems.
func Parse(name string, data []byte) (*Settings, error) {
	s, _, err := parse(name, data)
	return s, err
}

func parse(name string, data []byte) (*Settings, *file, error) {
	f := &file{name: name}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		f.decoding(err)
		return nil, f, f.problems
	}
	f.root = parsed
	switch {
	case len(parsed.Docs) > 1:
		at := parsed.Docs[1].Start.Position
		f.problems = append(f.problems, Problem{name, at.Line, at.Column, "found a second document, expected one per file"})
	case len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil:
		f.problems = append(f.problems, Problem{name, 1, 1, "found an empty file, expected a mapping"})
	}
	if f.problems != nil {
		return nil, f, f.problems
	}
	s := defaults()
	if err := yaml.UnmarshalWithOptions(data, s, yaml.Strict()); err != nil {
		f.decoding(err)
		return nil, f, f.problems
	}
	f.check(s)
	if err := f.err(); err != nil {
		return nil, f, err
	}
	s.Revision = revision(string(data))
	return s, f, nil
}

func revision(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// file gathers the mistakes of one file and knows where its keys stand.
type file struct {
	name     string
	root     *ast.File
	problems Problems
}

func (f *file) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	return f.problems
}

// decoding takes over an error of the YAML package.
func (f *file) decoding(err error) {
	p := Problem{f.name, 1, 1, "found text that cannot be parsed, expected YAML"}
	var positioned yaml.Error
	if errors.As(err, &positioned) {
		p.Message = "found broken YAML, expected the form of a settings file: " + strings.ToValidUTF8(positioned.GetMessage(), "?")
		if t := positioned.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Col = max(t.Position.Line, 1), max(t.Position.Column, 1)
		}
	}
	f.problems = append(f.problems, p)
}

// errorf reports a mistake at a key, given as a path such as $.ca.extra; without the key, at the nearest one above it.
func (f *file) errorf(path, format string, args ...any) {
	p := Problem{f.name, 1, 1, fmt.Sprintf("%s: ", strings.TrimPrefix(path, "$.")) + fmt.Sprintf(format, args...)}
	for ; path != "$" && path != ""; path = path[:strings.LastIndexByte(path, '.')] {
		query, err := yaml.PathString(path)
		if err != nil {
			break
		}
		if n, err := query.FilterFile(f.root); err == nil && n.GetToken() != nil {
			p.Line, p.Col = n.GetToken().Position.Line, n.GetToken().Position.Column
			break
		}
	}
	f.problems = append(f.problems, p)
}
