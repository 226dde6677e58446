package signals

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

const (
	maxTokens = 16 << 10 // bytes of a token file
	minToken  = 16       // bytes of a token; one that is shorter can be guessed
)

// readTokens reads a file with one bearer token (RFC 6750, section 2.1) a line. It is read anew each time, so that tokens are
// changed by changing the file; two lines let an old and a new one live side by side. The error quotes nothing of it.
func readTokens(file string) ([]string, error) {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() { // opening a pipe would wait
		return nil, errors.New("the token file cannot be read")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.New("the token file cannot be read")
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err != nil || len(b) > maxTokens {
		return nil, errors.New("the token file cannot be read or is too large")
	}
	tokens := strings.Fields(string(b))
	if len(tokens) == 0 {
		return nil, errors.New("the token file is empty")
	}
	for _, t := range tokens {
		if len(t) < minToken || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("the token file has a token that is too short or not printable ASCII")
		}
	}
	return tokens, nil
}

// authenticate returns nil when the request carries one of the file's tokens.
func authenticate(req *http.Request, file string) error {
	tokens, err := readTokens(file)
	if err != nil {
		return err
	}
	values := req.Header.Values("Authorization")
	if len(values) != 1 {
		return refuse(Unauthenticated, "the bearer token is missing")
	}
	scheme, given, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return refuse(Unauthenticated, "the bearer token is missing")
	}
	// Digests are compared: their time tells neither the length nor a prefix, and all are compared, so not which one either.
	sum := sha256.Sum256([]byte(given))
	match := 0
	for _, t := range tokens {
		want := sha256.Sum256([]byte(t))
		match |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	if match != 1 {
		return refuse(Unauthenticated, "the bearer token is wrong")
	}
	return nil
}
