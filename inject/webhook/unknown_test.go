package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/toolgate/toolgate/inject/settings"
)

// newerPod has fields of a release to come, at every depth that the injection writes anew.
const newerPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"orders","namespace":"shop","newMeta":{"a":1},"annotations":{"toolgate/tool":"orders"},"creationTimestamp":null},` +
	`"spec":{"newTop":12345678901234567890,"containers":[` +
	`{"name":"tool","image":"a:1","newDeep":true,"env":[{"name":"A","value":"1"},{"name":"A","value":"2","newEnv":"x"}],"volumeMounts":[{"name":"d","mountPath":"/a"},{"name":"d","mountPath":"/b","newMount":[{"y":null}]}],"securityContext":{"newContext":1}},` +
	`{"name":"other","image":"b:1","ports":[{"containerPort":80},{"containerPort":81,"newPort":{}}]}],` +
	`"initContainers":[{"name":"first","image":"c:1","newInit":"é"}],"volumes":[{"name":"d","emptyDir":{"newVolume":"v"}}]},"status":{}}`

const newerFields = 9

// TestUnknownFieldsStay: with warn a pod that is newer than this version is injected, keeps every field where it was, and whoever creates
// it is told; a second call changes nothing.
func TestUnknownFieldsStay(t *testing.T) {
	l := newLab(t)
	if r, _ := l.post("/mutate", review(newerPod)); r.Allowed {
		t.Error("let through though the settings do not say warn")
	}
	l.settings.UnknownPodFields = settings.WarnUnknown
	r, _ := l.post("/mutate", review(newerPod))
	if !r.Allowed || !guarded(patched(t, []byte(newerPod), r)) {
		t.Fatalf("answer %+v", r)
	}
	p, err := jsonpatch.DecodePatch(r.Patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := p.Apply([]byte(newerPod))
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		Metadata map[string]any
		Spec     struct {
			NewTop                              json.Number
			Containers, InitContainers, Volumes []map[string]any
		}
	}
	if err := json.Unmarshal(after, &pod); err != nil {
		t.Fatal(err)
	}
	in := func(list []map[string]any, name, want string) {
		t.Helper()
		for _, m := range list {
			if m["name"] == name {
				if text, _ := json.Marshal(m); !strings.Contains(string(text), want) {
					t.Errorf("%s lost %s: %s", name, want, text)
				}
				return
			}
		}
		t.Errorf("there is no %s", name)
	}
	if pod.Metadata["newMeta"] == nil || pod.Spec.NewTop != "12345678901234567890" {
		t.Errorf("lost: %s", after)
	}
	for _, want := range []string{`"newDeep":true`, `{"name":"A","newEnv":"x","value":"2"}`, `{"mountPath":"/b","name":"d","newMount":[{"y":null}]}`, `"newContext":1`} {
		in(pod.Spec.Containers, "tool", want)
	}
	in(pod.Spec.Containers, "other", `{"containerPort":81,"newPort":{}`)
	in(pod.Spec.InitContainers, "first", `"newInit":"é"`)
	in(pod.Spec.Volumes, "d", `{"newVolume":"v"}`)
	told := 0
	for _, w := range r.Warnings {
		if strings.Contains(w, "unknown field") {
			told++
		}
	}
	if told != newerFields {
		t.Errorf("%d warnings: %v", told, r.Warnings)
	}
	if !strings.Contains(l.log.String(), `"result":"injected","reason":"unknown_field"`) {
		t.Errorf("the log says %s", l.log.String())
	}
	if r, _ := l.post("/mutate", review(string(after))); !r.Allowed || len(r.Patch) > 0 {
		t.Errorf("the second time: %+v", r)
	}
}

// TestUnknownFieldsRefused: what another reader may take for a field that counts is refused whatever the settings say.
func TestUnknownFieldsRefused(t *testing.T) {
	l := newLab(t)
	l.settings.UnknownPodFields = settings.WarnUnknown
	for name, added := range map[string]string{
		"twice":                 `"hostNetwork":false,"hostNetwork":true,`,
		"twice, beside unknown": `"newTop":1,"hostNetwork":false,"hostNetwork":true,`,
		"in another case":       `"HostNetwork":true,`,
	} {
		r, _ := l.post("/mutate", review(strings.Replace(podText, `"spec":{`, `"spec":{`+added, 1)))
		if r.Allowed || r.AuditAnnotations["reason"] != string(UnknownField) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
