package config

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/toolgate/toolgate/broker"
)

// TestBindingsWithProofs: what the file says is what the broker is given.
func TestBindingsWithProofs(t *testing.T) {
	dir := corpus(t)
	s, err := Load(filepath.Join(dir, "good", "binding-proof.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, "keys", name) }
	pair := &broker.MTLS{CertFile: at("leaf.pem"), KeyFile: at("leaf-key.pem")}
	if b := s.Bindings[0]; b.Kind() != "token_exchange" || !b.TokenExchange.DPoP || !reflect.DeepEqual(b.MTLS, pair) {
		t.Errorf("%+v", b)
	}
	if b := s.Bindings[1]; b.Kind() != "mtls" || !reflect.DeepEqual(b.MTLS, pair) {
		t.Errorf("%+v", b)
	}
	idp := broker.IdentityProvider{
		TokenURL: "https://idp.example/token", ClientAuth: broker.ClientAuth{Method: "private_key_jwt", ClientID: "toolgate", KeyFile: at("leaf-key.pem")},
		SubjectTokenType: "urn:ietf:params:oauth:token-type:id_token", ActorTokenFile: at("token"), ActorTokenType: "urn:ietf:params:oauth:token-type:jwt",
		Parameters: []broker.Parameter{{Name: "connection", Value: "orders"}},
	}
	got := *s.Bindings[2].IDJAG
	if !reflect.DeepEqual(got.IdentityProvider, idp) {
		t.Errorf("identity provider %+v", got.IdentityProvider)
	}
	got.IdentityProvider = broker.IdentityProvider{}
	want := broker.IDJAG{
		TokenURL: "https://as.cdn.example/token", Issuer: "https://as.cdn.example", Resource: "https://a.cdn.example/", Scopes: []string{"cdn:read"},
		ClientAuth: broker.ClientAuth{Method: "client_secret_basic", ClientID: "toolgate-at-cdn", SecretFile: at("secret")}, MaxTTL: got.MaxTTL, Timeout: got.Timeout,
	}
	if !reflect.DeepEqual(got, want) || got.MaxTTL == 0 || got.Timeout == 0 {
		t.Errorf("%+v", got)
	}
}
