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

// ocsfObject is what the schema, version 1.6.0, has of an object that is used: names that must be there, one of which must be, and
// those that may.
type ocsfObject struct {
	required, oneOf, may []string
	objects              map[string]string // of which kind an attribute is
}

var ocsfSchema = map[string]ocsfObject{
	"api_activity": {
		required: []string{"activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint", "time", "type_uid"},
		may:      []string{"activity_name", "dst_endpoint", "duration", "http_request", "http_response", "message", "status_code", "status_detail", "status_id", "unmapped"},
		objects: map[string]string{"actor": "actor", "api": "api", "metadata": "metadata", "src_endpoint": "endpoint", "dst_endpoint": "endpoint",
			"http_request": "http_request", "http_response": "http_response"},
	},
	"actor": {
		oneOf: []string{"process", "user", "invoked_by", "session", "app_name", "app_uid"}, may: []string{"idp"},
		objects: map[string]string{"user": "entity", "session": "entity", "idp": "entity"},
	},
	"api": {
		required: []string{"operation"}, may: []string{"request", "response", "service"},
		objects: map[string]string{"request": "request", "response": "response", "service": "entity"},
	},
	"metadata": {
		required: []string{"product", "version"}, objects: map[string]string{"product": "product"},
		may: []string{"correlation_uid", "event_code", "log_name", "original_time", "sequence", "tenant_uid", "uid"},
	},
	"product":       {oneOf: []string{"name", "uid"}, may: []string{"vendor_name"}},
	"endpoint":      {oneOf: []string{"hostname", "instance_uid", "interface_name", "interface_uid", "ip", "name", "svc_name", "uid"}, may: []string{"port"}},
	"entity":        {oneOf: []string{"name", "uid"}},
	"request":       {required: []string{"uid"}},
	"response":      {may: []string{"code", "error"}},
	"http_request":  {may: []string{"http_method", "url"}, objects: map[string]string{"url": "url"}},
	"url":           {may: []string{"hostname", "path", "port", "scheme"}},
	"http_response": {required: []string{"code"}},
}

func checkOCSF(kind string, m map[string]any) (problems []string) {
	o := ocsfSchema[kind]
	found := len(o.oneOf) == 0
	for _, name := range o.required {
		if _, there := m[name]; !there {
			problems = append(problems, kind+" lacks "+name)
		}
	}
	for name, v := range m {
		found = found || slices.Contains(o.oneOf, name)
		if !slices.Contains(o.required, name) && !slices.Contains(o.oneOf, name) && !slices.Contains(o.may, name) {
			problems = append(problems, kind+" has no "+name)
		}
		if below, is := v.(map[string]any); is && o.objects[name] != "" {
			problems = append(problems, checkOCSF(o.objects[name], below)...)
		}
	}
	if !found {
		problems = append(problems, kind+" has none of "+strings.Join(o.oneOf, ", "))
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
	empty := audit.Record{ID: "id-4", Time: at, Kind: "request", Listener: "tool", Decision: "deny", Code: "bad_request"}
	var records, out bytes.Buffer
	l := audit.New(&records, audit.Options{Chain: true, Process: &audit.Process{Version: "v0"}})
	for _, r := range []audit.Record{intent, full, denied, cut, empty} {
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
	want := []string{"1 0 1 id-1 intent", "1 1 1 id-1", "1 2 3 id-2", "99 2 2 id-3", "0 2 3 id-4"}
	var prev string
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var m map[string]any
		var raw struct {
			Unmapped struct{ Toolgate json.RawMessage } `json:"unmapped"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || json.Unmarshal([]byte(line), &raw) != nil {
			t.Fatal(err)
		}
		if problems := checkOCSF("api_activity", m); len(problems) > 0 {
			t.Errorf("%s\n%s", strings.Join(problems, "\n"), line)
		}
		if got := fmt.Sprintf("%v %v %v %v", m["activity_id"], m["status_id"], m["severity_id"], m["metadata"].(map[string]any)["uid"]); i >= len(want) || got != want[i] {
			t.Errorf("event %d: %s", i, got)
		}
		if m["type_uid"].(float64) != 600300+m["activity_id"].(float64) || m["time"].(float64) != float64(at.UnixMilli()) {
			t.Errorf("type and time: %s", line)
		}
		if r := parseRecord(t, string(raw.Unmapped.Toolgate)); prev != "" && r.str("prev_hash") != prev {
			t.Errorf("event %d does not continue the chain: the record is not as it was", i)
		}
		sum := sha256.Sum256(raw.Unmapped.Toolgate)
		prev = hex.EncodeToString(sum[:])
	}
	if strings.Contains(out.String(), `"url":{"hostname":"api.test","port":443,"scheme":"https","path":"abcdef`) {
		t.Error("a hash is taken for a path")
	}
	if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exportOCSF(nil, &out, []string{name}); err == nil || !strings.Contains(err.Error(), ":1: found no record") {
		t.Errorf("of a file that is none: %v", err)
	}
}
