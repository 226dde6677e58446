package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a server's certificate and key, which are read again when a file changes. Connections that stand keep what they
// began with.
type certificate struct {
	flag, certFile, keyFile string
	log                     *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate // the last good one
	of     [2]os.FileInfo   // the files that it was read from
	failed [2]os.FileInfo   // the files that were no good, so that it is said once
}

// newCertificate reads the files once: what is wrong at the start is an error.
func newCertificate(flag, certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &certificate{flag: flag, certFile: certFile, keyFile: keyFile, log: log, pair: &pair}, nil
}

// config serves the certificate.
func (c *certificate) config(protocols ...string) *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: protocols}
}

// get returns the newest good certificate. It looks at the files at each handshake, which costs little beside that.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.stat()
	if err != nil || same(now, c.of) {
		return c.pair, nil // a file that is away for a moment is being replaced
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		// Of two files one is replaced first: the next handshake looks again.
		if !same(now, c.failed) {
			c.failed = now
			c.log.Warn("the changed certificate is not usable; the last one stays", "flag", c.flag, "error", err)
		}
		return c.pair, nil
	}
	if !bytes.Equal(pair.Certificate[0], c.pair.Certificate[0]) {
		c.log.Info("certificate read again", "flag", c.flag, "not_after", pair.Leaf.NotAfter)
	}
	c.pair = &pair
	// What changed a moment ago may change again within the resolution of its time.
	if time.Since(now[0].ModTime()) > time.Second && time.Since(now[1].ModTime()) > time.Second {
		c.of = now
	}
	return c.pair, nil
}

// ends is when the newest good certificate does.
func (c *certificate) ends() time.Time {
	pair, err := c.get(nil)
	if err != nil || pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

func (c *certificate) stat() (now [2]os.FileInfo, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if now[i], err = os.Stat(name); err != nil {
			return now, err
		}
	}
	return now, nil
}

func same(a, b [2]os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
