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
		if i.CACertFile != "" {
			ca, err = proxy.LoadCA(i.CACertFile, i.CAKeyFile)
		} else {
			ca, err = proxy.NewCA()
		}
		if err != nil {
			return fmt.Errorf("intercept: %w", err)
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

// publish writes the certificate of the CA where tools will look for it. Its key is written nowhere.
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
		store, err := roots.TrustStore(all)
		if err == nil {
			err = roots.WriteFile(i.TrustStoreFile, store)
		}
		if err != nil {
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
