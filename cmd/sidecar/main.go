// Command sidecar is Toolgate's data plane: the proxy that stands beside a tool, and the commands that check and explain
// its configuration.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
