package proxy

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/identity"
)

var update = flag.Bool("update", false, "write the generated tables of the documents")

const denialsPage = "../docs/denials.md"

// page reads a document.
func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sortedCodes lists the codes as the page does, by status and then by name.
func sortedCodes() []Code {
	var all []Code
	for code := range meanings {
		all = append(all, code)
	}
	slices.SortFunc(all, func(a, b Code) int {
		if d := meanings[a].status - meanings[b].status; d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	return all
}

func codesTable() string {
	var b strings.Builder
	b.WriteString("| code | status | retryable | gRPC | meaning |\n|---|---|---|---|---|\n")
	for _, code := range sortedCodes() {
		m := meanings[code]
		retry := "no"
		if m.retry > 0 {
			retry = "after " + m.retry.String()
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %d | %s | %s | %s |\n", code, code, m.status, retry, grpcNames[deny(code, "", nil).grpc()], m.title)
	}
	return b.String()
}

// TestDenialsTable: the table of the page is what the code says. With -update it is written.
func TestDenialsTable(t *testing.T) {
	const begin, end = "<!-- codes:begin -->\n", "<!-- codes:end -->"
	text := page(t, denialsPage)
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers %q", denialsPage, begin)
	}
	want := head + begin + codesTable() + end + tail
	if text == want {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not current; write it with: go test ./proxy -run TestDenialsTable -update", denialsPage)
	}
	if err := os.WriteFile(denialsPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

var codeSection = regexp.MustCompile(`(?m)^## ([a-z]+(?:_[a-z]+)*)\n\n\*\*(\d{3}) · (retryable|not retryable)\.\*\* .+\n`)

// TestDenialSections: each code has the section that its problem's type points to, with the status and the advice that
// callers get, and a word to everyone concerned; no section is of a code that there is not.
func TestDenialSections(t *testing.T) {
	text := page(t, denialsPage)
	found := map[Code]bool{}
	sections := codeSection.FindAllStringSubmatchIndex(text, -1)
	for i, at := range sections {
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		code, status, retry, body := Code(text[at[2]:at[3]]), text[at[4]:at[5]], text[at[6]:at[7]], text[at[0]:end]
		m, known := meanings[code]
		if !known || found[code] {
			t.Errorf("section %s is of an unknown code, or there twice", code)
			continue
		}
		found[code] = true
		want := "not retryable"
		if m.retry > 0 {
			want = "retryable"
		}
		if status != fmt.Sprint(m.status) || retry != want {
			t.Errorf("section %s says %s %s, the code says %d %s", code, status, retry, m.status, want)
		}
		for _, reader := range []string{"\n- Agent: ", "\n- Tool author: ", "\n- Operator: "} {
			if !strings.Contains(body, reader) {
				t.Errorf("section %s has no %q", code, strings.TrimSpace(reader))
			}
		}
	}
	for code := range meanings {
		if !found[code] {
			t.Errorf("%s has no section %q that begins with its status and whether it is retryable", denialsPage, "## "+code)
		}
	}
}

// TestProblemTypesPointAtThePage: the address in a problem ends in the page's path and the code.
func TestProblemTypesPointAtThePage(t *testing.T) {
	if !strings.HasSuffix(docs, strings.TrimPrefix(denialsPage, "..")+"#") {
		t.Errorf("problems point at %q, the page is %q", docs, denialsPage)
	}
}

// brokenSink is a disk that is full.
type brokenSink struct{}

func (brokenSink) Write([]byte) (int, error) { return 0, errors.New("no space") }

// TestNoSideEffectsWithoutRecords: while records cannot be written, a tool with side effects is held, and one without goes on.
func TestNoSideEffectsWithoutRecords(t *testing.T) {
	for effects, want := range map[string]int{"external_write": http.StatusServiceUnavailable, "none": http.StatusOK} {
		l := newLab(t, replaced(t, "sideEffects: none", "sideEffects: "+effects))
		l.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		records := audit.New(brokenSink{}, audit.Options{})
		t.Cleanup(func() { _ = records.Close(0) })
		l.proxy.audit = records
		records.Write(audit.Record{})
		for begin := time.Now(); records.Ready() == nil; runtime.Gosched() {
			if time.Since(begin) > 10*time.Second {
				t.Fatal("the log does not notice that its sink fails")
			}
		}
		status, body, err := get(l.client(l.token, false), l.url("http", "plain.ok.test", "/"))
		if err != nil || status != want {
			t.Fatalf("%s: %d %q %v", effects, status, body, err)
		}
		if want != http.StatusOK && problemOf(t, body).Code != NotReady {
			t.Errorf("%s: %s", effects, body)
		}
	}
}

// TestTraceFieldsAreKnown: every name that config takes for a trace field can be supplied here, and is missed when it is not.
func TestTraceFieldsAreKnown(t *testing.T) {
	always := []string{"policy_version", "policy_revision", "tool", "tool_name", "tool_version", "decision", "latency_ms"}
	whole := &identity.Caller{Subject: "s", Tenant: "t", Agent: "a", Task: "k", Run: "r"}
	trace := &ask{traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for _, name := range append(config.TraceFields(), "RUN_ID") {
		tool := &config.Tool{RequiredTraceFields: []string{name}}
		if c := (&call{tool: tool, caller: whole}); c.missingTraceField(c.tool, trace) != "" {
			t.Errorf("%s is missed in a call that has everything", name)
		}
		c := &call{tool: tool, caller: &identity.Caller{}}
		if got, want := c.missingTraceField(c.tool, &ask{}) == "", slices.Contains(always, name); got != want {
			t.Errorf("%s in a call that has nothing: %v", name, got)
		}
	}
	c := &call{tool: &config.Tool{RequiredTraceFields: []string{"mood"}}, caller: whole}
	if c.missingTraceField(c.tool, trace) != "mood" {
		t.Error("an unknown field is taken for given")
	}
}
