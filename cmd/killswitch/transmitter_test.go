package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

const (
	pushToken = "a-push-token-of-the-tests"
	pollToken = "a-poll-token-of-the-tests"
)

// transmitter is an identity provider behind TLS that signs events, and holds polls until it has one.
type transmitter struct {
	*testing.T
	idp  *devissuer.Issuer
	web  *httptest.Server
	poll chan map[string]string // the next answer: SETs by jti

	mu   sync.Mutex
	acks []string
}

func newTransmitter(t *testing.T) *transmitter {
	x := &transmitter{T: t, poll: make(chan map[string]string, 1)}
	x.web = httptest.NewTLSServer(x)
	t.Cleanup(x.web.Close)
	idp, err := devissuer.New(devissuer.Options{URL: x.web.URL})
	check(t, err)
	x.idp = idp
	return x
}

func (x *transmitter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/poll" {
		x.idp.ServeHTTP(w, r)
		return
	}
	var q struct {
		Ack []string `json:"ack"`
	}
	if r.Header.Get("Authorization") != "Bearer "+pollToken || json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	x.mu.Lock()
	x.acks = append(x.acks, q.Ack...)
	x.mu.Unlock()
	var sets map[string]string
	if len(q.Ack) == 0 {
		select {
		case sets = <-x.poll:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"sets": sets})
}

func (x *transmitter) acked(jti string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.acks, jti)
}

// set signs an event about the session of a user, with changes over its claims.
func (x *transmitter) set(jti, email string, over map[string]any) string {
	x.Helper()
	claims := map[string]any{
		"exp": nil, "jti": jti, "iat": time.Now().Unix(), "aud": "https://killswitch.example",
		"sub_id": map[string]any{"format": "email", "email": email},
		"events": map[string]any{"https://schemas.openid.net/secevent/caep/event-type/session-revoked": map[string]any{"reason_admin": "the helpdesk knows"}},
	}
	maps.Copy(claims, over)
	token, err := x.idp.MintWith(map[string]any{"typ": "secevent+jwt"}, claims, "ES256")
	check(x, err)
	return token
}

// files writes what --signals names, and returns its name.
func (x *transmitter) files(dir string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.web.Certificate().Raw})
	common := fmt.Sprintf("issuer: %s\n    audiences: [https://killswitch.example]\n    algorithms: [ES256]\n    caFile: ca.pem\n"+
		"    rules: [{events: [session-revoked], selector: {subject: \"user:{email}\"}}]\n", x.web.URL)
	file := "apiVersion: toolgate/v1\nkind: Signals\ntransmitters:\n" +
		"  - name: pushes\n    push: {tokenFile: push}\n    " + common +
		"  - name: limited\n    push: {tokenFile: push}\n    tenants: [acme]\n    " + common +
		"  - name: polled\n    poll: {url: \"" + x.web.URL + "/poll\", tokenFile: poll}\n    " + common +
		"alertmanagers:\n  - {name: prod, tokenFile: push, restore: true}\n" +
		"  - {name: acme, tokenFile: push, tenants: [acme]}\n"
	for name, text := range map[string]string{"ca.pem": string(ca), "push": pushToken, "poll": pollToken, "signals.yaml": file} {
		check(x, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	return filepath.Join(dir, "signals.yaml")
}
