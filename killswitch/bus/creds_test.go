package bus

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"
)

// credentials returns the text of a .creds file whose JWT has these claims.
func credentials(t *testing.T, claims string) string {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + part([]byte(claims)) + "." + part(make([]byte, 64))
	return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token, seed)
}

func TestCredentials(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "user.creds")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write(credentials(t, `{"name":"sidecar-acme","sub":"U"}`))
	if user, err := userOf(good); err != nil || user != "sidecar-acme" {
		t.Errorf("%q, %v", user, err)
	}
	if err := CheckCredentials(good); err != nil {
		t.Error(err)
	}
	if user, err := userOf(""); err != nil || user != defaultUser {
		t.Errorf("without a file: %q, %v", user, err)
	}
	for name, text := range map[string]string{
		"empty": "", "no JWT": "hello\n", "no name": credentials(t, `{"sub":"U"}`), "not JSON": credentials(t, `{`),
		"a JWT alone": credentials(t, `{"name":"x"}`)[:200],
	} {
		if CheckCredentials(write(text)) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
