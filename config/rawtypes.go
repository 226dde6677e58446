package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/identity"
	"github.com/toolgate/toolgate/killswitch/signals"
	"github.com/toolgate/toolgate/redact"
)

// patterned is a string type whose text must match a regular expression; the JSON Schema carries the same one.
type patterned interface {
	pattern() string
	shaped
}

var compiled = map[string]*regexp.Regexp{
	namePattern: regexp.MustCompile(namePattern), scopePattern: regexp.MustCompile(scopePattern),
	methodPattern: regexp.MustCompile(methodPattern), headerPattern: regexp.MustCompile(headerPattern),
	versionPattern: regexp.MustCompile(versionPattern), lowerPattern: regexp.MustCompile(lowerPattern),
	parameterPattern: regexp.MustCompile(parameterPattern), placeholderPattern: regexp.MustCompile(placeholderPattern),
	repositoryPattern: regexp.MustCompile(repositoryPattern), permissionPattern: regexp.MustCompile(permissionPattern),
	roleARNPattern: regexp.MustCompile(roleARNPattern), awsLabelPattern: regexp.MustCompile(awsLabelPattern),
}

const (
	namePattern    = `^[a-z][a-z0-9_.-]{0,62}$`
	scopePattern   = `^[\x21\x23-\x5b\x5d-\x7e]+$` // RFC 6749, section 3.3
	methodPattern  = `^[A-Z][A-Z-]{0,19}$`
	headerPattern  = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$" // RFC 9110, section 5.1
	versionPattern = `^[\x21-\x7e]{1,64}$`
	lowerPattern   = `^[a-z0-9.+/-]{1,64}$`

	parameterPattern = `^[A-Za-z0-9_.-]{1,64}$` // of a form; RFC 6749, section 8.2
)

// name names a tool, a listener or a binding.
type name string

func (name) pattern() string { return namePattern }
func (name) shape() string {
	return "a name of a-z, 0-9, _ . - that begins with a letter and has at most 63 characters"
}

type scope string

func (scope) pattern() string { return scopePattern }
func (scope) shape() string   { return "a scope without spaces, quotes or backslashes" }

type method string

func (method) pattern() string { return methodPattern }
func (method) shape() string   { return "a method in upper case such as GET" }

type headerName string

func (headerName) pattern() string { return headerPattern }
func (headerName) shape() string   { return "a header name such as X-Api-Key" }

type version string

func (version) pattern() string { return versionPattern }
func (version) shape() string   { return `a version such as "2026-06-17" or "1.4.0", as a string` }

// tokenType is a value of a token's typ header.
type tokenType string

func (tokenType) pattern() string { return lowerPattern }
func (tokenType) shape() string   { return "a token type in lower case such as at+jwt" }

// port is a TCP port.
type port int

func (port) bounds() (lo, hi string) { return "1", "65535" }
func (port) shape() string           { return "a port, a whole number from 1 to 65535" }

// names is a list of strings that may be written as one string.
type names []field[string]

// cidr is a network prefix without host bits.
type cidr netip.Prefix

func (cidr) shape() string { return "a network prefix such as 10.20.0.0/24 or 10.20.0.5/32" }

// UnmarshalText parses a prefix and refuses one with host bits, whose extent a reader would misjudge.
func (c *cidr) UnmarshalText(b []byte) error {
	p, err := netip.ParsePrefix(string(b))
	if err != nil {
		return errShape
	}
	if p.Addr().Is4In6() {
		return errors.New("an IPv4 network is written as IPv4")
	}
	if p != p.Masked() {
		return fmt.Errorf("bits are set beyond the prefix; did you mean %s?", p.Masked())
	}
	*c = cidr(p)
	return nil
}

// errShape says nothing beyond what was expected.
var errShape = errors.New("")

type apiVersion string

func (apiVersion) values() []string { return []string{"toolgate/v1"} }

type kindSidecar string

func (kindSidecar) values() []string { return []string{"Sidecar"} }

type kindRevocations string

func (kindRevocations) values() []string { return []string{"Revocations"} }

type kindSignals string

func (kindSignals) values() []string { return []string{"Signals"} }

type rawMode string

func (rawMode) values() []string { return []string{string(Enforce), string(Report)} }

// signalEvent is an event that a rule of a Signals file may act on.
type signalEvent string

func (signalEvent) values() []string { return texts(signals.Actionable) }

// subjectMember is a member of a complex subject of a security event.
type subjectMember string

func (subjectMember) values() []string { return signals.Members() }

type reasonFrom string

func (reasonFrom) values() []string {
	return []string{string(signals.ReasonAdmin), string(signals.ReasonUser), string(signals.ReasonNone)}
}

// template is a text with a placeholder for a part of an event's subject.
type template signals.Template

func (template) shape() string { return "a text such as user:{email} or {tenant.id}" }

// UnmarshalText parses a template.
func (t *template) UnmarshalText(b []byte) error {
	parsed, err := signals.ParseTemplate(string(b))
	*t = template(parsed)
	return err
}

type risk string

func (risk) values() []string { return []string{"low", "medium", "high", "critical"} }

type capabilityClass string

func (capabilityClass) values() []string {
	return []string{"read_public", "read_private", "read_untrusted", "write_side_effect", "external_communication",
		"browser_or_code", "memory_write", "credential_use"}
}

// redactClass is a class of personal data.
type redactClass string

func (redactClass) values() []string { return redact.Classes() }

type sideEffects string

func (sideEffects) values() []string {
	return []string{"none", "draft", "external_write", "money_movement", "message_send"}
}

type listenerKind string

func (listenerKind) values() []string { return []string{Explicit, Transparent, DNS, Gateway} }

type fenceRules string

func (fenceRules) values() []string { return []string{FenceNetinit, FenceExternal} }

type algorithm string

func (algorithm) values() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

type replayMode string

func (replayMode) values() []string { return []string{"off", "once", "bind"} }

// mode gives the identity package's word, whose zero value is off.
func (m replayMode) mode() identity.ReplayMode {
	if m == "off" {
		return identity.ReplayOff
	}
	return identity.ReplayMode(m)
}

type preset string

func (preset) values() []string { return texts(identity.Presets()) }

type exchangeMode string

func (exchangeMode) values() []string { return []string{"delegation", "impersonation"} }

type targetBy string

func (targetBy) values() []string {
	return texts([]broker.Target{broker.TargetAudience, broker.TargetResource, broker.TargetBoth, broker.TargetScope})
}

type parameterName string

func (parameterName) pattern() string { return parameterPattern }
func (parameterName) shape() string   { return "a parameter name such as connection" }

type authMethod string

func (authMethod) values() []string {
	return []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt", "workload_token", "tls_client_auth"}
}

type logLevel string

func (logLevel) values() []string { return []string{"debug", "info", "warn", "error"} }

type logFormat string

func (logFormat) values() []string { return []string{"json", "text"} }

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// plain returns the valid entries of a list as strings.
func plain[T ~string](list []field[T]) []string {
	var out []string
	for _, f := range list {
		if f.ok {
			out = append(out, string(f.V))
		}
	}
	return out
}

// valid returns the valid entries of a list.
func valid[T any](list []field[T]) []T {
	var out []T
	for _, f := range list {
		if f.ok {
			out = append(out, f.V)
		}
	}
	return out
}

// ports returns the valid ports of a list.
func ports(list []field[port]) []uint16 {
	var out []uint16
	for _, p := range valid(list) {
		out = append(out, uint16(p))
	}
	return out
}
