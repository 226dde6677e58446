package broker

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientBinding asks tokenURL for a token of the sidecar's own, with the workload's token as the assertion.
func clientBinding(t testing.TB, tokenURL string) Binding {
	return Binding{
		Name: "orders", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		ClientCredentials: &ClientCredentials{
			TokenURL: tokenURL, Audience: "https://api.orders.test",
			ClientAuth: ClientAuth{Method: "workload_token", ClientID: "toolgate", TokenFile: writeFile(t, actorSecret+"\n")},
		},
	}
}

func clientBody(more string) string {
	return `{"access_token":"` + issuedSecret + `","token_type":"Bearer","expires_in":3600` + more + `}`
}

func TestClientCredentialsIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		var mu sync.Mutex
		mode := ""
		set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			mu.Lock()
			m := mode
			mu.Unlock()
			switch m {
			case "spoil":
				write(w, 400, `{"error":"invalid_client","error_description":"`+r.PostFormValue("client_assertion")+`"}`)
			case "hang":
				<-r.Context().Done()
			default:
				write(w, 200, clientBody(""))
			}
		})
		return issuerUnderTest{
			issuer: mustExchanger(t, clientBinding(t, s.URL)), subject: alice(),
			secrets: []string{issuedSecret, subjectSecret, actorSecret}, spoil: set("spoil"), hang: set("hang"),
		}
	})
}

func TestClientCredentialsForm(t *testing.T) {
	assertion := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"toolgate"}, "client_assertion": {actorSecret},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	for name, c := range map[string]struct {
		change func(*ClientCredentials)
		want   map[string]string
	}{
		"audience": {func(*ClientCredentials) {}, map[string]string{"audience": "https://api.orders.test", "scope": "orders:read"}},
		"Entra": {
			func(c *ClientCredentials) { c.Target, c.Scopes = TargetScope, []string{"api://orders/.default"} },
			map[string]string{"scope": "api://orders/.default"},
		},
		"nameless, with a parameter": {
			func(c *ClientCredentials) { c.ClientAuth.ClientID, c.Parameters = "", []Parameter{{"a", "b"}} },
			map[string]string{"audience": "https://api.orders.test", "scope": "orders:read", "a": "b", "client_id": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, clientBody("")) })
			bd := clientBinding(t, s.URL)
			c.change(bd.ClientCredentials)
			b, found := mustNew(t, bd, Options{})
			for range 2 { // the second from the cache
				if ref := mustGet(t, b, found, alice()).Ref(); ref.Kind != "client_credentials" {
					t.Errorf("ref %+v", ref)
				}
			}
			want := url.Values{}
			for k, v := range assertion {
				want[k] = v
			}
			for k, v := range c.want {
				if want[k] = []string{v}; v == "" {
					delete(want, k)
				}
			}
			if seen := s.seen(); len(seen) != 1 || !reflect.DeepEqual(seen[0].form, want) {
				t.Errorf("%d requests, %v, want %v", len(seen), seen[0].form, want)
			}
		})
	}
}

// The token is nobody's but ours, and is held against what was asked all the same.
func TestClientCredentialsAnswer(t *testing.T) {
	jwt := func(payload string) string { return strings.Replace(clientBody(""), issuedSecret, fakeJWT(payload), 1) }
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"wider":            {clientBody(`,"scope":"orders:read admin:all"`), WiderScope},
		"narrower":         {clientBody(`,"scope":""`), NarrowerScope},
		"N_A":              {strings.Replace(clientBody(""), "Bearer", "N_A", 1), BadTokenType},
		"another audience": {jwt(`{"sub":"toolgate","aud":"https://evil.test"}`), WrongAudience},
		"no audience":      {jwt(`{"sub":"toolgate"}`), WrongAudience},
		"ours":             {jwt(`{"sub":"toolgate","aud":"https://api.orders.test"}`), ""},
	} {
		s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, c.body) })
		_, err := mustExchanger(t, clientBinding(t, s.URL)).Issue(t.Context(), alice())
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.want != "" {
			wantReason(t, err, c.want)
		}
	}
}

func TestWorkloadTokenRotates(t *testing.T) {
	s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, clientBody("")) })
	bd := clientBinding(t, s.URL)
	is := mustExchanger(t, bd)
	replace(t, bd.ClientCredentials.ClientAuth.TokenFile, "second")
	if _, err := is.Issue(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	if got := s.seen()[0].form.Get("client_assertion"); got != "second" {
		t.Errorf("sent %q", got)
	}
	if err := os.Remove(bd.ClientCredentials.ClientAuth.TokenFile); err != nil {
		t.Fatal(err)
	}
	_, err := is.Issue(t.Context(), alice())
	wantReason(t, err, SecretUnreadable)
}

// certificate returns a self-signed certificate of that name and its key, in PEM.
func certificate(t *testing.T, name string) (string, string) {
	t.Helper()
	key := ecKey(t, elliptic.P256())
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	return pemOf(t, "CERTIFICATE", der, err), pkcs8(t, key)
}

// A new certificate is shown at the next request, and one that does not fit its key is never the server's fault.
func TestClientCertificate(t *testing.T) {
	var mu sync.Mutex
	var names []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.PostFormValue("client_id"))
		mu.Unlock()
		write(w, 200, clientBody(""))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	cert, key := certificate(t, "first")
	certFile, keyFile := writeFile(t, cert), writeFile(t, key)
	bd := clientBinding(t, s.URL)
	bd.ClientCredentials.CAFile = writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	bd.ClientCredentials.ClientAuth = ClientAuth{Method: "tls_client_auth", ClientID: "toolgate", CertFile: certFile, CertKeyFile: keyFile}
	is := mustExchanger(t, bd)
	ask := func() error { _, err := is.Issue(t.Context(), alice()); return err }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	cert, key = certificate(t, "second")
	replace(t, certFile, cert)
	wantReason(t, ask(), SecretUnreadable)
	replace(t, keyFile, key)
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first toolgate", "second toolgate"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the server saw %q, want %q", names, want)
	}
}

func TestClientCredentialsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Binding)
		want   string
	}{
		"no proof":            {func(b *Binding) { b.ClientCredentials.ClientAuth = ClientAuth{Method: "none", ClientID: "c"} }, "proves nothing"},
		"two kinds":           {func(b *Binding) { b.Static = &Static{File: writeFile(t, "k")} }, "2 kinds"},
		"a token that is not": {func(b *Binding) { b.ClientCredentials.ClientAuth.TokenFile = "/nowhere/token" }, "tokenFile /nowhere/token"},
		"certificate in the clear": {func(b *Binding) {
			b.ClientCredentials.ClientAuth = ClientAuth{Method: "tls_client_auth", ClientID: "c"}
		}, "https"},
		"a parameter of ours": {func(b *Binding) { b.ClientCredentials.Parameters = []Parameter{{"scope", "admin"}} }, "setting of its own"},
	} {
		bd := clientBinding(t, "http://127.0.0.1:1/token")
		c.change(&bd)
		if _, err := New([]Binding{bd}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
