package identity

import (
	"crypto/x509"
	"errors"
	"net/url"
	"testing"
	"time"
)

func TestWorkloadPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, id, tenant string
		want                bool
	}{
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa/tool", "acme", true},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa/tool", "other", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns//sa/tool", "", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa/", "acme", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa/tool/x", "acme", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa", "acme", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/acme/sa:tool", "acme", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/a/b/sa/tool", "a/b", false},
		{"spiffe://a.test/ns/{tenant}/sa/*", "spiffe://a.test/ns/{tenant}/sa/tool", "", false},
		{"spiffe://a.test/x", "spiffe://a.test/x", "", true},
		{"spiffe://a.test/x", "spiffe://a.test.evil/x", "", false},
		{"system:serviceaccount:*:tool", "system:serviceaccount:acme:tool", "", true},
		{"system:serviceaccount:*:tool", "system:serviceaccount:acme:x:tool", "", false},
		{"system:serviceaccount:*:tool", "system/serviceaccount/acme/tool", "", false},
		{"dns:tool.test", "dns:tool.test", "", true},
		{"dns:*", "dns:tool.test", "", true},
		{"dns:*", "", "", false},
	} {
		var p WorkloadPattern
		if err := p.UnmarshalText([]byte(tt.pattern)); err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tt.id, tt.tenant); got != tt.want {
			t.Errorf("%s on %s for tenant %q: %v", tt.pattern, tt.id, tt.tenant, got)
		}
	}
	if (WorkloadPattern{}).Match("", "") || (WorkloadPattern{}).Match("x", "") {
		t.Error("the zero pattern matches")
	}
	for _, bad := range []string{"", "*", "*:*", "spiffe://*/x", "spiffe://{tenant}/x", "a*", "ns/x{tenant}", "ns/{other}", "a b", "a\n", "ä"} {
		if err := new(WorkloadPattern).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestVerifyCertificateWithoutRoots: no roots are not the system's.
func TestVerifyCertificateWithoutRoots(t *testing.T) {
	var invalid *InvalidError
	if _, err := VerifyCertificate([]*x509.Certificate{{}}, nil, time.Now()); !errors.As(err, &invalid) || invalid.Reason != "issuer" {
		t.Error(err)
	}
	if _, err := VerifyCertificate(nil, x509.NewCertPool(), time.Now()); !errors.Is(err, ErrNoWorkload) {
		t.Error(err)
	}
}

// TestCertificateNames: a certificate is one SPIFFE ID, or its names, and never both.
func TestCertificateNames(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, tt := range map[string]struct {
		cert x509.Certificate
		want string // the first; empty: refused
	}{
		"SPIFFE ID":     {x509.Certificate{URIs: []*url.URL{uri("spiffe://a.test/x")}, DNSNames: []string{"b.test"}}, "spiffe://a.test/x"},
		"two":           {x509.Certificate{URIs: []*url.URL{uri("spiffe://a.test/x"), uri("spiffe://a.test/y")}}, ""},
		"another URI":   {x509.Certificate{URIs: []*url.URL{uri("https://a.test/x")}, DNSNames: []string{"b.test"}}, ""},
		"name":          {x509.Certificate{DNSNames: []string{"B.test"}}, "dns:b.test"},
		"neither":       {x509.Certificate{}, ""},
		"user info URI": {x509.Certificate{URIs: []*url.URL{uri("dns:b.test")}}, ""},
	} {
		ids, err := certificateNames(&tt.cert)
		if (err != nil) != (tt.want == "") || err == nil && ids[0] != tt.want {
			t.Errorf("%s: %q %v", name, ids, err)
		}
	}
}
