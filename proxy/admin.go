package proxy

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/redact"
)

// Admin returns the handler of the admin listener: /metrics, /healthz and /readyz. It shows nothing secret and changes
// nothing.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		checks, ready := p.ready(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(checks)
	})
	return mux
}

// readyTimeout bounds what a probe may wait for an issuer.
const readyTimeout = 2 * time.Second

// ready checks what a call needs from the sidecar itself. Each check is "ok" or says what is wrong.
func (p *Proxy) ready(ctx context.Context) (map[string]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	g := p.gates.Load()
	checks := map[string]string{"policy_revision": g.snapshot.Revision, "identity": "ok", "kill_switch": "ok", "audit": "ok", "lifecycle": "ok"}
	ready := true
	fail := func(check, why string) { checks[check], ready = why, false }
	if err := g.Ready(ctx); err != nil {
		fail("identity", redact.Error(err))
	}
	if s := p.kill.Status(); s.Stale {
		fail("kill_switch", p.staleReason())
	}
	if err := p.audit.Ready(); err != nil {
		fail("audit", redact.Error(err))
	}
	if p.fence != nil {
		checks["fence"] = "ok"
		if err := p.fence.Check(ctx); err != nil {
			fail("fence", err.Error())
		}
	}
	if p.draining.Load() {
		fail("lifecycle", "draining")
	}
	return checks, ready
}

// staleReason says what is denied, and what is wrong with the control plane's log if something is.
func (p *Proxy) staleReason() string {
	reason := "stale: tools of risk " + strings.Join(p.kill.Status().StaleRisks, ", ") + " are denied"
	if _, refused, _ := p.killLog(); refused != "" {
		reason += "; the control plane's log was refused: " + refused
	}
	return reason
}

func ageSeconds(d time.Duration) float64 {
	if d < 0 {
		return math.Inf(1)
	}
	return d.Seconds()
}
