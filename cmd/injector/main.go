// Command injector puts Toolgate's sidecar into pods: the admission webhook of a cluster, and the same offline.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
