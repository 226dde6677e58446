//go:build race

package cases

// raceEnabled: the sidecar is built with the race detector where the tests are.
const raceEnabled = true

// many scales down what is only a matter of numbers; a program with the detector takes ten times as long.
func many(n int) int { return n / 10 }
