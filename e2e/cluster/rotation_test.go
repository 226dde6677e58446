//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestRotation: the CA and all its certificates are replaced while pods are created. No creation fails, and at no moment does a replica show a
// leaf that whoever reads the configurations does not trust.
func TestRotation(t *testing.T) {
	r := serving(t, orders, "--ca-overlap=3s", "--certificate-interval=1s")
	k := r.inNamespace(t, "toolgate/inject=enabled", "toolgate/tool=orders")
	before := r.secrets(t)
	old := r.bundle(t)
	stop, _ := k.load(t, r.api, 2, 100*time.Millisecond, false)
	handshakes, overlap := r.watchTrust(t)
	r.kubectl(t, "annotate", "secret", "toolgate-ca", "toolgate/rotate-ca=now")
	r.await(t, "the end of the old CA", func() error {
		now := r.secrets(t)
		switch ca := now["toolgate-ca"]; {
		case string(ca["tls.crt"]) == string(before["toolgate-ca"]["tls.crt"]):
			return errors.New("the old CA signs")
		case ca["next.crt"] != nil || string(ca["ca.crt"]) != string(ca["tls.crt"]):
			return errors.New("the old CA is still trusted")
		}
		return r.allOf(now, before)
	})
	r.await(t, "the configurations", func() error {
		if got := r.bundle(t); got == old || got != base64.StdEncoding.EncodeToString(r.secrets(t)["toolgate-ca"]["ca.crt"]) {
			return errors.New("they have the bundle of before")
		}
		return nil
	})
	stop().report(t)
	if n, first := handshakes(); n == 0 || first != nil {
		t.Errorf("%d handshakes, the first fault: %v", n, first)
	} else {
		t.Logf("%d handshakes", n)
	}
	if !overlap() {
		t.Error("at no time were both CAs trusted")
	}
	r.trusted(t, r.bundle(t))
	if got := r.kubectl(t, "get", "secret", "toolgate-ca", "-o", "jsonpath={.metadata.annotations}"); got != "" {
		t.Errorf("the request is still there: %s", got)
	}
}

// secrets are the release's, by name and key.
func (r *release) secrets(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     map[string][]byte
		}
	}
	if err := r.api.get(t.Context(), "/api/v1/namespaces/"+r.namespace+"/secrets", &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]byte{}
	for _, s := range list.Items {
		all[s.Metadata.Name] = s.Data
	}
	return all
}

// allOf returns an error until every leaf is new and of the CA that signs, and trusts no other.
func (r *release) allOf(now, before map[string]map[string][]byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(now["toolgate-ca"]["tls.crt"])
	for _, name := range []string{"toolgate-injector-tls", "toolgate-killswitch-tls", "toolgate-gateway-tls"} {
		pair, err := tls.X509KeyPair(now[name]["tls.crt"], now[name]["tls.key"])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if string(now[name]["tls.key"]) == string(before[name]["tls.key"]) || string(now[name]["ca.crt"]) != string(now["toolgate-ca"]["ca.crt"]) {
			return fmt.Errorf("%s is of before", name)
		}
	}
	return nil
}

// watchTrust meets both replicas over and over as an API server does that reads the configuration and connects anew, until handshakes is
// called. overlap says whether two CAs were trusted at some time.
func (r *release) watchTrust(t *testing.T) (handshakes func() (int, error), overlap func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	var met int
	var fault error
	var both bool
	var addresses []string
	for address := range r.replicas {
		addresses = append(addresses, address)
	}
	done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			bundle, err := r.currentBundle(ctx)
			for _, address := range addresses {
				if err == nil {
					err = r.meet(ctx, address, bundle)
				}
			}
			if ctx.Err() != nil {
				return
			}
			if met++; err != nil && fault == nil {
				fault = err
			}
			both = both || certificates(bundle) > 1
		}
	})
	t.Cleanup(cancel)
	return func() (int, error) { cancel(); done.Wait(); return met, fault }, func() bool { return both }
}

func (r *release) currentBundle(ctx context.Context) ([]byte, error) {
	var c struct {
		Webhooks []struct{ ClientConfig struct{ CABundle []byte } }
	}
	err := r.api.get(ctx, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/toolgate-injector", &c)
	if err != nil || len(c.Webhooks) == 0 {
		return nil, errors.Join(err, errors.New("no webhook"))
	}
	return c.Webhooks[0].ClientConfig.CABundle, nil
}

// meet makes a handshake with a replica by the Service's name.
func (r *release) meet(ctx context.Context, address string, bundle []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	raw, err := r.m.dial(ctx, "tcp", address+":8443")
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	err = tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "toolgate-injector." + r.namespace + ".svc"}).HandshakeContext(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", address, err)
	}
	return err
}

func certificates(bundle []byte) int {
	n := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		n++
	}
	return n
}
