package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/devissuer"
	"github.com/toolgate/toolgate/proxy"
)

const (
	ordersHost     = "orders.quickstart.test"
	ordersAudience = "https://" + ordersHost
)

// ordersAPI is an HTTPS upstream that serves nobody without a token for its audience with the right scope.
type ordersAPI struct {
	issuer *devissuer.Issuer
	server *http.Server
	port   int
	ca     []byte // PEM

	mu    sync.Mutex
	saw   map[string]any // claims of the last token
	token string
}

func startOrders(issuer *devissuer.Issuer) (*ordersAPI, error) {
	ca, err := proxy.NewCA()
	if err != nil {
		return nil, err
	}
	leaf, err := ca.Leaf(ordersHost)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &ordersAPI{issuer: issuer, ca: ca.PEM(), port: ln.Addr().(*net.TCPAddr).Port}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/orders/{id}", u.order)
	mux.HandleFunc("POST /v1/refunds/drafts", u.draft)
	u.server = &http.Server{
		Handler: u.guarded(mux), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = u.server.ServeTLS(ln, "", "") }()
	return u, nil
}

func (u *ordersAPI) close() { _ = u.server.Close() }

// guarded demands a token of the issuer, for this API, with orders:read.
func (u *ordersAPI) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		claims, err := u.issuer.Verify(token, ordersAudience)
		if err != nil {
			http.Error(w, "token not accepted", http.StatusUnauthorized)
			return
		}
		u.mu.Lock()
		u.saw, u.token = claims, token
		u.mu.Unlock()
		if scope, _ := claims["scope"].(string); !strings.Contains(" "+scope+" ", " orders:read ") {
			http.Error(w, "scope orders:read is required", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// order answers with an order, or, for "stream", with its events once in 100 ms for as long as the client listens.
func (u *ordersAPI) order(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != "stream" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": r.PathValue("id"), "state": "delivered"})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if _, err := fmt.Fprintf(w, "data: {\"event\": %d}\n\n", n); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func (u *ordersAPI) draft(w http.ResponseWriter, r *http.Request) {
	var draft struct {
		Order string `json:"order"`
	}
	if err := json.NewDecoder(r.Body).Decode(&draft); err != nil || draft.Order == "" {
		http.Error(w, "a draft names its order", http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // to its end: the answer must not overtake the body
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"draft": "rd-1", "state": "waits for approval"})
}

// last returns the claims of the last token, and the token.
func (u *ordersAPI) last() (map[string]any, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.saw, u.token
}

// trust returns the pool of one PEM certificate.
func trust(pem []byte) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}
