package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/prefix"
	"github.com/toolgate/toolgate/redact"
)

const (
	// maxCapture is how much of a body is kept to describe it.
	maxCapture = 64 << 10
	// maxLogged is how much text of a body a line has. Container runtimes split lines at 16 KiB, and half a line is no JSON.
	maxLogged = 8 << 10
	// maxCopied bounds the bytes of all bodies that wait to be logged.
	maxCopied = 16 << 20
)

// Why a body is not in the log, for the metric.
const (
	notReadable = "unreadable"
	noMemory    = "memory"
)

// logged is what the logging of bodies may take in all.
type logged struct {
	copies  prefix.Budget
	masking chan struct{} // holds one for each that is being masked, which costs more than it keeps
}

func (l *logged) begin() {
	l.copies.Max, l.masking = maxCopied, make(chan struct{}, runtime.GOMAXPROCS(0))
}

// keepPayloads makes the call keep what its log lines need, where the config asks for them.
func (c *call) keepPayloads(to *client) {
	to.logged = c.gates.snapshot.Log.Payloads && c.proxy.log.Enabled(context.Background(), slog.LevelInfo)
	if to.logged && legible(to.r.Header) {
		to.body.mu.Lock()
		to.body.start.Open(maxCapture, &c.proxy.logged.copies)
		to.body.mu.Unlock()
	}
}

// keepResponse does so for the response.
func (c *call) keepResponse(to *client, res *http.Response) {
	if to.logged && legible(res.Header) && res.StatusCode != http.StatusPartialContent {
		to.back.Open(maxCapture, &c.proxy.logged.copies)
	}
}

// legible reports whether a body can be shown. A part of one may begin within a secret.
func legible(h http.Header) bool {
	return redact.Readable(h.Get("Content-Type")) && h["Content-Range"] == nil
}

// deliver ends the answer, before time goes into the log.
func (k *client) deliver() {
	if !k.logged {
		return
	}
	if a, ok := k.w.(*answer); ok {
		a.finish()
	} else {
		_ = k.rc.Flush()
	}
}

// logPayloads prints the bodies of a call that has ended, however it ended, in their redacted form. Of a WebSocket there is none.
func (c *call) logPayloads(to *client) {
	request, whole := to.body.taken()
	defer request.Drop()
	defer to.back.Drop()
	if !to.logged || c.rec.Status == http.StatusSwitchingProtocols {
		return
	}
	c.proxy.logged.masking <- struct{}{}
	defer func() { <-c.proxy.logged.masking }()
	c.logPayload("request", to.r.Header, &request, whole, slog.String("method", to.r.Method), slog.String("host", c.target.Host),
		slog.String("url", redact.URL(to.r.URL.String())))
	if to.res != nil {
		c.logPayload("response", to.res.Header, &to.back, to.arrived, slog.Int("status", to.res.StatusCode))
	}
}

// logPayload prints one line, and adds to the record what it masked.
func (c *call) logPayload(direction string, h http.Header, b *prefix.Buffer, whole bool, more ...slog.Attr) {
	attrs := append(make([]slog.Attr, 0, 16), slog.String("decision_id", c.rec.ID), slog.String("tool", c.tool.Name), slog.String("direction", direction))
	attrs = append(append(attrs, more...), slog.Attr{Key: "header", Value: redact.HeadersOnce(h)})
	if kind := mediaType(h.Get("Content-Type")); kind != "" {
		attrs = append(attrs, slog.String("type", kind))
	}
	body, status, cut := slog.Attr{}, redact.StatusNone, false
	switch {
	case b.Short():
		status, body = redact.StatusFailedClosed, slog.String("body", fmt.Sprintf("[%d bytes, not kept]", b.N()))
		c.proxy.metrics.notRedacted(noMemory)
	case b.N() > 0 && !b.Opened():
		status, body = redact.StatusFailedClosed, slog.String("body", fmt.Sprintf("[%d bytes, not read]", b.N()))
		c.proxy.metrics.notRedacted(notReadable)
	default:
		e := c.tool.Scrubber.Excerpt(h.Get("Content-Type"), strings.Join(h["Content-Encoding"], ","), b.Kept(), whole && b.All(), maxLogged)
		status, cut, body = e.Status, e.Cut || !whole, slog.Any("body", e)
		if status == redact.StatusFailedClosed {
			c.proxy.metrics.notRedacted(notReadable)
		}
		if len(e.Counts) > 0 {
			attrs = append(attrs, c.countMasks(e.Counts))
		}
	}
	if cut && status != redact.StatusFailedClosed {
		status = partial
	}
	c.rec.RedactionStatus, c.rec.RedactionCut, c.rec.RedactionRules = worse(c.rec.RedactionStatus, status), c.rec.RedactionCut || cut, redact.Ruleset()
	attrs = append(attrs, slog.Int64("bytes", b.N()), slog.Bool("truncated", cut), slog.String("redaction", status), body)
	c.proxy.log.LogAttrs(context.Background(), slog.LevelInfo, "payload", attrs...)
}

// countMasks counts masks in the record and in the metrics, and returns them as an attribute.
func (c *call) countMasks(counts map[string]int) slog.Attr {
	var attrs []slog.Attr
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		n := counts[class]
		c.proxy.metrics.redacted(class, n)
		if c.rec.RedactionCounts == nil {
			c.rec.RedactionCounts = map[string]int{}
		}
		c.rec.RedactionCounts[class] += n
		attrs = append(attrs, slog.Int(class, n))
	}
	return slog.Attr{Key: "redactions", Value: slog.GroupValue(attrs...)}
}

// partial is the status of a body of which only the beginning was looked at.
const partial = "partial"

// statuses are in ascending order of what they say of the call.
var statuses = []string{"", redact.StatusNone, redact.StatusRedacted, partial, redact.StatusFailedClosed}

func worse(a, b string) string {
	return statuses[max(slices.Index(statuses, a), slices.Index(statuses, b))]
}
