package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestCaptureCrash: killed at any moment, a sidecar leaves a whole file. The next start begins another, in which a value has another
// stand-in, though it has one throughout a file.
func TestCaptureCrash(t *testing.T) {
	w, dir := capturing(t, "")
	stands := map[string]bool{}
	for round := range 2 {
		s := w.start(t)
		tool := toolClient(t, proxyURL(s.tool, w.task(t, "user:alice")), s.caFile)
		var calls sync.WaitGroup
		for worker := range 4 {
			calls.Go(func() {
				for n := range 200 {
					body := fmt.Sprintf(`{"customer_email":"cnry@corp.example","worker":%d,"n":%d,"filling":%q}`, worker, n, strings.Repeat("x ", 4000))
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.up.url(ordersHost, "/mirror/x"), strings.NewReader(body))
					if err != nil {
						return
					}
					req.Header.Set("Content-Type", "application/json")
					res, err := tool.Do(req)
					if err != nil {
						return // the sidecar is gone
					}
					_ = res.Body.Close()
				}
			})
		}
		name, _, _ := harAmong(t, dir, round, 20+round)
		s.kill()
		calls.Wait()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		checkHAR(t, text)
		var har captured
		if err := json.Unmarshal(text, &har); err != nil {
			t.Fatal(err)
		}
		here := map[string]bool{}
		for _, e := range har.Log.Entries {
			var sent struct {
				Email string `json:"customer_email"`
			}
			if err := json.Unmarshal([]byte(e.Request.PostData.Text), &sent); err != nil || !strings.HasSuffix(sent.Email, "@example.com") {
				t.Fatalf("%v: %s", err, e.Request.PostData.Text)
			}
			here[sent.Email], stands[sent.Email] = true, true
		}
		if len(here) != 1 {
			t.Errorf("one value has stand-ins %v in one file", here)
		}
	}
	if len(stands) != 2 {
		t.Errorf("one value has stand-ins %v in two files", stands)
	}
}

// harAmong returns the newest of the folder's files once there are more than before, and it has n entries.
func harAmong(t *testing.T, dir string, before, n int) (name string, text []byte, har captured) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls are captured", n), func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "*.har"))
		if len(names) <= before {
			return false
		}
		newest := names[0]
		for _, other := range names {
			a, aerr := os.Stat(newest)
			b, berr := os.Stat(other)
			if aerr == nil && berr == nil && b.ModTime().After(a.ModTime()) {
				newest = other
			}
		}
		name = newest
		var err error
		if text, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		har = captured{}
		if err := json.Unmarshal(text, &har); err != nil {
			t.Fatalf("the file is not whole: %v\n%s", err, text)
		}
		return len(har.Log.Entries) >= n
	})
	return name, text, har
}
