package audit

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// link is what the chain adds to a record. The zero value adds nothing.
type link struct {
	seq  uint64
	prev []byte // hex SHA-256 of the line before, without its newline
	lost uint64 // records that were dropped since the line before
}

// appendRecord appends the record as one canonical JSON object (RFC 8785): keys in ascending order, no white space,
// shortest numbers, only the escapes that must be. The order is written out here, and a test holds it to the schema.
func appendRecord(b []byte, r *Record, l link) []byte {
	o := object{b: append(b, '{')}
	o.str("agent", r.Agent)
	o.flag("approval_required", r.ApprovalRequired)
	o.num("attempt", int64(r.Attempt))
	o.num("bytes_in", r.BytesIn)
	o.num("bytes_out", r.BytesOut)
	o.str("call_span_id", r.CallSpanID)
	o.list("capability_classes", r.CapabilityClasses)
	o.str("code", r.Code)
	o.str("credential_audience", r.CredentialAudience)
	o.str("credential_binding", r.CredentialBinding)
	o.time("credential_expires", r.CredentialExpires)
	o.str("credential_kind", r.CredentialKind)
	o.ms("credential_ms", r.CredentialTime)
	o.list("credential_scopes", r.CredentialScopes)
	o.str("decision", r.Decision)
	o.num("dial_attempts", int64(r.DialAttempts))
	o.str("error_class", r.ErrorClass)
	o.str("gateway_decision_id", r.GatewayDecisionID)
	o.str("host", r.Host)
	o.str("id", r.ID)
	o.str("idempotency_key", r.IdempotencyKey)
	o.list("input_shape", r.InputShape)
	o.str("input_type", r.InputType)
	o.ms("intent_ms", r.IntentTime)
	o.flag("intercepted", r.Intercepted)
	o.str("issuer", r.Issuer)
	o.str("kind", r.Kind)
	o.str("listener", r.Listener)
	o.num("lost", int64(l.lost))
	o.str("method", r.Method)
	o.str("mode", r.Mode)
	o.str("path", r.Path)
	o.ms("policy_ms", r.PolicyTime)
	o.str("policy_revision", r.PolicyRevision)
	o.num("port", int64(r.Port))
	o.hash("prev_hash", l.prev)
	o.str("reason", r.Reason)
	o.counts("redaction_counts", r.RedactionCounts)
	o.str("redaction_ruleset", r.RedactionRules)
	o.str("redaction_status", r.RedactionStatus)
	o.flag("redaction_truncated", r.RedactionCut)
	o.str("revocation_id", r.RevocationID)
	o.str("risk", r.Risk)
	o.str("rule", r.Rule)
	o.str("run", r.Run)
	o.list("run_classes_before", r.RunClassesBefore)
	o.str("scheme", r.Scheme)
	o.num("seq", int64(l.seq))
	o.str("side_effects", r.SideEffects)
	o.str("sidecar_decision_id", r.SidecarDecisionID)
	o.str("span_id", r.SpanID)
	o.num("status", int64(r.Status))
	o.str("subject", r.Subject)
	o.str("task", r.Task)
	o.str("tenant", r.Tenant)
	o.time("time", r.Time)
	o.str("tool", r.Tool)
	o.str("tool_version", r.ToolVersion)
	o.ms("total_ms", r.Total)
	o.str("trace_id", r.TraceID)
	o.ms("upstream_ms", r.UpstreamTime)
	o.num("v", Version)
	o.str("workload", r.Workload)
	return append(o.b, '}')
}

// The bounds of what one record may hold, so that nobody's claims or payload can fill the disk.
const (
	maxText      = 1024
	maxList      = 64
	maxListBytes = 16 << 10 // after which no other entry is begun
)

// object appends members and leaves out absent values.
type object struct{ b []byte }

// key must be plain ASCII.
func (o *object) key(k string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, k...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(k, v string) {
	if v != "" {
		o.key(k)
		o.b = appendString(o.b, v)
	}
}

// hash writes hexadecimal digits, which need no escapes.
func (o *object) hash(k string, v []byte) {
	if len(v) > 0 {
		o.key(k)
		o.b = append(o.b, '"')
		o.b = append(o.b, v...)
		o.b = append(o.b, '"')
	}
}

// num bounds numbers at what every JSON reader holds exactly (RFC 8785, section 3.2.2.3, after RFC 7493).
func (o *object) num(k string, v int64) {
	const limit = 1<<53 - 1
	if v != 0 {
		o.key(k)
		o.b = strconv.AppendInt(o.b, min(max(v, -limit), limit), 10)
	}
}

func (o *object) flag(k string, v bool) {
	if v {
		o.key(k)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) time(k string, v time.Time) {
	if !v.IsZero() {
		o.key(k)
		o.b = v.UTC().AppendFormat(o.b, `"2006-01-02T15:04:05.000Z"`)
	}
}

// ms writes milliseconds with the microseconds as a fraction. At most three digits after the point are what the shortest
// form of the nearest float64 has as well, which RFC 8785 asks for.
func (o *object) ms(k string, v time.Duration) {
	us := v.Microseconds()
	if us <= 0 {
		return
	}
	o.key(k)
	o.b = strconv.AppendInt(o.b, us/1000, 10)
	if rest := us % 1000; rest != 0 {
		o.b = append(o.b, '.', byte('0'+rest/100))
		if rest%100 != 0 {
			o.b = append(o.b, byte('0'+rest/10%10))
		}
		if rest%10 != 0 {
			o.b = append(o.b, byte('0'+rest%10))
		}
	}
}

func (o *object) list(k string, v []string) {
	if len(v) == 0 {
		return
	}
	o.key(k)
	o.b = append(o.b, '[')
	start := len(o.b)
	for i, s := range v[:min(len(v), maxList)] {
		if len(o.b)-start > maxListBytes {
			break
		}
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, s)
	}
	o.b = append(o.b, ']')
}

// counts writes an object of numbers. Its keys are classes of masks, a small set of ASCII names, for which byte order is
// the order of UTF-16 code units that RFC 8785 asks for.
func (o *object) counts(k string, v map[string]int) {
	if len(v) == 0 {
		return
	}
	o.key(k)
	o.b = append(o.b, '{')
	for i, class := range slices.Sorted(maps.Keys(v)) {
		if i == maxList {
			break
		}
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, class)
		o.b = append(o.b, ':')
		o.b = strconv.AppendInt(o.b, int64(v[class]), 10)
	}
	o.b = append(o.b, '}')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string with the escapes of RFC 8785, section 3.2.2.2. Bytes that are not UTF-8 become
// U+FFFD; a text that is too long is cut and ends with "…".
func appendString(b []byte, s string) []byte {
	cut := len(s) > maxText
	if cut {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(b, s[done:i]...)
		b = appendEscape(b, c)
		i += n
		done = i
	}
	b = append(b, s[done:]...)
	if cut {
		b = append(b, "…"...)
	}
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\t':
		return append(b, `\t`...)
	case '\n':
		return append(b, `\n`...)
	case '\f':
		return append(b, `\f`...)
	case '\r':
		return append(b, `\r`...)
	}
	if c >= utf8.RuneSelf {
		return append(b, "\uFFFD"...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
