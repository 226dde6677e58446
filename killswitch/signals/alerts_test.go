package signals

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func firing(labels map[string]string, over claimSet) claimSet {
	a := claimSet{
		"status": "firing", "labels": labels, "annotations": claimSet{"summary": "42 % of calls fail"}, "startsAt": time.Now().Add(-time.Minute).Format(time.RFC3339Nano),
		"endsAt": "0001-01-01T00:00:00Z", "generatorURL": "https://prometheus.example/graph", "fingerprint": "c1ab5e0a0b1fdd6c",
	}
	for k, v := range over {
		a[k] = v
	}
	return a
}

func (w *world) alert(over claimSet, alerts ...claimSet) (int, tally) {
	w.t.Helper()
	n := claimSet{
		"version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0, "status": "firing", "receiver": "toolgate", "groupLabels": claimSet{},
		"commonLabels": claimSet{"toolgate_tool": "other"}, "commonAnnotations": claimSet{}, "externalURL": "https://am.example", "alerts": alerts,
	}
	for k, v := range over {
		n[k] = v
	}
	b, err := json.Marshal(n)
	if err != nil {
		w.t.Fatal(err)
	}
	status, body := w.post("/v1/alerts/am", "application/json", string(b))
	var out tally
	if body != "" && json.Unmarshal([]byte(body), &out) != nil {
		w.t.Errorf("body %s", body)
	}
	return status, out
}

func TestAlerts(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Alertmanagers[0].Expires = time.Hour })
	labels := map[string]string{"alertname": "ToolErrors", "severity": "page", "toolgate_tool": "draft_refund_request", "toolgate_tenant": "acme"}
	one := firing(labels, nil)
	for range 2 { // an Alertmanager repeats what goes on
		if status, out := w.alert(nil, one); status != 200 || out.Done != 1 {
			t.Fatalf("status %d, %+v", status, out)
		}
		one["annotations"] = claimSet{"summary": "43 % of calls fail"}
	}
	made := w.revoked.all()
	if len(made) != 1 || w.revoked.calls != 2 {
		t.Fatalf("revoked %+v", made)
	}
	q := made[0]
	if !slices.Equal(q.Selector.Tool, []string{"draft_refund_request"}) || !slices.Equal(q.Selector.Tenant, []string{"acme"}) || q.Selector.All {
		t.Errorf("selector %+v", q.Selector)
	}
	if q.Reason != "alert ToolErrors at am" || q.By != "alerts:am" || q.Ticket != "c1ab5e0a0b1fdd6c" || time.Until(q.Expires) > time.Hour {
		t.Errorf("request %+v", q)
	}
	// The same alert after it was over is another one.
	if status, _ := w.alert(nil, firing(labels, claimSet{"startsAt": time.Now().Format(time.RFC3339Nano)})); status != 200 || len(w.revoked.all()) != 2 {
		t.Errorf("status %d, %d revocations", status, len(w.revoked.all()))
	}
	// Without restore, a resolved alert changes nothing.
	one["status"] = "resolved"
	if status, out := w.alert(nil, one); status != 200 || out.Done != 1 || len(w.revoked.restored) != 0 || w.counted("alert", Ignored) != 1 {
		t.Errorf("status %d, restored %v", status, w.revoked.restored)
	}
	if status, _ := w.alert(nil, firing(labels, claimSet{"startsAt": time.Now().Add(-2 * time.Hour).Format(time.RFC3339Nano)})); status != 200 || w.counted("alert", Expired) != 1 {
		t.Errorf("late: status %d", status)
	}
}

func TestAlertsRestore(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Alertmanagers[0].Restore = true })
	one := firing(map[string]string{"toolgate_tool": "t"}, nil)
	w.alert(nil, one)
	one["status"] = "resolved"
	for range 2 {
		if status, _ := w.alert(nil, one); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if id := w.revoked.all()[0].ID; !slices.Equal(w.revoked.restored, []string{id, id}) {
		t.Errorf("restored %v", w.revoked.restored)
	}
	one["fingerprint"] = "0000"
	if status, _ := w.alert(nil, one); status != 200 || w.counted("alert", Restored) != 3 {
		t.Errorf("never revoked: status %d, counted %v", status, w.counts)
	}
}

// TestAlertRefusals: what cannot be mapped revokes nothing, above all not everything, and the others of the same webhook still count.
func TestAlertRefusals(t *testing.T) {
	w := newWorld(t, nil)
	good := firing(map[string]string{"toolgate_run": "run-42"}, nil)
	tool := func(more ...string) map[string]string {
		l := map[string]string{"toolgate_tool": "t"}
		for i := 0; i < len(more); i += 2 {
			l[more[i]] = more[i+1]
		}
		return l
	}
	for name, tc := range map[string]struct {
		alert claimSet
		want  Result
	}{
		"no label of ours":  {firing(map[string]string{"alertname": "x"}, nil), Unmapped},
		"a typing mistake":  {firing(tool("toolgate_tennant", "acme"), nil), Unmapped},
		"all":               {firing(map[string]string{"toolgate_all": "true"}, nil), Unmapped},
		"an empty value":    {firing(tool("toolgate_tenant", ""), nil), Unmapped},
		"a newline":         {firing(tool("toolgate_tenant", "a\nb"), nil), Unmapped},
		"an unknown risk":   {firing(map[string]string{"toolgate_risk": "any"}, nil), Unmapped},
		"a host with port":  {firing(map[string]string{"toolgate_host": "x.example:443"}, nil), Unmapped},
		"an unknown status": {firing(tool(), claimSet{"status": "suppressed"}), Malformed},
		"no fingerprint":    {firing(tool(), claimSet{"fingerprint": ""}), Malformed},
		"no start":          {firing(tool(), claimSet{"startsAt": "0001-01-01T00:00:00Z"}), Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			status, out := w.alert(nil, tc.alert, good)
			if status != 400 || out.Done != 1 || len(out.Failed) != 1 || out.Failed[0].Result != tc.want {
				t.Errorf("status %d, %+v", status, out)
			}
		})
	}
	if made := w.revoked.all(); len(made) != 1 || !slices.Equal(made[0].Selector.Run, []string{"run-42"}) {
		t.Errorf("revoked %+v", made)
	}
	if status, out := w.alert(claimSet{"truncatedAlerts": 3}, good); status != 400 || out.Done != 1 || out.Failed[0].Result != Truncated {
		t.Errorf("truncated: status %d, %+v", status, out)
	}
	if status, out := w.alert(claimSet{"version": "5"}, good); status != 400 || out.Done != 0 {
		t.Errorf("version: status %d, %+v", status, out)
	}
	if status, _ := w.post("/v1/alerts/am", "text/plain", "{}"); status != 400 {
		t.Errorf("media type: status %d", status)
	}
	if status, _ := w.post("/v1/alerts/am", "application/json", `{"version":"4","alerts":[{"status":"firing","status":"resolved"}]}`); status != 400 {
		t.Errorf("doubled name: status %d", status)
	}
	if status, _ := w.post("/v1/alerts/am", "application/json", `{"version":"4","x":"`+strings.Repeat("x", 1<<20)+`"}`); status != 400 {
		t.Errorf("too large: status %d", status)
	}
	bare := func(r *http.Request) { r.Header.Del("Authorization") }
	if status, _ := w.post("/v1/alerts/am", "application/json", `{"version":"4"}`, bare); status != 401 {
		t.Errorf("no token: status %d", status)
	}
	w.revoked.fail(errDown)
	if status, out := w.alert(nil, good); status != 503 || out.Done != 0 {
		t.Errorf("control plane down: status %d, %+v", status, out)
	}
}
