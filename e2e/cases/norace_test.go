//go:build !race

package cases

const raceEnabled = false

func many(n int) int { return n }
