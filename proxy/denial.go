package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/egress"
)

// docs is the page that explains each code; the code is the fragment.
const docs = "https://github.com/toolgate/toolgate/blob/main/docs/denials.md#"

// Code is the stable name of a refusal. Agents and dashboards key on it; a code is never renamed.
type Code string

// The codes of every refusal and failure.
const (
	BadTarget             Code = "bad_target"
	BadRequest            Code = "bad_request"
	HeaderTooLarge        Code = "header_too_large"
	Unauthenticated       Code = "unauthenticated"
	ToolUnknown           Code = "tool_unknown"
	DomainNotAllowed           = Code(egress.CodeDomain)
	MethodNotAllowed           = Code(egress.CodeMethod)
	PathNotAllowed             = Code(egress.CodePath)
	PrivateNetwork             = Code(egress.CodePrivate)
	InsufficientScope     Code = "insufficient_scope"
	RoleNotAllowed        Code = "role_not_allowed"
	TraceFieldMissing     Code = "trace_field_missing"
	Revoked               Code = "revoked"
	WorkloadNotAllowed    Code = "workload_not_allowed"
	CredentialDenied      Code = "credential_denied"
	TargetMismatch        Code = "target_mismatch"
	TooManyCalls          Code = "too_many_calls"
	UpstreamUnreachable   Code = "upstream_unreachable"
	UpstreamTLS           Code = "upstream_tls"
	UpstreamProtocol      Code = "upstream_protocol"
	KillSwitchStale       Code = "kill_switch_stale"
	CredentialUnavailable Code = "credential_unavailable"
	NotReady              Code = "not_ready"
	Overloaded            Code = "overloaded"
	UpstreamTimeout       Code = "upstream_timeout"
	ToolTimeout           Code = "tool_timeout"
)

// meaning is what a code is worth at the edge.
type meaning struct {
	status    int
	title     string
	retry     time.Duration // 0: not retryable
	failure   bool          // no gate says it: the call was allowed and then failed upstream
	nextSteps []string
}

var meanings = map[Code]meaning{
	BadTarget: {400, "The target of the request is malformed", 0, false,
		[]string{"Send an absolute http:// URL or CONNECT host:port, with a plain ASCII host name and a decimal port."}},
	BadRequest: {400, "The request is not well-formed HTTP", 0, false,
		[]string{"Do not retry the same bytes: correct the HTTP client or its message."}},
	HeaderTooLarge: {431, "The request's header is too large", 0, false,
		[]string{"Send fewer or shorter header fields, or a shorter URL."}},
	Unauthenticated: {407, "The caller is not known", 0, false,
		[]string{"Ask the agent runtime for a new task token.", "Send it as the proxy password, or in Toolgate-Authorization."}},
	ToolUnknown: {403, "No tool with this name uses this listener", 0, false,
		[]string{"Use the name of a tool of this listener as the proxy user."}},
	DomainNotAllowed: {403, "The tool may not reach this host", 0, false,
		[]string{"Do not retry: the manifest of this tool does not list the host.", "Use a tool that is meant for this host, or ask the tool's owner to add it."}},
	MethodNotAllowed: {403, "The tool may not use this method here", 0, false,
		[]string{"Do not retry with this method.", "Use a method that the tool's manifest allows for this host."}},
	PathNotAllowed: {403, "The tool may not reach this path", 0, false,
		[]string{"Do not retry this path.", "Use a path that the tool's manifest allows for this host."}},
	PrivateNetwork: {403, "The address is not on the public network", 0, false,
		[]string{"Do not retry: private, local and metadata addresses are out of bounds for tools."}},
	InsufficientScope: {403, "The caller's token lacks a scope that the tool requires", 0, false,
		[]string{"Ask the agent runtime for a task token with the tool's required scopes."}},
	RoleNotAllowed: {403, "The caller has no role that may use this tool", 0, false,
		[]string{"Use a tool that the caller's roles permit, or ask for the role."}},
	TraceFieldMissing: {403, "The tool requires trace fields that the call does not carry", 0, false,
		[]string{"Call again with a task token that carries the run, task and agent of this call."}},
	Revoked: {403, "The call was stopped by the kill switch", 0, false,
		[]string{"Stop using this tool for this task.", "Report to the operator; only they can restore it."}},
	WorkloadNotAllowed: {403, "The gateway does not let this workload speak for the tool or its caller", 0, false,
		[]string{"Do not retry: report it to the operator."}},
	CredentialDenied: {403, "No credential may be issued for this call", 0, false,
		[]string{"Do not retry with the same token: the issuer refuses this caller, audience or scope."}},
	TargetMismatch: {421, "The request names another host than its connection", 0, false,
		[]string{"Open a connection of its own for each host."}},
	TooManyCalls: {429, "The tenant has too many calls at once", time.Second, false,
		[]string{"Retry later with backoff.", "Make fewer calls at once, and close connections that are no longer needed."}},
	UpstreamUnreachable: {502, "The upstream cannot be reached", 2 * time.Second, true,
		[]string{"Retry later with backoff, a few times at most."}},
	UpstreamTLS: {502, "The upstream's TLS certificate or handshake is not acceptable", 0, true,
		[]string{"Do not retry: report the host to the operator."}},
	UpstreamProtocol: {502, "The upstream's answer is malformed or broke off", 2 * time.Second, true,
		[]string{"Retry once if the request is idempotent."}},
	KillSwitchStale: {503, "The kill switch has not been heard, so tools of this risk are held", 5 * time.Second, false,
		[]string{"Wait and retry.", "Use a tool of lower risk meanwhile."}},
	CredentialUnavailable: {503, "The credential's issuer cannot be reached", 2 * time.Second, false,
		[]string{"Retry later with backoff."}},
	NotReady: {503, "The sidecar is not ready for this call", time.Second, false,
		[]string{"Wait and retry."}},
	Overloaded: {503, "The sidecar is at its limit", time.Second, false,
		[]string{"Retry later with backoff.", "Close connections that are no longer needed."}},
	UpstreamTimeout: {504, "The upstream did not answer in time", 2 * time.Second, true,
		[]string{"Retry later if the request is idempotent."}},
	ToolTimeout: {504, "The call took longer than the tool's manifest allows", 0, true,
		[]string{"Ask for less in one call.", "Check before repeating: the upstream may have acted."}},
}

// Denial is a refusal or failure with what the agent may know of it. Its cause is for the log only.
type Denial struct {
	Code       Code
	Detail     string // public: no secret, no address, nothing about what is forbidden beyond the request's own words
	RetryAfter time.Duration
	Status     int // in place of the code's own; 0: that
	Cause      error
}

func deny(code Code, detail string, cause error) *Denial {
	return &Denial{Code: code, Detail: detail, Cause: cause}
}

func (d *Denial) Error() string { return string(d.Code) }

func (d *Denial) Unwrap() error { return d.Cause }

func (d *Denial) meaning() meaning {
	m, ok := meanings[d.Code]
	if !ok {
		m = meaning{status: http.StatusForbidden, title: "Refused"}
	}
	if d.Status != 0 {
		m.status = d.Status
	}
	if d.RetryAfter > 0 && m.retry > 0 {
		m.retry = d.RetryAfter
	}
	return m
}

// problem is the body of a refusal (RFC 9457, section 3, with our extension members).
type problem struct {
	Type           string   `json:"type"`
	Title          string   `json:"title"`
	Status         int      `json:"status"`
	Detail         string   `json:"detail,omitempty"`
	Code           Code     `json:"code"`
	Retryable      bool     `json:"retryable"`
	RetryAfterMS   int64    `json:"retry_after_ms,omitempty"`
	DecisionID     string   `json:"decision_id"`
	Tool           string   `json:"tool,omitempty"`
	PolicyRevision string   `json:"policy_revision,omitempty"`
	NextSteps      []string `json:"next_steps,omitempty"`
}

// answer returns status, header and body of the refusal of c.
func (d *Denial) answer(c *call) (int, http.Header, []byte) {
	m := d.meaning()
	body, err := json.Marshal(problem{
		Type: docs + string(d.Code), Title: m.title, Status: m.status, Detail: d.Detail, Code: d.Code,
		Retryable: m.retry > 0, RetryAfterMS: m.retry.Milliseconds(), DecisionID: c.rec.ID,
		Tool: c.rec.Tool, PolicyRevision: d.revision(c), NextSteps: m.nextSteps,
	})
	if err != nil { // cannot happen: strings and numbers only
		body = []byte(`{}`)
	}
	h := http.Header{
		"Content-Type":    {"application/problem+json"},
		"Content-Length":  {strconv.Itoa(len(body))},
		"Cache-Control":   {"no-store"},
		"Toolgate-Denial": {string(d.Code)},
	}
	if m.status == http.StatusProxyAuthRequired {
		h["Proxy-Authenticate"] = []string{`Basic realm="toolgate"`, `Bearer realm="toolgate"`}
	}
	if m.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((m.retry+time.Second-1)/time.Second)))
	}
	return m.status, h, body
}

// revision names the policy that refuses, which for a call under way is not the one that had let it pass.
func (d *Denial) revision(c *call) string {
	var changed *policyChanged
	if errors.As(d.Cause, &changed) {
		return changed.revision
	}
	return c.rec.PolicyRevision
}

// reason is the reason phrase of a refused CONNECT, which is all that most clients show.
func (d *Denial) reason() string {
	return fmt.Sprintf("%s: %s", http.StatusText(d.meaning().status), d.Code)
}
