package audit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const auditPage = "../docs/audit.md"

// reviewed are the records of an incident: a run reads what it must not believe, then what is private, then sends something out.
func reviewed() []Record {
	at := time.Date(2026, 11, 29, 20, 33, 39, 0, time.UTC)
	base := Record{Time: at, Kind: "request", Tenant: "acme", Run: "run-42", Decision: "allow", Mode: "enforce", SideEffects: "none", BytesIn: 10}
	with := func(id string, change func(*Record)) Record {
		r := base
		r.ID = id
		change(&r)
		return r
	}
	web := with("web", func(r *Record) { r.Tool, r.CapabilityClasses = "web", []string{"read_untrusted"} })
	read := with("read", func(r *Record) {
		r.Tool, r.CapabilityClasses, r.RunClassesBefore, r.Attempt = "crm", []string{"read_private"}, []string{"read_untrusted"}, 2
	})
	intent := with("01a22903-699a-79d5-8fc5-74a345e94537", func(r *Record) {
		r.Kind, r.Tool, r.CapabilityClasses, r.ApprovalRequired = KindIntent, "mail", []string{"external_communication"}, true
		r.RunClassesBefore, r.SideEffects, r.IdempotencyKey, r.BytesIn = []string{"read_private", "read_untrusted"}, "external_write", "5f0c", 0
		r.CredentialBinding = "mail"
	})
	mail := intent
	mail.Kind, mail.BytesOut = "request", 300
	again := mail
	again.ID = "again"
	lost := intent
	lost.ID, lost.IdempotencyKey = "lost", ""
	replay := with("replay", func(r *Record) {
		r.Tool, r.Decision, r.Reason, r.Code, r.Run = "mail", "deny", "replayed", "unauthenticated", "run-43"
	})
	return []Record{web, read, intent, mail, again, lost, replay}
}

// TestReviewQuestions runs each jq of the page on the records of an incident.
func TestReviewQuestions(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed")
	}
	page, err := os.ReadFile(auditPage)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	l := New(&out, Options{Chain: true, Process: &Process{Key: testKey(1), Every: 2}})
	for _, r := range reviewed() {
		l.Write(r)
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "records.jsonl"), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{`"kind":"intent","tool":"mail"`, `"kind":"request","tool":"mail"`},
		{`"read"`, `"01a22903`, `"again"`},
		{`"id":"read"`},
		{`"id":"01a22903`, `"id":"again"`},
		{`"kind":"intent"`, `"kind":"request"`, `"again"`, `"lost"`},
		{`"id":"read"`, `"id":"replay"`},
		{`["01a22903-699a-79d5-8fc5-74a345e94537","again"]`},
		{`"id":"lost"`},
		{`"01a22903`, `"01a22903`, `"again"`, `"lost"`},
	}
	commands := regexp.MustCompile(`(?m)^jq (-s?c) '(.+)' records\.jsonl$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != len(want) {
		t.Fatalf("the page has %d questions, and %d answers are known", len(commands), len(want))
	}
	for i, c := range commands {
		cmd := exec.Command(jq, c[1], c[2], "records.jsonl")
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if err != nil || len(lines) != len(want[i]) {
			t.Errorf("%s: %v\n%s", c[2], err, text)
			continue
		}
		for j, part := range want[i] {
			if !strings.Contains(lines[j], part) {
				t.Errorf("%s: line %d is %s, want %s", c[2], j+1, lines[j], part)
			}
		}
	}
}

// TestOpensslKeys: the page's commands make keys that are read here.
func TestOpensslKeys(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	page, err := os.ReadFile(auditPage)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	commands := regexp.MustCompile(`(?m)^openssl (.+)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, c := range commands {
		cmd := exec.Command(openssl, strings.Fields(c[1])...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c[0], err, text)
		}
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key, err := ParseKey(read("audit.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(read("audit.pub")), FormatPublicKey(public(key))} {
		if got, err := ParsePublicKey(text); err != nil || !got.Equal(public(key)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, bad := range []string{"", "ed25519:", "ed25519:AAAA", string(read("audit.pem"))} {
		if _, err := ParsePublicKey(bad); err == nil {
			t.Errorf("%q is taken for a public key", bad)
		}
	}
}
