package redact

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

const marker = "hunter2-MARKER-s3cr3t"

// holder keeps a Secret in the places where printers look past methods.
type holder struct {
	Exported Secret
	hidden   Secret
	Pointer  *Secret
	Any      any
	List     []Secret
	Map      map[string]Secret
}

// Thirty ways of printing a Secret, directly and inside a struct, and none shows it.
func TestSecretIsNeverShown(t *testing.T) {
	s := New(marker)
	h := holder{s, s, &s, s, []Secret{s}, map[string]Secret{"k": s}}
	var log bytes.Buffer
	asText := slog.New(slog.NewTextHandler(&log, nil))
	asJSON := slog.New(slog.NewJSONHandler(&log, nil))
	ways := map[string]func() string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%c", "%U", "%e", "%t"} {
		ways[verb] = func() string { return fmt.Sprintf(verb, s) }
		ways[verb+" in a struct"] = func() string { return fmt.Sprintf(verb, h) }
		ways[verb+" of a pointer"] = func() string { return fmt.Sprintf(verb, &h) }
	}
	ways["Sprint"] = func() string { return fmt.Sprint(s, h, &s) }
	ways["String"] = func() string { return s.String() }
	ways["concatenated error"] = func() string { return fmt.Errorf("x: %w, %v", errors.New("y"), s).Error() }
	ways["slog text"] = func() string { asText.Info("m", "s", s, "h", h, "p", &s); return log.String() }
	ways["slog JSON"] = func() string { asJSON.Info("m", "s", s, "h", h, "p", &s); return log.String() }
	ways["slog group"] = func() string { asJSON.WithGroup("g").With("s", s).Info("m"); return log.String() }
	ways["JSON"] = func() string { b, _ := json.Marshal(s); return string(b) }
	ways["JSON in a struct"] = func() string { b, _ := json.Marshal(h); return string(b) }
	ways["JSON key"] = func() string { b, _ := json.Marshal(map[Secret]int{s: 1}); return string(b) }
	ways["XML"] = func() string { b, _ := xml.Marshal(s); return string(b) }
	ways["template"] = func() string {
		var b strings.Builder
		_ = template.Must(template.New("").Parse("{{.}} {{.Exported}} {{printf \"%#v\" .}}")).Execute(&b, h)
		return b.String()
	}
	ways["panic value"] = func() (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		panic(s)
	}
	if len(ways) < 30 {
		t.Fatalf("only %d ways", len(ways))
	}
	for name, way := range ways {
		if got := way(); strings.Contains(got, "hunter2") || strings.Contains(got, "68756e746572") || strings.Contains(got, "68756E746572") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSecretValue(t *testing.T) {
	s := New(marker)
	if s.Reveal() != marker || s.IsZero() || !(Secret{}).IsZero() || !New("").IsZero() || (Secret{}).Reveal() != "" {
		t.Error("Reveal or IsZero is wrong")
	}
	if !s.Equal(New(marker)) || s.Equal(New(marker+"x")) || s.Equal(Secret{}) || !(Secret{}).Equal(New("")) {
		t.Error("Equal is wrong")
	}
}
