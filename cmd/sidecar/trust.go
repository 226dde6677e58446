package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/roots"
)

// openCA loads the CA, or makes one, if it is not the one that the sidecar has, and writes what tools trust it by, if that has
// changed. It is done before anything is served, so that a tool that waits for readiness finds the files.
func (a *app) openCA(i config.Intercept) error {
	next, ca := trustSum(i), a.ca
	if ca == nil || next[0] != a.trust[0] {
		var err error
		if ca, err = a.newCA(i); err != nil {
			return err
		}
	}
	if ca != a.ca || next != a.trust {
		if err := a.publish(i, ca); err != nil {
			return err
		}
	}
	a.ca, a.trust = ca, next
	return nil
}

// newCA loads the CA that is given, or the one that an earlier start has kept, or makes one.
func (a *app) newCA(i config.Intercept) (ca *proxy.CA, err error) {
	var unused error
	switch {
	case i.CACertFile != "":
		ca, err = proxy.LoadCA(i.CACertFile, i.CAKeyFile)
	case i.CAStateDir != "":
		if ca, unused, err = proxy.KeepCA(i.CAStateDir, time.Now()); err != nil {
			return nil, fmt.Errorf("intercept.caStateDir: %w", err)
		}
	default:
		ca, err = proxy.NewCA()
	}
	if err != nil {
		return nil, fmt.Errorf("intercept: %w", err)
	}
	if unused != nil {
		a.log.Warn("the kept CA is not used; tools that trust it must be restarted", "folder", i.CAStateDir, "why", unused.Error())
	}
	return ca, nil
}

// publish writes the certificate of the CA where tools will look for it, never its key.
func (a *app) publish(i config.Intercept, ca *proxy.CA) error {
	if i.CAOutFile != "" {
		if err := roots.WriteFile(i.CAOutFile, ca.PEM()); err != nil {
			return fmt.Errorf("intercept.caOutFile: %w", err)
		}
	}
	if i.BundleOutFile == "" && i.TrustStoreFile == "" {
		return nil
	}
	begun := time.Now()
	public, source := roots.Public()
	all := roots.Join(public, i.ExtraCAs, [][]byte{ca.Certificate()})
	if i.BundleOutFile != "" {
		if err := roots.WriteFile(i.BundleOutFile, roots.PEM(all)); err != nil {
			return fmt.Errorf("intercept.bundleOutFile: %w", err)
		}
	}
	if i.TrustStoreFile != "" {
		if err := roots.WriteTrustStore(i.TrustStoreFile, all); err != nil {
			return fmt.Errorf("intercept.trustStoreFile: %w", err)
		}
	}
	a.log.Info("CA certificates written", "public", len(public), "public_from", source, "extra", len(i.ExtraCAs),
		"took", time.Since(begun).Round(time.Microsecond).String())
	return nil
}

// trustSum tells one CA's files, and one set of extra CAs, from another. Without files, or with unreadable ones, it is that of
// nothing.
func trustSum(i config.Intercept) (sum [2][sha256.Size]byte) {
	var own, extra []byte
	for _, name := range []string{i.CACertFile, i.CAKeyFile} {
		if name != "" {
			b, _ := os.ReadFile(filepath.Clean(name))
			own = append(own, b...)
		}
	}
	for _, c := range i.ExtraCAs {
		extra = append(extra, c...)
	}
	return [2][sha256.Size]byte{sha256.Sum256(own), sha256.Sum256(extra)}
}
