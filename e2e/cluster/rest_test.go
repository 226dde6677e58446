//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// dial connects from the node's network, which this process is not in.
func (m *machine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s, alive := m.running()
	if !alive {
		return nil, fmt.Errorf("node %s does not run", m.name)
	}
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.PID))
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	runtime.LockOSThread() // a network is a thread's
	ours, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer func() { _ = ours.Close() }()
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err := unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread would go on in the node's network
	}
	runtime.UnlockOSThread()
	return conn, err
}

// rest asks the API server as the administrator, without a kubectl for each request.
type rest struct{ *apiClient }

// answer is what the API server said: a status, warnings as kubectl would show them, and an object or a Status.
type answer struct {
	code     int
	warnings []string
	body     []byte
}

func (k *kube) rest(t *testing.T) rest {
	t.Helper()
	c, err := k.m.apiClient()
	if err != nil {
		t.Fatal(err)
	}
	transport := c.http.Transport.(*http.Transport)
	transport.DialContext, transport.MaxIdleConnsPerHost, transport.ForceAttemptHTTP2 = k.m.dial, 16, true
	c.http.Timeout = patience
	t.Cleanup(transport.CloseIdleConnections)
	return rest{c}
}

// send sends an object in JSON or YAML. The error is one of the transport alone.
func (r rest) send(ctx context.Context, method, path, kind, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:6443"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	res, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header.Values("Warning"), text}, err
}

// create creates a pod, or says how the API server would answer.
func (r rest) create(ctx context.Context, namespace, pod string, dryRun bool) (answer, error) {
	path := "/api/v1/namespaces/" + namespace + "/pods?fieldValidation=Strict"
	if dryRun {
		path += "&dryRun=All"
	}
	return r.send(ctx, http.MethodPost, path, "application/yaml", pod)
}

// message is the sentence of a refusal.
func (a answer) message() string {
	var s struct{ Message string }
	_ = json.Unmarshal(a.body, &s)
	return s.Message
}

// stored is what tests read of a pod.
type stored struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
		OwnerReferences     []struct{ Kind string }
	}
	Spec struct{ InitContainers, Containers []storedContainer }
}

type storedContainer struct {
	Name, Image, RestartPolicy string
	Env                        []struct{ Name, Value string }
	VolumeMounts               []struct {
		Name, MountPath string
		ReadOnly        bool
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		RunAsUser    int64
		Capabilities struct{ Add, Drop []string }
	}
}

// env is the value of a variable, or "".
func (c storedContainer) env(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// gated is nil for a pod whose first init container is the sidecar, or the second behind the fence.
func (p *stored) gated() error {
	inits := p.Spec.InitContainers
	if len(inits) > 0 && inits[0].Name == "toolgate-fence" {
		inits = inits[1:]
	}
	if len(inits) == 0 || inits[0].Name != "toolgate" || inits[0].RestartPolicy != "Always" || p.Metadata.Labels["toolgate/injected"] != "true" {
		return fmt.Errorf("pod %s is not gated: %+v", p.Metadata.Name, p)
	}
	return nil
}

// pods are all pods of the namespace.
func (k *kube) pods(t *testing.T, r rest) []stored {
	t.Helper()
	var list struct{ Items []stored }
	if err := r.get(t.Context(), "/api/v1/namespaces/"+k.namespace+"/pods", &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
