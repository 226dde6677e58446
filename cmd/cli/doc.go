// Package cli has what the command lines of all programs have in common: how a program runs and ends, what it says of a wrong command
// line, its version, and results as text or JSON.
//
// Limits: it knows no command but version, and nothing of what the programs do.
//
// Only the commands, cmd/*, may import it; it imports nothing of ours.
package cli
