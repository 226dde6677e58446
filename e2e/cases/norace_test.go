//go:build !race

package cases

const raceEnabled = false
