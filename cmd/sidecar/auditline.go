package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// recordLine is what people read of a record's line.
type recordLine struct {
	ID           string   `json:"id"`
	Time         string   `json:"time"`
	Kind         string   `json:"kind"`
	Listener     string   `json:"listener"`
	Issuer       string   `json:"issuer"`
	Tenant       string   `json:"tenant"`
	Subject      string   `json:"subject"`
	Agent        string   `json:"agent"`
	Task         string   `json:"task"`
	Run          string   `json:"run"`
	Workload     string   `json:"workload"`
	Tool         string   `json:"tool"`
	ToolVersion  string   `json:"tool_version"`
	Risk         string   `json:"risk"`
	Classes      []string `json:"capability_classes"`
	Before       []string `json:"run_classes_before"`
	SideEffects  string   `json:"side_effects"`
	Approval     bool     `json:"approval_required"`
	Decision     string   `json:"decision"`
	Code         string   `json:"code"`
	Reason       string   `json:"reason"`
	Rule         string   `json:"rule"`
	Revision     string   `json:"policy_revision"`
	Mode         string   `json:"mode"`
	Scheme       string   `json:"scheme"`
	Host         string   `json:"host"`
	Port         int      `json:"port"`
	Method       string   `json:"method"`
	Path         string   `json:"path"`
	Status       int      `json:"status"`
	ErrorClass   string   `json:"error_class"`
	Intercepted  bool     `json:"intercepted"`
	Total        float64  `json:"total_ms"`
	Policy       float64  `json:"policy_ms"`
	CredentialMS float64  `json:"credential_ms"`
	Upstream     float64  `json:"upstream_ms"`
	IntentMS     float64  `json:"intent_ms"`
	Out          int64    `json:"bytes_out"`
	In           int64    `json:"bytes_in"`
	Dials        int      `json:"dial_attempts"`
	Attempt      int      `json:"attempt"`
	Binding      string   `json:"credential_binding"`
	Kindred      string   `json:"credential_kind"`
	Audience     string   `json:"credential_audience"`
	Scopes       []string `json:"credential_scopes"`
	Expires      string   `json:"credential_expires"`
	InputType    string   `json:"input_type"`
	Shape        []string `json:"input_shape"`
	Idempotency  string   `json:"idempotency_key"`
	Revocation   string   `json:"revocation_id"`
	Gateway      string   `json:"gateway_decision_id"`
	Sidecar      string   `json:"sidecar_decision_id"`
	TraceID      string   `json:"trace_id"`
	Seq          uint64   `json:"seq"`
	Chain        string   `json:"chain"`
	KeyID        string   `json:"key_id"`
	Lost         uint64   `json:"lost"`
}

// filter chooses records; an empty field lets all pass. Lines about the chain pass an empty filter only.
type filter struct{ tool, tenant, run, code, decision string }

func (f filter) match(r *recordLine) bool {
	for _, c := range f.compared(r) {
		if c.want != "" && c.want != c.found {
			return false
		}
	}
	return true
}

// comparison is one flag with what a record has there.
type comparison struct{ flag, want, found string }

func (f filter) compared(r *recordLine) [5]comparison {
	return [...]comparison{
		{"tool", f.tool, r.Tool}, {"tenant", f.tenant, r.Tenant}, {"run", f.run, r.Run}, {"code", f.code, r.Code}, {"decision", f.decision, r.Decision},
	}
}

func (r *recordLine) call() bool {
	return r.Kind == "request" || r.Kind == "tunnel" || r.Kind == "intent"
}

func (r *recordLine) target() string {
	at := r.Host
	if r.Port != 0 {
		at += ":" + strconv.Itoa(r.Port)
	}
	if r.Scheme != "" {
		at = r.Scheme + "://" + at
	}
	if r.Path == "" || r.Kind == "tunnel" {
		return at
	}
	if strings.HasPrefix(r.Path, "/") {
		return at + r.Path
	}
	return at + " path#" + r.Path
}

// String is the line of tail. What callers chose is printed so that it cannot look like anything else.
func (r *recordLine) String() string {
	if !r.call() {
		text := fmt.Sprintf("%s %-10s line %d of chain %s", r.Time, r.Kind, r.Seq, r.Chain)
		if r.KeyID != "" {
			text += ", key " + r.KeyID
		}
		return visible(text + r.lost())
	}
	result := r.Decision
	if r.Kind == "intent" {
		result = "intent"
	}
	if r.Code != "" {
		result += " " + r.Code
	}
	parts := []string{r.Time, result}
	if r.Status != 0 {
		parts = append(parts, strconv.Itoa(r.Status))
	}
	parts = append(parts, r.Method, r.target(), "tool="+cmp.Or(r.Tool, "-"))
	for _, p := range [][2]string{{"tenant", r.Tenant}, {"subject", r.Subject}, {"run", r.Run}, {"error", r.ErrorClass}, {"revocation", r.Revocation}} {
		if p[1] != "" {
			parts = append(parts, p[0]+"="+strings.ReplaceAll(p[1], " ", "\u2423"))
		}
	}
	if r.Total > 0 {
		parts = append(parts, fmt.Sprintf("%gms", r.Total))
	}
	return visible(strings.Join(append(parts, "id="+r.ID), " ") + r.lost())
}

func (r *recordLine) lost() string {
	if r.Lost == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s before this line dropped)", plural(int(min(r.Lost, 1<<31)), "record"))
}

func parseLine(line []byte) (*recordLine, bool) {
	r := new(recordLine)
	return r, json.Unmarshal(line, r) == nil && r.Kind != ""
}

// visible escapes what is not printable: nothing that others wrote moves the cursor, turns the text around or begins another line.
func visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strconv.IsPrint(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u%04x", c)
		}
	}
	return b.String()
}

// printStory tells of one call, gate by gate, from the lines that are about it: its intent, its record, and those of the other proxy
// that it went through.
func printStory(w io.Writer, lines []*recordLine) {
	for i, r := range lines {
		if i > 0 {
			fmt.Fprintln(w)
		}
		switch {
		case r.Kind == "intent":
			fmt.Fprintf(w, "intent, line %d of its chain: recorded before anything of the call left\n", r.Seq)
			if !hasOutcome(lines, r.ID) {
				r.story(w)
				tell(w, "outcome", "not recorded here: the process ended, or the record was lost; the upstream may have acted")
			}
		default:
			fmt.Fprintf(w, "%s %s, line %d of its chain\n", visible(r.Kind), visible(r.ID), r.Seq)
			r.story(w)
			r.outcome(w)
		}
	}
}

func hasOutcome(lines []*recordLine, id string) bool {
	for _, r := range lines {
		if r.ID == id && r.Kind != "intent" {
			return true
		}
	}
	return false
}

// tell prints a row, and nothing for one without words.
func tell(w io.Writer, name string, words ...string) {
	var said []string
	for _, word := range words {
		if word != "" {
			said = append(said, word)
		}
	}
	if len(said) > 0 {
		fmt.Fprintf(w, "  %-12s%s\n", name, visible(strings.Join(said, ", ")))
	}
}

// named is "name value", or nothing without a value.
func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

func took(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%g ms", ms)
}

// story is the call up to where it leaves.
func (r *recordLine) story(w io.Writer) {
	tell(w, "time", r.Time, named("trace", r.TraceID))
	tell(w, "target", strings.TrimSpace(r.Method+" "+r.target()), named("at listener", r.Listener))
	refused := ""
	if r.Reason != "" {
		refused = "not accepted: " + r.Reason
	}
	tell(w, "caller", r.Subject, named("tenant", r.Tenant), named("agent", r.Agent), named("task", r.Task), named("run", r.Run),
		named("by", r.Issuer), named("brought by", r.Workload), refused)
	tell(w, "tool", r.Tool, named("version", r.ToolVersion), named("risk", r.Risk), named("can", strings.Join(r.Classes, " ")),
		named("side effects", r.SideEffects))
	tell(w, "run before", strings.Join(r.Before, " "))
	if r.Approval {
		tell(w, "approval", "needed; left to the agent's runtime, not known here")
	}
	tell(w, "input", r.InputType, strings.Join(r.Shape, "; "), named("idempotency key", r.Idempotency))
	tell(w, "decision", r.verdict(), named("rule", r.Rule), named("policy", r.Revision), named("mode", r.Mode), took(r.Policy))
	tell(w, "credential", r.Binding, named("of kind", r.Kindred), named("for", r.Audience), named("scopes", strings.Join(r.Scopes, " ")),
		named("until", r.Expires), took(r.CredentialMS))
	tell(w, "gateway", r.Gateway)
	tell(w, "sidecar", r.Sidecar)
}

// verdict is what the gates said, with the code where they denied or would have.
func (r *recordLine) verdict() string {
	if r.Decision == "deny" || r.Mode == "report" {
		return strings.TrimSpace(r.Decision + " " + r.Code)
	}
	return r.Decision
}

func (r *recordLine) outcome(w io.Writer) {
	dials, again := "", ""
	if r.Dials > 0 {
		dials = plural(r.Dials, "connection") + " tried"
	}
	if r.Attempt > 1 {
		again = "sent once more with another credential"
	}
	tell(w, "intent", named("safe after", took(r.IntentMS)))
	if r.Decision == "allow" {
		tell(w, "upstream", took(r.Upstream), dials, again, fmt.Sprintf("%d bytes out, %d bytes in", r.Out, r.In))
	}
	tell(w, "revocation", r.Revocation)
	status := ""
	if r.Status != 0 {
		status = "status " + strconv.Itoa(r.Status)
	}
	tell(w, "outcome", cmp.Or(status, "no status was sent"), r.Code, r.ErrorClass, took(r.Total))
}
