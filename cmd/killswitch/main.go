// Command killswitch is the control plane of Toolgate's kill switch for a fleet, and the commands that talk to it: revoke,
// restore, and see who has it in force.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
