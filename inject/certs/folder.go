package certs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
)

// Folder reads tls.crt and tls.key from a folder that somebody else fills, such as a mounted Secret of cert-manager's.
type Folder struct {
	dir     string
	expires func(certificate string, notAfter time.Time)
	log     *slog.Logger
	leaf    atomic.Pointer[tls.Certificate]
}

// OpenFolder reads the folder's certificate. expires may be nil.
func OpenFolder(dir string, expires func(certificate string, notAfter time.Time), log *slog.Logger) (*Folder, error) {
	if expires == nil {
		expires = func(string, time.Time) {}
	}
	f := &Folder{dir: dir, expires: expires, log: log}
	return f, f.load()
}

func (f *Folder) files() []string {
	return []string{filepath.Join(f.dir, keyCert), filepath.Join(f.dir, keyKey)}
}

func (f *Folder) load() error {
	files := f.files()
	c, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		return err
	}
	f.leaf.Store(&c)
	f.expires(files[0], c.Leaf.NotAfter)
	return nil
}

// Run reads the files again whenever they change, until ctx ends. A pair that does not fit together is left aside: the two files may
// be replaced one after the other.
func (f *Folder) Run(ctx context.Context) {
	changed := func() {
		before := f.leaf.Load()
		if err := f.load(); err != nil {
			f.log.Error("certificates", "folder", f.dir, "error", err.Error())
			return
		}
		if now := f.leaf.Load(); before == nil || !now.Leaf.Equal(before.Leaf) {
			f.log.Info("certificates", "folder", f.dir, "change", "a leaf was read", "not_after", now.Leaf.NotAfter)
		}
	}
	// A change between the first reading and the first look of the watch sends no event, and the next may be months away.
	again := time.AfterFunc(time.Second, changed)
	defer again.Stop()
	if err := config.Watch(ctx, f.log, f.files, changed); err != nil {
		f.log.Error("certificates", "folder", f.dir, "error", err.Error())
	}
}

// GetCertificate returns the leaf, for tls.Config.
func (f *Folder) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := f.leaf.Load(); c != nil {
		return c, nil
	}
	return nil, errNoLeaf
}

// Ready returns an error while there is no leaf, or one that has expired.
func (f *Folder) Ready() error { return usable(f.leaf.Load(), time.Now()) }
