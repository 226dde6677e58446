package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// drainTime is how long running admissions may take to end; the API server waits for none longer.
const drainTime = 10 * time.Second

// Server runs a handler over TLS, and health and metrics in plain HTTP on a port of their own.
type Server struct {
	Handler *Handler
	// Certificate returns the leaf to show, which may change from one handshake to the next.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Checks are what readiness depends on, by name. Nil means ready.
	Checks map[string]func() error
	// ShutdownDelay is how long the server goes on taking new connections once it is to stop. Readiness ends at its begin; the
	// cluster needs the time to take the pod out of the Service.
	ShutdownDelay time.Duration
	Log           *slog.Logger

	stopping atomic.Bool
}

// Run serves on both listeners until ctx ends, and then drains. It closes the listeners.
func (s *Server) Run(ctx context.Context, ln, admin net.Listener) error {
	errorLog := slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)
	hooks := &http.Server{
		Handler: s.Handler, ErrorLog: errorLog,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
		TLSConfig:      &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate},
	}
	health := &http.Server{Handler: s.admin(), ErrorLog: errorLog, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	failed := make(chan error, 2)
	go func() { failed <- hooks.ServeTLS(ln, "", "") }()
	go func() { failed <- health.Serve(admin) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.stopping.Store(true)
		s.Log.Info("stopping: not ready from now on", "delay", s.ShutdownDelay.String())
		delay := time.NewTimer(s.ShutdownDelay)
		defer delay.Stop()
		select {
		case err = <-failed:
		case <-delay.C:
		}
	}
	last, done := context.WithTimeout(context.Background(), drainTime)
	defer done()
	return errors.Join(err, hooks.Shutdown(last), health.Shutdown(last))
}

// admin is the handler of health and metrics. It shows nothing secret and changes nothing.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Handler.options.Metrics.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		checks, ready := s.ready()
		w.Header().Set("Content-Type", "application/json")
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(checks)
	})
	return mux
}

// ready runs the checks. Each is "ok" or says what is wrong.
func (s *Server) ready() (map[string]string, bool) {
	checks, ready := map[string]string{"lifecycle": "ok"}, true
	for name, check := range s.Checks {
		checks[name] = "ok"
		if err := check(); err != nil {
			checks[name], ready = err.Error(), false
		}
	}
	if s.stopping.Load() {
		checks["lifecycle"], ready = "stopping", false
	}
	return checks, ready
}
