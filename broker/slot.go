package broker

import (
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// slot is where on a request a secret goes, as the configuration says: a header, a query parameter or Basic authentication.
type slot struct {
	header, prefix string // header empty: Authorization
	query          string
	basic          bool
}

func (s slot) check() error {
	switch {
	case s.basic && (s.header != "" || s.prefix != "" || s.query != ""):
		return errors.New("basic is the Authorization header; no other header, prefix or query parameter can be set beside it")
	case s.query != "" && (s.header != "" || s.prefix != ""):
		return errors.New("a secret goes into a header or into a query parameter, not both")
	case s.query != "":
		return checkQueryName(s.query)
	case s.basic:
		return nil
	}
	for _, b := range []byte(s.prefix) {
		if b < ' ' || b >= 0x7f {
			return errors.New("prefix holds a character that no header may carry")
		}
	}
	return checkHeaderName(orElse(s.header, "Authorization"))
}

// shortest is how long a part of a value must be to be looked for by itself: shorter ones stand in answers by chance.
const shortest = 8

// credential makes one of a value of visible ASCII. With basic, see newBasic.
func (s slot) credential(ref Ref, value string) *Credential {
	if s.query == "" {
		c := newCredential(ref, orElse(s.header, "Authorization"), s.prefix, value)
		// A file may hold the header whole, scheme and all, and an upstream repeat what is behind it.
		parts := []string{value[strings.LastIndexByte(value, ' ')+1:]}
		if pair, ok := basicPair(s.prefix + value); ok {
			_, password, _ := strings.Cut(pair, ":")
			parts = append(parts, password)
		}
		c.echoes = secrets(slices.DeleteFunc(parts, func(p string) bool { return len(p) < shortest }), value)
		return c
	}
	return (&Credential{
		ref: ref, put: &inQuery{s.query, redact.New(value)}, value: redact.New(value), echoes: secrets(escapes(value), value),
	}).watched()
}

// newBasic makes a credential of a user and a password (RFC 7617, section 2). An upstream may repeat the password, or the header.
func newBasic(ref Ref, user, password string) *Credential {
	pair := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	c := newCredential(ref, "Authorization", "Basic ", pair)
	c.value, c.echoes = redact.New(orElse(password, user)), []redact.Secret{redact.New(pair)}
	return c.watched()
}

// escapes returns the forms in which a value stands in URLs: as this package writes it, and as forms do.
func escapes(value string) []string {
	out := []string{escapeQuery(value), url.QueryEscape(value), url.PathEscape(value)}
	for _, s := range out {
		out = append(out, lowerEscape.ReplaceAllStringFunc(s, strings.ToLower))
	}
	return out
}

var lowerEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

// escapeQuery leaves no plus sign, which some read as a space and some do not.
func escapeQuery(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// secrets returns the distinct texts of a list, without those of but.
func secrets(list []string, but ...string) (out []redact.Secret) {
	seen := map[string]bool{"": true}
	for _, s := range but {
		seen[s] = true
	}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, redact.New(s))
		}
	}
	return out
}

// basicFiles are the files of a Basic.
type basicFiles struct {
	username       string
	user, password *watched[line] // nil: none
}

func openBasic(c Basic) (*basicFiles, error) {
	if (c.Username == "") == (c.UsernameFile == "") {
		return nil, errors.New("basic needs one of username and usernameFile")
	}
	if c.PasswordFile == "" && c.UsernameFile == "" {
		return nil, errors.New("basic needs a passwordFile, or a usernameFile for a user that is the secret")
	}
	f := &basicFiles{username: c.Username}
	if c.Username != "" && !isUser(c.Username) {
		return nil, errors.New("username must be of visible ASCII and spaces, without a colon")
	}
	if c.UsernameFile != "" {
		f.user = watchLine(c.UsernameFile)
	}
	if c.PasswordFile != "" {
		f.password = watchLine(c.PasswordFile)
	}
	for _, w := range []struct {
		setting string
		file    *watched[line]
	}{{"basic usernameFile", f.user}, {"basic passwordFile", f.password}} {
		if w.file == nil {
			continue
		}
		if _, err := w.file.get(); err != nil {
			return nil, fileProblem(w.setting, w.file.path, err)
		}
	}
	if _, _, err := f.get(); err != nil {
		return nil, fileProblem("basic usernameFile", c.UsernameFile, err)
	}
	return f, nil
}

// isUser refuses a colon, with which the user would end early (RFC 7617, section 2).
func isUser(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	return s != ""
}

func (f *basicFiles) get() (user, password string, err error) {
	user = f.username
	if f.user != nil {
		l, err := f.user.get()
		if err != nil {
			return "", "", err
		}
		if user = l.value.Reveal(); !isUser(user) {
			return "", "", errors.New("holds a colon, which no user may have")
		}
	}
	if f.password != nil {
		l, err := f.password.get()
		if err != nil {
			return "", "", err
		}
		password = l.value.Reveal()
	}
	return user, password, nil
}
