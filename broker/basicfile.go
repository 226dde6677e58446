package broker

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// BasicFile is a file with one line "user:password" that is read again when it changes: what the sidecar shows to the
// operator's upstream proxy. Neither part leaves it but as a header's value.
type BasicFile struct {
	file *watched[redact.Secret] // the header's value
}

// OpenBasicFile reads the file once, so that a mistake is found early. The error names neither the file nor what is in it.
func OpenBasicFile(path string) (*BasicFile, error) {
	f := &BasicFile{&watched[redact.Secret]{path: path, parse: parseBasic}}
	if _, err := f.file.get(); err != nil {
		return nil, err
	}
	return f, nil
}

// AppendHeader appends "Basic …" (RFC 7617 section 2) of what the file holds now to b. It is safe for concurrent use. An
// error means that the file cannot be used now; what it held before is not used then.
func (f *BasicFile) AppendHeader(b []byte) ([]byte, error) {
	value, err := f.file.get()
	if err != nil {
		return nil, err
	}
	return append(b, value.Reveal()...), nil
}

func parseBasic(b []byte) (redact.Secret, error) {
	l, err := parseLine(b)
	if err != nil {
		return redact.Secret{}, err
	}
	if user, _, colon := strings.Cut(l.value.Reveal(), ":"); !colon || user == "" {
		return redact.Secret{}, errors.New("has no user with a colon after it")
	}
	return redact.New("Basic " + base64.StdEncoding.EncodeToString([]byte(l.value.Reveal()))), nil
}
