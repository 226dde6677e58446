package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDockerfileAgrees: each image is a stage of deploy/docker/Dockerfile, with the same files, user and entry point. It reads lines: no
// engine parses the file here.
func TestDockerfileAgrees(t *testing.T) {
	text, err := os.ReadFile("../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "FROM ") {
			_, name, _ = strings.Cut(line, " AS ")
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			stages[name] += line + "\n"
		}
	}
	for _, k := range kinds {
		want := fmt.Sprintf("FROM scratch AS %s\nCOPY --from=build-%s /rootfs/%s/ /\nUSER %d:%d\nENV PATH=/\nENTRYPOINT [\"/%s\"]\n",
			k.name, k.program, k.name, uid, uid, k.program)
		if stages[k.name] != want {
			t.Errorf("found stage\n%s\nexpected\n%s", stages[k.name], want)
		}
		build := stages["build-"+k.program]
		if _, images, _ := strings.Cut(build, `-version "$VERSION" `); !strings.HasPrefix(build, "FROM source ") || !strings.Contains(" "+strings.TrimSpace(images)+" ", " "+k.name+" ") {
			t.Errorf("stage build-%s does not make %s:\n%s", k.program, k.name, build)
		}
	}
}
