// Command upstream is a partner of the tests' tools: an API and its authorization server, over TLS by the pair in /etc/tls.
//
//	:8443 /        what is asked, and whether a credential came along
//	      /orders  for who shows a token of the authorization server for this API, and for nobody else
//	      /stream  a line every 10 ms for as long as the client reads
//	      /git/    a repository, as far as git ls-remote asks
//	:9443 /token   exchanges tokens of the cluster's service accounts (RFC 8693), verified by its own means
package main

import (
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/toolgate/toolgate/devissuer"
)

const (
	certFile = "/etc/tls/tls.crt"
	keyFile  = "/etc/tls/tls.key"
	audience = "https://orders.partner" // of the API
)

func main() {
	issuer, err := devissuer.New(devissuer.Options{URL: "https://issuer.partner.svc.cluster.local", Subject: serviceAccount})
	if err != nil {
		log.Fatal(err)
	}
	issuer.RegisterClient(devissuer.Client{ID: "toolgate", Secret: os.Getenv("CLIENT_SECRET"), Scopes: []string{"orders:read"}, Audiences: []string{audience}})
	api := http.NewServeMux()
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		credential := "no"
		if r.Header.Get("Authorization") == "Bearer "+os.Getenv("API_KEY") {
			credential = "the"
		}
		fmt.Fprintf(w, "%s %s%s with %s credential\n", r.Method, r.Host, r.URL, credential)
	})
	api.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		claims, err := issuer.Verify(token, audience)
		if err != nil {
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "orders for %s, scope %s\n", claims["sub"], claims["scope"])
	})
	api.HandleFunc("/stream", stream)
	api.HandleFunc("/git/info/refs", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s\trefs/heads/main\n", strings.Repeat("5", 40))
	})
	api.HandleFunc("/git/HEAD", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ref: refs/heads/main") })
	ended := make(chan error)
	go func() { ended <- http.ListenAndServeTLS(":8443", certFile, keyFile, api) }()
	go func() { ended <- http.ListenAndServeTLS(":9443", certFile, keyFile, issuer) }()
	log.Fatal(<-ended)
}

func stream(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		_, err := fmt.Fprintln(w, n)
		if err := cmp.Or(err, http.NewResponseController(w).Flush()); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}
