package ship

import (
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/toolgate/toolgate/audit"
)

// named is what of a line is repeated beside it, so that a backend can find and sort lines without reading them.
type named struct {
	Kind     string `json:"kind"`
	Chain    string `json:"chain"`
	Seq      int64  `json:"seq"`
	Time     string `json:"time"`
	ID       string `json:"id"`
	Tool     string `json:"tool"`
	Decision string `json:"decision"`
	Code     string `json:"code"`
	Error    string `json:"error_class"`
	Trace    string `json:"trace_id"`
	Span     string `json:"span_id"`
	CallSpan string `json:"call_span_id"`
}

// kinds are those of lines, and what EventName can say.
var kinds = map[string]string{
	"request": "toolgate.audit.request", "tunnel": "toolgate.audit.tunnel", audit.KindIntent: "toolgate.audit.intent",
	audit.KindStart: "toolgate.audit.start", audit.KindCheckpoint: "toolgate.audit.checkpoint", audit.KindEnd: "toolgate.audit.end",
}

// message is what is sent of lines, and the chain that the last of them is of.
func (s *Shipper) message(lines [][]byte, chain string) (*logs.LogsData, string) {
	now := uint64(time.Now().UnixNano())
	records := make([]*logs.LogRecord, len(lines))
	for i, line := range lines {
		var n named
		if json.Unmarshal(line, &n) != nil {
			n = named{} // a line that a process left when it ended
		}
		if n.Chain != "" {
			chain = n.Chain
		}
		records[i] = record(line, &n, chain)
		records[i].ObservedTimeUnixNano = now
	}
	about := attributes{}
	about.text("service.name", "toolgate-sidecar")
	about.text("service.version", s.options.Version)
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: about},
		ScopeLogs: []*logs.ScopeLogs{{
			Scope:      &common.InstrumentationScope{Name: "github.com/toolgate/toolgate/audit", Version: s.options.Version},
			LogRecords: records,
		}},
	}}}, chain
}

func record(line []byte, n *named, chain string) *logs.LogRecord {
	r := &logs.LogRecord{Body: body(line), EventName: kinds[n.Kind]}
	if r.EventName == "" {
		r.EventName = "toolgate.audit.line"
	}
	r.SeverityNumber, r.SeverityText = severity(n)
	if at, err := time.Parse(time.RFC3339, n.Time); err == nil {
		r.TimeUnixNano = uint64(max(at.UnixNano(), 0))
	}
	if n.CallSpan != "" {
		n.Span = n.CallSpan
	}
	if r.TraceId = id(n.Trace, 16); r.TraceId != nil {
		r.SpanId = id(n.Span, 8)
	}
	a := attributes{}
	a.text("toolgate.audit.chain", chain)
	if n.Seq > 0 {
		a.number("toolgate.audit.seq", n.Seq)
	}
	a.text("toolgate.decision.id", n.ID)
	a.text("gen_ai.tool.name", n.Tool)
	a.text("toolgate.decision", n.Decision)
	a.text("toolgate.denial.code", n.Code)
	a.text("toolgate.error.class", n.Error)
	r.Attributes = a
	return r
}

// body is the line as it is. Protobuf's texts are UTF-8, which a line that was cut may not be.
func body(line []byte) *common.AnyValue {
	if !utf8.Valid(line) {
		return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: line}}
	}
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: string(line)}}
}

// severity tells what somebody may want to look at: denials, and calls that ended badly.
func severity(n *named) (logs.SeverityNumber, string) {
	switch {
	case n.Decision == "deny":
		return logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	case n.Decision != "" && n.Error != "":
		return logs.SeverityNumber_SEVERITY_NUMBER_ERROR, "ERROR"
	}
	return logs.SeverityNumber_SEVERITY_NUMBER_INFO, "INFO"
}

// id is the bytes of an id in hex, nil for what is none.
func id(text string, size int) []byte {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != size {
		return nil
	}
	return b
}

// attributes leave out what is empty.
type attributes []*common.KeyValue

// maxValue bounds a text: of a file, lines are what whoever can write it has written. What is shorter stands in the body as well.
const maxValue = 256

func (a *attributes) text(key, value string) {
	if value != "" && len(value) <= maxValue {
		*a = append(*a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}})
	}
}

func (a *attributes) number(key string, value int64) {
	*a = append(*a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}})
}
