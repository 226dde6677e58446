package redact

import "testing"

func TestPaths(t *testing.T) {
	const in = `{"a":{"b":[{"c":1,"d":2},{"c":3}],"x.y":4},"c":5,"list":[6,7]}`
	const f = `"[REDACTED:field]"`
	for path, want := range map[string]string{
		"$.a.b[0].c":        `{"a":{"b":[{"c":` + f + `,"d":2},{"c":3}],"x.y":4},"c":5,"list":[6,7]}`,
		"$.a.b[*].c":        `{"a":{"b":[{"c":` + f + `,"d":2},{"c":` + f + `}],"x.y":4},"c":5,"list":[6,7]}`,
		"$['a']['x.y']":     `{"a":{"b":[{"c":1,"d":2},{"c":3}],"x.y":` + f + `},"c":5,"list":[6,7]}`,
		"$..c":              `{"a":{"b":[{"c":` + f + `,"d":2},{"c":` + f + `}],"x.y":4},"c":` + f + `,"list":[6,7]}`,
		"$.a":               `{"a":` + f + `,"c":5,"list":[6,7]}`,
		"$.*":               `{"a":` + f + `,"c":` + f + `,"list":` + f + `}`,
		"$.list[1]":         `{"a":{"b":[{"c":1,"d":2},{"c":3}],"x.y":4},"c":5,"list":[6,` + f + `]}`,
		"$.list[0]":         `{"a":{"b":[{"c":1,"d":2},{"c":3}],"x.y":4},"c":5,"list":[` + f + `,7]}`,
		`$.a.b..["d"]`:      `{"a":{"b":[{"c":1,"d":` + f + `},{"c":3}],"x.y":4},"c":5,"list":[6,7]}`,
		"$.nothing[3].here": in,
	} {
		s, err := NewRules(Rules{Fields: []string{path}})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if r := s.Body(jsonType, []byte(in), true); r.Text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, r.Text, want)
		}
	}
	for _, path := range []string{"$", "$a", "$.", "$.a.", "$[", "$[-1]", "$[01]", "$['a]", "$.a[?@.b]", "$[0:2]", "$['a','b']", "$.a b", "$..", `$['a\'b']`} {
		if _, err := NewRules(Rules{Fields: []string{path}}); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
	if _, err := NewRules(Rules{Classes: []string{"shoes"}}); err == nil {
		t.Error("an unknown class is taken")
	}
}
