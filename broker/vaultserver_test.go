package broker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// vaultServer behaves as Vault documents its API: JWT login at jwt/, KV version 2 at secret/, credentials of a database, in one
// namespace. Its time is the test's.
type vaultServer struct {
	*httptest.Server
	clock    *clock
	tokenTTL time.Duration
	leaseTTL time.Duration
	batch    bool // its tokens can neither be renewed nor revoked

	mu     sync.Mutex
	n      int
	sealed bool
	fail   string               // "METHOD path" that answers 500
	kv     map[string]any       // of secret/data/orders/api
	jwts   map[string]string    // jwt: role
	tokens map[string]time.Time // until
	leases map[string]vaultLease
	log    []string
}

type vaultLease struct {
	token string
	until time.Time
}

const (
	vaultNamespace = "team/agents"
	workloadJWT    = "workload-jwt-SECRET"
	kvSecret       = "kv-value-SECRET"
)

func newVaultServer(t testing.TB) *vaultServer {
	v := &vaultServer{
		clock: newClock(), tokenTTL: time.Hour, leaseTTL: 10 * time.Minute, kv: map[string]any{"key": kvSecret, "user": "robot", "number": 5},
		jwts:   map[string]string{workloadJWT: "toolgate", subjectSecret: "caller"},
		tokens: map[string]time.Time{}, leases: map[string]vaultLease{},
	}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

func (v *vaultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	v.log = append(v.log, call)
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body)
	token := r.Header.Get("X-Vault-Token")
	now := v.clock.now()
	until, known := v.tokens[token]
	switch {
	case v.sealed:
		vaultErrors(w, 503, "Vault is sealed")
	case v.fail != "" && strings.HasPrefix(call, v.fail):
		vaultErrors(w, 500, "internal "+kvSecret)
	case r.Header.Get("X-Vault-Namespace") != vaultNamespace || r.Header.Get("X-Vault-Request") != "true":
		vaultErrors(w, 403, "permission denied")
	case call == "POST /v1/auth/jwt/login":
		v.login(w, body)
	case !known || !now.Before(until):
		vaultErrors(w, 403, "permission denied")
	default:
		v.serve(w, call, token, body)
	}
}

func (v *vaultServer) login(w http.ResponseWriter, body map[string]string) {
	if role := v.jwts[body["jwt"]]; role == "" || role != body["role"] {
		vaultErrors(w, 400, "error validating token: "+body["jwt"])
		return
	}
	v.n++
	token := fmt.Sprint("hvs.login-SECRET-", v.n)
	v.tokens[token] = v.clock.now().Add(v.tokenTTL)
	vaultJSON(w, map[string]any{"auth": map[string]any{
		"client_token": token, "policies": []string{"default"}, "lease_duration": int(v.tokenTTL.Seconds()), "renewable": !v.batch,
	}})
}

func (v *vaultServer) serve(w http.ResponseWriter, call, token string, body map[string]string) {
	now := v.clock.now()
	l, found := v.leases[body["lease_id"]]
	switch call {
	case "GET /v1/secret/data/orders/api":
		vaultJSON(w, map[string]any{
			"data": map[string]any{"data": v.kv, "metadata": map[string]any{"version": 3, "destroyed": false}}, "warnings": []string{"a warning"}, "lease_duration": 0,
		})
	case "GET /v1/database/creds/orders":
		v.n++
		id := fmt.Sprint("database/creds/orders/", v.n)
		v.leases[id] = vaultLease{token, now.Add(v.leaseTTL)}
		vaultJSON(w, map[string]any{
			"lease_id": id, "lease_duration": int(v.leaseTTL.Seconds()), "renewable": true, "warnings": []string{"TTL of \"768h\" exceeded"},
			"data": map[string]any{"username": fmt.Sprint("v-jwt-", v.n), "password": fmt.Sprint("lease-password-SECRET-", v.n)},
		})
	case "PUT /v1/sys/leases/renew":
		if !found || !now.Before(l.until) || !now.Before(v.tokens[l.token]) {
			vaultErrors(w, 400, "lease not found")
			return
		}
		v.leases[body["lease_id"]] = vaultLease{l.token, now.Add(v.leaseTTL)}
		vaultJSON(w, map[string]any{"lease_id": body["lease_id"], "lease_duration": int(v.leaseTTL.Seconds()), "renewable": true})
	case "PUT /v1/sys/leases/revoke":
		delete(v.leases, body["lease_id"])
		w.WriteHeader(204)
	case "POST /v1/auth/token/renew-self":
		v.tokens[token] = now.Add(v.tokenTTL)
		vaultJSON(w, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": int(v.tokenTTL.Seconds()), "renewable": true}})
	case "POST /v1/auth/token/revoke-self":
		if v.batch {
			vaultErrors(w, 400, "batch tokens cannot be revoked")
			return
		}
		delete(v.tokens, token)
		for id, l := range v.leases {
			if l.token == token {
				delete(v.leases, id)
			}
		}
		w.WriteHeader(204)
	default:
		vaultErrors(w, 404)
	}
}

func vaultJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func vaultErrors(w http.ResponseWriter, status int, list ...string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": append([]string{}, list...)})
}

// do changes the server under its lock.
func (v *vaultServer) do(f func()) { v.mu.Lock(); defer v.mu.Unlock(); f() }

// count returns how often a call came.
func (v *vaultServer) count(call string) (n int) {
	v.do(func() {
		for _, c := range v.log {
			if c == call {
				n++
			}
		}
	})
	return n
}
