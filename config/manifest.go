package config

import (
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/redact"
)

// manifest is a Tool with what later checks need of its file.
type manifest struct {
	tool  *Tool
	raw   *rawManifest
	sound bool // without a mistake of its own
}

// manifest reads one manifest, from its file or from a document that stands in another. It returns nil when not even the name
// could be read.
func (l *loader) manifest(path string, doc *document) *manifest {
	before := len(l.mistakes)
	var raw *rawManifest
	var ok bool
	if doc != nil {
		raw, ok = decodeDocument[rawManifest](l, decoder{report: &l.report}, *doc, "")
	} else {
		raw, ok = decodeFile[rawManifest](l, path, "")
	}
	if !ok {
		return nil
	}
	l.manifestWarnings(raw)
	t := &Tool{
		Name: string(raw.Name.V), Owner: raw.Owner.V, Version: string(raw.Version.V), Description: raw.Description.V,
		Risk:                string(raw.Risk.V),
		CapabilityClasses:   l.capabilityClasses(raw),
		RequiredScopes:      plain(raw.RequiredScopes.V),
		Roles:               plain(raw.Permissions.V.Roles.V),
		SideEffects:         l.sideEffects(raw),
		IdempotencyRequired: raw.IdempotencyRequired.V,
		Timeout:             time.Duration(raw.TimeoutMs.V) * time.Millisecond,
		AllowPrivateNetwork: raw.Egress.V.AllowPrivateNetwork.V,
		RedactFields:        plain(raw.Observability.V.RedactFields.V),
	}
	if t.ApprovalRequired, t.ApprovalRequiredFor = l.approval(raw); t.ApprovalRequired {
		l.warnf(raw.Name.at, "the tool needs approval, which this version leaves to the agent's runtime: it does not hold calls back")
	}
	t.RequiredTraceFields = l.traceFields(raw)
	in := choose(l, raw.InputSchemaRef, raw.InputSchema, "inputSchemaRef", "input_schema")
	t.InputSchemaRef, t.InputFields = in.V, l.inputFields(in, path)
	t.OutputSchemaRef = choose(l, raw.OutputSchemaRef, raw.OutputSchema, "outputSchemaRef", "output_schema").V
	t.Policy = l.policy(&raw.Egress.V)
	t.Scrubber = l.scrubber(&raw.Observability.V)
	return &manifest{tool: t, raw: raw, sound: len(l.mistakes) == before}
}

// scrubber masks what the manifest says. A path that is none is a mistake: as a name it would mask nothing.
func (l *loader) scrubber(raw *rawObservability) *redact.Scrubber {
	rules := redact.Rules{}
	for _, f := range raw.RedactFields.V {
		if _, err := redact.NewRules(redact.Rules{Fields: []string{f.V}}); f.ok && err != nil {
			l.errorf(f.at, "found %s, expected a field's name or a path such as $.order.items[*].name or $['first name']: %v", quote(f.V), err)
		} else if f.ok && strings.Trim(f.V, "_-. ") == "" {
			l.errorf(f.at, "found %s, expected a field's name, which has more than _ - . and spaces", quote(f.V))
		} else if f.ok {
			rules.Fields = append(rules.Fields, f.V)
			l.nameOrPath(f)
		}
	}
	if raw.RedactClasses.ok {
		rules.Classes = []string{}
		for _, f := range raw.RedactClasses.V {
			if f.ok {
				rules.Classes = append(rules.Classes, string(f.V))
			}
		}
	}
	s, err := redact.NewRules(rules)
	if err != nil { // every part of it was looked at
		return &redact.Scrubber{}
	}
	return s
}

// nameOrPath warns of a path without its "$", which masks nothing where it was meant to.
func (l *loader) nameOrPath(f field[string]) {
	if strings.HasPrefix(f.V, "$") || !strings.ContainsAny(f.V, ".[]/*") {
		return
	}
	l.warnf(f.at, "%s counts as the name of one key; a path begins with $., such as $.order.items[*].name", quote(f.V))
}

// traceFieldNames are the trace fields that a call can carry, in the spellings that manifests use.
var traceFieldNames = []string{
	"run_id", "run", "actor_id", "actor", "subject", "agent_id", "agent", "task_id", "task", "tenant_id", "tenant", "trace_id",
	"policy_version", "policy_revision", "tool", "tool_name", "tool_version", "decision", "latency_ms",
}

// TraceFields returns the names that requiredTraceFields may hold without refusing every call.
func TraceFields() []string { return slices.Clone(traceFieldNames) }

func (l *loader) traceFields(raw *rawManifest) []string {
	f := choose(l, raw.Observability.V.RequiredTraceFields, raw.Trace.V.Fields, "observability.requiredTraceFields", "trace.fields")
	for _, name := range f.V {
		if name.ok && !slices.Contains(traceFieldNames, strings.ToLower(name.V)) {
			l.warnf(name.at, "no call can carry trace field %s, so every call is refused; expected %s", quote(name.V), oneOf(traceFieldNames, name.V))
		}
	}
	return plain(f.V)
}

// manifestWarnings names what is missing and what counts in its place: always the risky value.
func (l *loader) manifestWarnings(raw *rawManifest) {
	if raw.IdempotencyRequired.V {
		l.warnf(raw.IdempotencyRequired.at, "idempotencyRequired is true, which this version does not enforce")
	}
	if !raw.Risk.present {
		l.warnf(raw.Risk.at, "risk is missing, counts as high")
	}
	if !raw.CapabilityClasses.present && !raw.Capabilities.present {
		l.warnf(raw.CapabilityClasses.at, "capabilityClasses is missing, counts as all of them")
	}
	if !raw.SideEffects.present && !raw.SideEffectsC.present {
		l.warnf(raw.SideEffects.at, "sideEffects is missing, counts as external_write")
	}
	if !raw.Egress.present {
		l.warnf(raw.Egress.at, "egress is missing, nothing is allowed")
	}
	if !raw.TimeoutMs.present {
		l.warnf(raw.TimeoutMs.at, "timeoutMs is missing, counts as 30000")
	}
	if !raw.Description.present {
		l.warnf(raw.Description.at, "description is missing, nobody can tell what the tool is for")
	}
	if !raw.Owner.present {
		l.warnf(raw.Owner.at, "owner is missing, nobody answers for the tool")
	}
}

// choose returns the spelling that is present; giving the same thing twice is a mistake.
func choose[T any](l *loader, full, compact field[T], fullKey, compactKey string) field[T] {
	if full.present && compact.present {
		l.errorf(compact.at, "found %s beside %s at %d:%d, expected one of the two", compactKey, fullKey, full.at.line, full.at.col)
	}
	if compact.present {
		return compact
	}
	return full
}

func (l *loader) capabilityClasses(raw *rawManifest) []string {
	f := choose(l, raw.CapabilityClasses, raw.Capabilities, "capabilityClasses", "capabilities")
	if !f.present {
		return capabilityClass("").values()
	}
	return plain(f.V)
}

func (l *loader) sideEffects(raw *rawManifest) string {
	f := choose(l, raw.SideEffects, raw.SideEffectsC, "sideEffects", "side_effects")
	if !f.present {
		return "external_write"
	}
	return string(f.V)
}

// approval reads both spellings. Naming kinds of call that need approval makes approval required: whoever does not
// know the kinds must ask for all.
func (l *loader) approval(raw *rawManifest) (required bool, kinds []string) {
	if raw.ApprovalRequired.present && raw.Approval.present {
		at := raw.ApprovalRequired.at
		l.errorf(raw.Approval.at, "found approval beside approvalRequired at %d:%d, expected one of the two", at.line, at.col)
	}
	kinds = plain(raw.Approval.V.RequiredFor.V)
	return raw.ApprovalRequired.V || len(kinds) > 0, kinds
}

// policy builds the allowlist. It is never nil, and empty denies everything.
func (l *loader) policy(raw *rawManifestEgress) *egress.Policy {
	allowed := valid(raw.AllowedDomains.V)
	var rules []egress.Rule
	for _, f := range raw.Rules.V {
		if rule, ok := l.rule(&f.V, allowed, raw.AllowedDomains.ok); ok && f.ok {
			rules = append(rules, rule)
		}
	}
	return egress.NewPolicy(allowed, rules)
}

func (l *loader) rule(raw *rawRule, allowed []egress.Pattern, complete bool) (egress.Rule, bool) {
	rule := egress.Rule{Host: raw.Host.V, Ports: ports(raw.Ports.V), Methods: plain(raw.Methods.V), Paths: valid(raw.Paths.V)}
	if !raw.Host.ok || !complete {
		return rule, false
	}
	if err := rule.Validate(); err != nil {
		l.errorf(raw.Host.at, "found a rule that can never match, expected another: %v", err)
		return rule, false
	}
	for _, p := range raw.Ports.V {
		if p.ok && !coversAny(allowed, raw.Host.V, []uint16{uint16(p.V)}) {
			l.errorf(p.at, "found port %d of %s, expected one that allowedDomains covers", p.V, quote(raw.Host.V.String()))
		}
	}
	if len(rule.Ports) == 0 && !coversAny(allowed, raw.Host.V, nil) {
		l.errorf(raw.Host.at, "found host %s, expected one that allowedDomains covers: a rule narrows the list and adds nothing to it",
			quote(raw.Host.V.String()))
	}
	return rule, true
}

// coversAny reports whether one of the ports of host (nil: those that its pattern means) is covered by the allowlist.
func coversAny(allowed []egress.Pattern, host egress.Pattern, ports []uint16) bool {
	name, own := probe(host)
	if ports == nil {
		for _, p := range []uint16{own, 443, 80} {
			if host.Match(name, p) {
				ports = append(ports, p)
			}
		}
	}
	return slices.ContainsFunc(ports, func(port uint16) bool {
		return slices.ContainsFunc(allowed, func(a egress.Pattern) bool { return a.Match(name, port) })
	})
}

// probe returns a host that the pattern covers: for a wildcard a name that no exact entry has, so that only a wildcard
// as wide can cover it.
func probe(p egress.Pattern) (host string, port uint16) {
	text := p.String()
	if len(text) > 1 && text[0] == '*' {
		text = "rule-coverage-probe" + text[1:]
	}
	if host, err := egress.ParseHost(text); err == nil {
		return host, 443
	}
	host, port, _ = egress.ParseAuthority(text, 443)
	return host, port
}
