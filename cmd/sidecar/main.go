// Command sidecar is Toolgate's data plane: the proxy that stands beside a tool, and the commands that check and explain
// its configuration.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no roots to verify upstreams and issuers by
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
