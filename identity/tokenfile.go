package identity

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const maxTokenFile = 64 << 10

// TokenFile is a file that holds a token and is re-read when it changes, such as a projected service-account token.
type TokenFile struct {
	Path string

	mu    sync.Mutex
	info  os.FileInfo // of the file that token was read from; nil: read again
	token string
}

// Token returns the file's trimmed contents, at most 64 KiB. It stats the file on every call and reads it when its
// identity, size or time changed. Safe for concurrent use. Errors: the file cannot be read, is empty, too large or not a
// regular file; the last good token is not used then.
func (f *TokenFile) Token() (string, error) {
	// Stat follows links: a projected volume swaps one.
	info, err := os.Stat(f.Path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("token file: not a regular file") // opening a FIFO would block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info != nil && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) {
		return f.token, nil
	}
	return f.read()
}

func (f *TokenFile) read() (string, error) {
	f.info, f.token = nil, ""
	file, err := os.Open(f.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat() // of what is read, not of what a swap has put there since
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	switch {
	case len(raw) > maxTokenFile:
		return "", errors.New("token file: larger than 64 KiB")
	case token == "":
		return "", errors.New("token file: empty")
	}
	// A file changed a moment ago may change again within the resolution of its time.
	if time.Since(info.ModTime()) > time.Second {
		f.info, f.token = info, token
	}
	return token, nil
}
