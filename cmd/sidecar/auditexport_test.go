package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/audit"
)

// ocsfObject is an excerpt of what OCSF's schema says of a class or an object.
type ocsfObject struct {
	Attributes []string
	AtLeastOne []string `json:"at_least_one"`
	Enums      map[string][]string
}

func ocsfSchema(t *testing.T) map[string]ocsfObject {
	t.Helper()
	text, err := os.ReadFile("testdata/ocsf-api-activity.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Objects map[string]ocsfObject }
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Objects
}

// checkOCSF returns how an object of a kind differs from what the schema says of it.
func checkOCSF(schema map[string]ocsfObject, kind string, m map[string]any) (problems []string) {
	o, known := schema[kind]
	if !known {
		return []string{"no object " + kind}
	}
	types := map[string]string{}
	for _, a := range o.Attributes {
		name, typ, _ := strings.Cut(a, " :")
		name, required := strings.CutSuffix(name, "!")
		types[name] = typ
		if _, there := m[name]; required && !there {
			problems = append(problems, kind+" lacks "+name)
		}
	}
	if len(o.AtLeastOne) > 0 && !slices.ContainsFunc(o.AtLeastOne, func(name string) bool { return m[name] != nil }) {
		problems = append(problems, kind+" has none of "+strings.Join(o.AtLeastOne, ", "))
	}
	for name, v := range m {
		if allowed := o.Enums[name]; allowed != nil && !slices.Contains(allowed, fmt.Sprint(v)) {
			problems = append(problems, fmt.Sprintf("%s.%s is %v", kind, name, v))
		}
		below, isObject := v.(map[string]any)
		n, isNumber := v.(json.Number)
		_, isText := v.(string)
		switch typ := types[name]; {
		case typ == "":
			problems = append(problems, kind+" has no "+name)
		case typ == "i" && isNumber && !strings.ContainsAny(n.String(), ".eE"), typ == "s" && isText, typ == "o" && isObject:
		case typ == "i", typ == "s", typ == "o", !isObject:
			problems = append(problems, fmt.Sprintf("%s.%s is a %T", kind, name, v))
		default:
			problems = append(problems, checkOCSF(schema, typ, below)...)
		}
	}
	return problems
}

// TestExportOCSF: each event has what its class must have, and holds its record so that the chain can still be followed.
func TestExportOCSF(t *testing.T) {
	at := time.Date(2026, 11, 29, 20, 33, 39, 226e6, time.UTC)
	full := audit.Record{
		ID: "id-1", Time: at, Kind: "request", Listener: "tool", Issuer: "https://idp.test", Tenant: "acme", Subject: "user:<alice>", Agent: "agent", Run: "run-1",
		Tool: "refunds", Decision: "allow", Scheme: "https", Host: "api.test", Port: 443, Method: "POST", Path: "/v1/*", Status: 201, Total: 12 * time.Millisecond, TraceID: "0af7",
	}
	denied := full
	denied.ID, denied.Decision, denied.Code, denied.Status, denied.Path = "id-2", "deny", "domain_not_allowed", 403, "abcdef012345"
	intent := full
	intent.Kind, intent.Status = audit.KindIntent, 0
	cut := full
	cut.ID, cut.Code, cut.ErrorClass, cut.Method, cut.Kind = "id-3", "revoked", "cut", "CONNECT", "tunnel"
	odd := full
	odd.ID, odd.Method, odd.Scheme, odd.Path, odd.Port = "id-5", "PURGE", "http", "abcdef012345", 8080
	bare := odd
	bare.ID, bare.Host, bare.Port = "id-6", "2001:db8::1", 0
	tunnel := odd
	tunnel.ID, tunnel.Kind, tunnel.Method, tunnel.Scheme, tunnel.Path = "id-7", "tunnel", "CONNECT", "", ""
	empty := audit.Record{ID: "id-4", Time: at, Kind: "request", Listener: "tool", Decision: "deny", Code: "bad_request"}
	var records, out bytes.Buffer
	l := audit.New(&records, audit.Options{Chain: true, Process: &audit.Process{Version: "v0"}})
	for _, r := range []audit.Record{intent, full, denied, cut, empty, odd, bare, tunnel} {
		l.Write(r)
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(name, records.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exportOCSF(nil, &out, []string{name}); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 0 1 id-1 intent", "1 1 1 id-1", "1 2 3 id-2", "99 2 2 id-3", "0 2 3 id-4", "99 1 1 id-5", "99 1 1 id-6", "99 1 1 id-7"}
	var prev string
	schema := ocsfSchema(t)
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var m map[string]any
		var raw struct {
			Unmapped struct{ Toolgate json.RawMessage } `json:"unmapped"`
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&m); err != nil || json.Unmarshal([]byte(line), &raw) != nil {
			t.Fatal(err)
		}
		if problems := checkOCSF(schema, "api_activity", m); len(problems) > 0 {
			t.Errorf("%s\n%s", strings.Join(problems, "\n"), line)
		}
		if got := fmt.Sprintf("%v %v %v %v", m["activity_id"], m["status_id"], m["severity_id"], m["metadata"].(map[string]any)["uid"]); i >= len(want) || got != want[i] {
			t.Errorf("event %d: %s", i, got)
		}
		if fmt.Sprint(m["type_uid"]) != fmt.Sprintf("6003%02s", m["activity_id"]) || fmt.Sprint(m["time"]) != fmt.Sprint(at.UnixMilli()) {
			t.Errorf("type and time: %s", line)
		}
		if r := parseRecord(t, string(raw.Unmapped.Toolgate)); prev != "" && r.str("prev_hash") != prev {
			t.Errorf("event %d does not continue the chain: the record is not as it was", i)
		}
		sum := sha256.Sum256(raw.Unmapped.Toolgate)
		prev = hex.EncodeToString(sum[:])
	}
	if strings.Contains(out.String(), `"path":"abcdef012345","url_string"`) {
		t.Error("a hash is taken for a path")
	}
	for _, want := range []string{`"path":"/v1/*","url_string":"https://api.test:443"`, `"url_string":"http://[2001:db8::1]"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exportOCSF(nil, &out, []string{name}); err == nil || !strings.Contains(err.Error(), ":1: found no record") {
		t.Errorf("of a file that is none: %v", err)
	}
}
