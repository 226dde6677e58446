package api

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/killswitch/central"
)

// Authenticator finds out who asks. Its error is an *central.Error of code Unauthenticated.
type Authenticator interface {
	Authenticate(r *http.Request) (central.Principal, error)
}

func unauthenticated(text string) error { return &central.Error{Code: Unauthenticated, Text: text} }

// tokenPrefix begins every token, so that scanners for leaked secrets find it.
const tokenPrefix = "tgks_"

// Tokens are bearer tokens (RFC 6750) by the SHA-256 of each. Their 130 random bits need no slow hash. The zero value
// knows nobody.
type Tokens map[[sha256.Size]byte]central.Principal

// NewToken returns a token, and the line of the tokens file that makes it p's.
func NewToken(p central.Principal) (token, line string, err error) {
	token = tokenPrefix + rand.Text()
	sum := sha256.Sum256([]byte(token))
	line = fmt.Sprintf("sha256:%s name=%s roles=%s", hex.EncodeToString(sum[:]), p.Name, joined(p.Roles))
	if len(p.Tenants) > 0 {
		line += " tenants=" + strings.Join(p.Tenants, ",")
	}
	if _, err := ParseTokens(strings.NewReader(line)); err != nil {
		return "", "", err
	}
	return token, line, nil
}

func joined(roles []central.Role) string {
	var texts []string
	for _, r := range roles {
		texts = append(texts, string(r))
	}
	return strings.Join(texts, ",")
}

// Add lets a token act as p.
func (t Tokens) Add(token string, p central.Principal) { t[sha256.Sum256([]byte(token))] = p }

// ParseTokens reads a tokens file: one token a line, empty lines and those that begin with "#" aside. The error names the
// line.
func ParseTokens(r io.Reader) (Tokens, error) {
	tokens := Tokens{}
	names := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		sum, p, err := parseToken(strings.Fields(text))
		if err == nil && names[p.Name] {
			err = fmt.Errorf("the name %q stands there twice", p.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		names[p.Name] = true
		tokens[sum] = p
	}
	return tokens, lines.Err()
}

func parseToken(words []string) (sum [sha256.Size]byte, p central.Principal, err error) {
	hash, ok := strings.CutPrefix(words[0], "sha256:")
	b, err := hex.DecodeString(hash)
	if !ok || err != nil || len(b) != len(sum) {
		return sum, p, fmt.Errorf("found no sha256: and 64 hex digits at its beginning")
	}
	copy(sum[:], b)
	seen := map[string]bool{}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if seen[key] || value == "" {
			return sum, p, fmt.Errorf("found %q twice or without value", key)
		}
		seen[key] = true
		switch key {
		case "name":
			p.Name = value
		case "roles":
			for r := range strings.SplitSeq(value, ",") {
				if !central.Role(r).Valid() {
					return sum, p, fmt.Errorf("found role %q, expected viewer, responder or admin", r)
				}
				p.Roles = append(p.Roles, central.Role(r))
			}
		case "tenants":
			// An empty name would make a list that limits to nothing look like one that limits nothing.
			p.Tenants = strings.Split(value, ",")
			for _, tenant := range p.Tenants {
				if tenant == "" {
					return sum, p, fmt.Errorf("found an empty tenant")
				}
			}
		default:
			return sum, p, fmt.Errorf("found %q, expected name=, roles= or tenants=", key)
		}
	}
	if p.Name == "" || len(p.Roles) == 0 {
		return sum, p, fmt.Errorf("name= or roles= is missing")
	}
	return sum, p, nil
}

// Authenticate takes the token from the Authorization header, and from nowhere else: a browser adds that to no request by
// itself.
func (t Tokens) Authenticate(r *http.Request) (central.Principal, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return central.Principal{}, unauthenticated("a bearer token is needed")
	}
	// The map compares hashes, so that the time tells nothing of a token.
	p, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return central.Principal{}, unauthenticated("the token is not known")
	}
	return p, nil
}
