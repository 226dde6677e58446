//go:build race

package cases

// raceEnabled: the sidecar is built with the race detector where the tests are.
const raceEnabled = true
