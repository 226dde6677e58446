package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolgate/toolgate/devissuer"
)

const (
	clientID     = "sidecar"
	clientSecret = "e2e-client-secret-5b1f0c"
	workloadSub  = "system:serviceaccount:agents:reader"
	workloadAud  = "authorization-server"
	noRevocation = "apiVersion: toolgate/v1\nkind: Revocations\nrevocations: []\n"
)

// world is everything around the sidecar. Its folder holds the sidecar's config and all files that it names.
type world struct {
	dir   string
	tasks *devissuer.Issuer // whose task tokens the sidecar believes
	dns   *dnsServer
	up    *upstream
	as    authority
	way   string // lines below egress of the sidecar's config; the gateway, if there is one
	audit string // more of the config's audit, as it stands in a flow mapping
}

// authority is the authorization server of the bindings.
type authority struct {
	issuer, tokenURL string
	clientAuth       string // as it stands in the config, a YAML flow mapping
}

// newWorld starts the peers and writes the sidecar's files. gitRoot may be empty.
func newWorld(t *testing.T, gitRoot string, as func(*testing.T, *world) authority) *world {
	t.Helper()
	tasks, stop, err := devissuer.Start(devissuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w := &world{dir: t.TempDir(), tasks: tasks, dns: newDNS(t)}
	w.as = as(t, w)
	w.up = newUpstream(t, w.as.issuer, gitRoot)
	write(t, w.dir, "upstream-ca.pem", w.up.caPEM)
	write(t, w.dir, "workload.jwt", w.mint(t, map[string]any{"sub": workloadSub, "aud": workloadAud}))
	write(t, w.dir, "task.jwt", w.task(t, "user:alice"))
	write(t, w.dir, "revocations.yaml", noRevocation)
	w.render(t, "manifest.yaml", "manifest.yaml", nil)
	return w
}

// fromFile is a sidecar's kill switch with a revocations file alone.
func (w *world) fromFile() string {
	return fmt.Sprintf("killSwitch: {file: %q}", filepath.Join(w.dir, "revocations.yaml"))
}

// render fills a template of testdata into a file of the world's folder.
func (w *world) render(t *testing.T, name, as string, more map[string]string) {
	t.Helper()
	tmpl, err := template.New(name).Option("missingkey=error").ParseFiles(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	values := map[string]string{
		"Dir": w.dir, "Port": w.up.port, "DNS": w.dns.addr, "TaskIssuer": w.tasks.URL(),
		"TokenURL": w.as.tokenURL, "ClientAuth": w.as.clientAuth, "Way": w.way, "Audit": w.audit,
	}
	maps.Copy(values, more)
	if err := tmpl.Execute(&b, values); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, as, b.String())
}

func (w *world) mint(t *testing.T, claims map[string]any) string {
	t.Helper()
	token, err := w.tasks.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// task returns a new task token for a subject, which only our workload may act for.
func (w *world) task(t *testing.T, subject string) string {
	t.Helper()
	return w.mint(t, map[string]any{
		"sub": subject, "aud": "toolgate", "tenant": "acme", "agent_id": "helpdesk", "task_id": "task-1", "run_id": "run-1",
		"scope": ordersScope, "may_act": map[string]any{"sub": workloadSub},
	})
}

// devAuthority lets the issuer of the task tokens issue the access tokens as well.
func devAuthority(t *testing.T, w *world) authority {
	t.Helper()
	w.tasks.RegisterClient(devissuer.Client{
		ID: clientID, Secret: clientSecret, Audiences: []string{ordersAudience}, Scopes: []string{ordersScope, "orders:write"},
	})
	return authority{issuer: w.tasks.URL(), tokenURL: w.tasks.TokenURL(), clientAuth: w.basicAuth(t)}
}

func (w *world) basicAuth(t *testing.T) string {
	t.Helper()
	return `{method: client_secret_basic, clientID: ` + clientID + `, secretFile: "` + write(t, w.dir, "client-secret", clientSecret+"\n") + `"}`
}

// independent returns an authority that issuer.mjs is, for a client that authenticates by method. with changes what it is told.
func independent(method string, with ...func(*authConfig)) func(*testing.T, *world) authority {
	return func(t *testing.T, w *world) authority {
		t.Helper()
		client := map[string]any{"client_id": clientID, "token_endpoint_auth_method": method}
		var auth string
		switch method {
		case "client_secret_basic":
			client["client_secret"] = clientSecret
			auth = w.basicAuth(t)
		case "private_key_jwt":
			key := newKey(t)
			client["jwks"] = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), Algorithm: "ES256", Use: "sig", KeyID: "sidecar-key"}}}
			client["token_endpoint_auth_signing_alg"] = "ES256"
			auth = `{method: private_key_jwt, clientID: ` + clientID + `, keyFile: "` + write(t, w.dir, "client-key.pem", keyPEM(t, key)) + `"}`
		}
		config := authConfig{
			Clients:   []map[string]any{client},
			Subject:   trusted{Issuer: w.tasks.URL(), Audience: "toolgate", JWKS: w.tasks.Keys()},
			Actor:     trusted{Issuer: w.tasks.URL(), Audience: workloadAud, JWKS: w.tasks.Keys()},
			Resources: map[string]string{ordersAudience: ordersScope + " orders:write"},
		}
		for _, change := range with {
			change(&config)
		}
		url := startAuthServer(t, config)
		return authority{issuer: url, tokenURL: url + "/token", clientAuth: auth}
	}
}
