package certs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// apiServer keeps objects as the real one does: a write names the version that it is made to, and comes too late for any other.
type apiServer struct {
	testing.TB
	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	writes  []string
	before  func(method, path string) // called without the lock before each write; may be nil
}

func newAPIServer(t testing.TB) (*apiServer, dynamic.Interface) {
	s := &apiServer{TB: t, objects: map[string]map[string]any{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: web.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	var patch jsonpatch.Patch
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			status(w, 400, "BadRequest")
			return
		}
	case http.MethodPatch:
		if json.NewDecoder(r.Body).Decode(&patch) != nil || r.Header.Get("Content-Type") != "application/json-patch+json" {
			status(w, 400, "BadRequest")
			return
		}
	}
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil && r.Method != http.MethodGet {
		before(r.Method, r.URL.Path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + metadata(body)["name"].(string)
	}
	current, there := s.objects[path]
	switch {
	case r.Method == http.MethodPost && there:
		status(w, 409, "AlreadyExists")
		return
	case r.Method != http.MethodPost && !there:
		status(w, 404, "NotFound")
		return
	}
	if r.Method == http.MethodPatch {
		body = s.apply(current, patch)
	}
	if there && body != nil && metadata(body)["resourceVersion"] != metadata(current)["resourceVersion"] {
		status(w, 409, "Conflict")
		return
	}
	if body != nil {
		s.put(path, body)
		s.writes = append(s.writes, r.Method+" "+path[strings.LastIndex(path, "/")+1:])
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.objects[path])
}

func (s *apiServer) apply(current map[string]any, patch jsonpatch.Patch) map[string]any {
	text, err := json.Marshal(current)
	if err == nil {
		text, err = patch.Apply(text)
	}
	var out map[string]any
	if err != nil || json.Unmarshal(text, &out) != nil {
		s.Errorf("patch: %v", err)
	}
	return out
}

func metadata(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

func (s *apiServer) put(path string, object map[string]any) {
	s.version++
	metadata(object)["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[path] = object
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

const (
	secretPath = "/api/v1/namespaces/toolgate/secrets/"
	configPath = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/toolgate-injector"
)

// config puts a webhook configuration with one webhook of ours and one of somebody else's.
func (s *apiServer) config() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var object map[string]any
	text := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"toolgate-injector"},"webhooks":[
		{"name":"other.example","clientConfig":{"caBundle":"b3RoZXI=","service":{"name":"other","namespace":"toolgate"}}},
		{"name":"pods.toolgate.dev","aFieldOfTomorrow":1,"clientConfig":{"service":{"name":"toolgate-injector","namespace":"toolgate","path":"/mutate"}}}]}`
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		s.Fatal(err)
	}
	s.put(configPath, object)
}

// edit changes an object under the injector's feet.
func (s *apiServer) edit(path string, change func(object map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[path]
	if !ok {
		s.Fatalf("there is no %s", path)
	}
	text, _ := json.Marshal(object)
	var clone map[string]any
	_ = json.Unmarshal(text, &clone)
	change(clone)
	s.put(path, clone)
}

func (s *apiServer) object(path string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// wrote returns the writes since the last call.
func (s *apiServer) wrote() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out
}
