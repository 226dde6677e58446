package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"testing"
)

// nodeScript is a peer that a Node script is. Each line of its stdin is a JSON value; it ends when its stdin does.
type nodeScript struct {
	said string // its first line of stdout
	in   io.Writer
}

// startNodeScript starts the script with what it is told first, and waits for its first line. It ends with the test.
func startNodeScript(t *testing.T, name string, told any) *nodeScript {
	t.Helper()
	cmd := exec.Command(node(t), name)
	var log lockedBuffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, log.String())
		}
	})
	s := &nodeScript{in: in}
	s.tell(t, told)
	if s.said, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s did not start: %v", name, err)
	}
	return s
}

func (s *nodeScript) tell(t *testing.T, v any) {
	t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}
