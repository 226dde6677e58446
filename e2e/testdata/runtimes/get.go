// A tool written in Go: one GET by the default client. With a second argument it trusts the roots of that file and no others, as a
// program does that has its roots compiled in.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) > 2 {
		pem, err := os.ReadFile(os.Args[2])
		if err != nil {
			panic(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	res, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer res.Body.Close()
	_, _ = io.Copy(os.Stdout, res.Body)
}
