package central

import "encoding/json"

// canonical returns bytes that are equal for equal selectors: fields stand in a fixed order and empty ones not at all.
func canonical(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // lists of strings always marshal
	}
	return b
}
