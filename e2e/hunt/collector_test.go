package hunt

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// collector takes OTLP over HTTP and gRPC, and refuses in words of its own while it is told to.
type collector struct {
	*planted
	url     string
	got     tape
	taken   atomic.Int64 // requests
	refused atomic.Int64
	refuse  atomic.Bool
}

func newCollector(t *testing.T, p *planted) *collector {
	t.Helper()
	c := &collector{planted: p}
	srv := httptest.NewUnstartedServer(c)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := c.got.request(r)
	if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		_, _ = io.Copy(&c.got, z)
	}
	grpc := strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	said := func(where string) string { return c.plant("answer of a collector", where) }
	if c.refuse.Load() {
		w.Header().Set("X-Why", said("header"))
		if grpc {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Message", said("message"))
			w.Header().Set("Grpc-Status", "3") // INVALID_ARGUMENT
		} else {
			http.Error(w, said("body"), http.StatusBadRequest)
		}
		c.refused.Add(1)
		return
	}
	if grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5)) // an empty message
		w.Header().Set("Grpc-Status", "0")
	}
	c.taken.Add(1)
}

// collectorsRefuse has both refuse what they are sent for a call.
func (w *world) collectorsRefuse(t *testing.T) {
	t.Helper()
	for _, c := range []*collector{w.collector, w.copies} {
		eventually(t, "the collector has got something", func() bool { return c.taken.Load() > 0 })
		c.refuse.Store(true)
	}
	w.get(t, "static.hunt.test", "/echo")
	w.logged(t, "spans cannot be sent")
	for _, c := range []*collector{w.collector, w.copies} {
		eventually(t, "the collector has refused", func() bool { return c.refused.Load() > 0 })
	}
	w.logged(t, "audit.otlp")
	for _, c := range []*collector{w.collector, w.copies} {
		c.refuse.Store(false)
	}
}
