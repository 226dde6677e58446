// Command gen writes the token rules of package detect from the configuration that the gitleaks module carries. It is a module of
// its own, since the package that holds that configuration imports what a sidecar must not: viper, afero, HCL.
//
//	go generate ./redact/detect
//
// The rules stay data: identifier, expression, keywords, entropy, allowlists. What does not apply to traffic is left out: file names and
// comments, which are git's; and allowlists over a whole line, which whoever writes one part of a body could use to switch
// off a rule in another. Allowlist entries that are plain text are written as hashes, since they look like live keys.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

const module = "github.com/zricethezav/gitleaks/v8"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FILE")
		os.Exit(2)
	}
	b, err := rules()
	if err == nil {
		err = os.WriteFile(os.Args[1], b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// rules returns the file's content.
func rules() ([]byte, error) {
	version, licence, err := provenance()
	if err != nil {
		return nil, err
	}
	var in tomlConfig
	if err := toml.Unmarshal([]byte(config.DefaultConfig), &in); err != nil {
		return nil, err
	}
	out := file{Source: module + " " + version, Licence: licence, Allow: in.Allowlist.Regexes, Stop: in.Allowlist.Stopwords}
	for _, r := range in.Rules {
		if r.Regex == "" {
			continue // it judges the name of a file
		}
		allow, err := allowlists(r.Allowlists)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.ID, err)
		}
		out.Rules = append(out.Rules, rule{ID: r.ID, Regex: r.Regex, Group: r.SecretGroup, Entropy: r.Entropy, Keywords: r.Keywords, Allow: allow})
	}
	slices.SortFunc(out.Rules, func(a, b rule) int { return strings.Compare(a.ID, b.ID) })
	return encode(out)
}

// allowlists keeps those that judge the secret or its match.
func allowlists(in []tomlAllow) (out []allow, err error) {
	for _, a := range in {
		if len(a.Paths) > 0 || len(a.Commits) > 0 || a.RegexTarget == "line" {
			continue
		}
		if a.RegexTarget != "" && a.RegexTarget != "match" || a.Condition == "AND" {
			return nil, fmt.Errorf("allowlist with target %q and condition %q", a.RegexTarget, a.Condition)
		}
		o := allow{Match: a.RegexTarget == "match", Stop: a.Stopwords}
		for _, r := range a.Regexes {
			re, err := syntax.Parse(r, syntax.Perl)
			if err != nil {
				return nil, err
			}
			if re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 && len(r) > 16 {
				sum := sha256.Sum256([]byte(string(re.Rune)))
				o.Hashes = append(o.Hashes, hex.EncodeToString(sum[:]))
				continue
			}
			o.Regexes = append(o.Regexes, r)
		}
		out = append(out, o)
	}
	return out, nil
}

// encode writes one rule a line, so that a new version of the module shows as a diff that can be read.
func encode(f file) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, r := range f.Rules {
		if err := e.Encode(r); err != nil {
			return nil, err
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	b.Reset()
	f.Rules = nil
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	head := strings.TrimSuffix(b.String(), "}\n")
	return []byte(head + ",\"rules\":[\n" + strings.Join(lines, ",\n") + "\n]}\n"), nil
}

// provenance returns the module's version and licence as it lies in the module cache.
func provenance() (version, licence string, err error) {
	b, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", module).Output()
	if err != nil {
		return "", "", err
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	text, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	return version, strings.TrimSpace(string(text)), err
}
