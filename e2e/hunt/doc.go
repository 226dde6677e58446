// Package hunt looks for leaks. It plants a canary, a text that occurs nowhere else, in every input of a sidecar: its files, its
// environment, callers' tokens, each part of requests and answers, what issuers say. It runs the real binary through all of that
// with every level of logging, traces and metrics on, crashes it too, and then looks in everything that came out, decoded in every
// way, for any piece of a canary in a place where the table of inputs (table_test.go) does not allow it. It holds tests only.
//
// Limits: Linux, loopback alone. What nobody planted is not looked for: a new input of the sidecar needs a row of the table and a canary.
// Memory is no output: that nobody gets at it is tested by other means (memory_test.go). Nothing may import it; its tests import devissuer, broker/awstest and killswitch/bus/bustest.
package hunt
