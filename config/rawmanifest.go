package config

import "github.com/toolgate/toolgate/egress"

// rawManifest is a manifest as written, unchecked beyond its types. Both spellings of DESIGN's two forms are keys of it.
type rawManifest struct {
	Name                field[name]                     `key:"name" is:"required" doc:"Name of the tool. Unique among the manifests of a sidecar."`
	Owner               field[string]                   `key:"owner" doc:"Team that answers for the tool. A warning when missing."`
	Version             field[version]                  `key:"version" is:"required" doc:"Version of the tool, as a string. Dates and numbers need quotes."`
	Description         field[string]                   `key:"description" doc:"What the tool does, and what it does not do. A warning when missing."`
	Risk                field[risk]                     `key:"risk" default:"high" doc:"Risk of the tool."`
	CapabilityClasses   field[[]field[capabilityClass]] `key:"capabilityClasses" doc:"What the tool can do. Missing: all classes."`
	RequiredScopes      field[[]field[scope]]           `key:"requiredScopes" doc:"Scopes that the caller's token must carry, and that an exchange asks for."`
	SideEffects         field[sideEffects]              `key:"sideEffects" doc:"What the tool changes outside. Missing: external_write."`
	IdempotencyRequired field[bool]                     `key:"idempotencyRequired" default:"false" doc:"Calls must carry an idempotency key. Not enforced by this version, which warns."`
	ApprovalRequired    field[bool]                     `key:"approvalRequired" default:"false" doc:"Calls must be approved by a human. Left to the agent's runtime by this version, which warns."`
	TimeoutMs           field[int]                      `key:"timeoutMs" default:"30000" min:"1" max:"600000" doc:"Longest duration of one call, in milliseconds."`
	InputSchemaRef      field[string]                   `key:"inputSchemaRef" doc:"File of the JSON Schema of the tool's input, within the manifest's folder. Its property names may appear in records."`
	OutputSchemaRef     field[string]                   `key:"outputSchemaRef" doc:"File of the JSON Schema of the tool's output."`
	Egress              field[rawManifestEgress]        `key:"egress" doc:"Where the tool may connect. Missing: nowhere."`
	Observability       field[rawObservability]         `key:"observability" doc:"What calls must carry for tracing, and what is masked."`

	Capabilities field[[]field[capabilityClass]] `key:"capabilities" doc:"Compact spelling of capabilityClasses."`
	SideEffectsC field[sideEffects]              `key:"side_effects" doc:"Compact spelling of sideEffects."`
	Permissions  field[rawPermissions]           `key:"permissions" doc:"Who may use the tool."`
	Approval     field[rawApproval]              `key:"approval" doc:"Which calls need approval. It implies approvalRequired when the list is not empty."`
	InputSchema  field[string]                   `key:"input_schema" doc:"Compact spelling of inputSchemaRef."`
	OutputSchema field[string]                   `key:"output_schema" doc:"Compact spelling of outputSchemaRef."`
	Trace        field[rawTrace]                 `key:"trace" doc:"Compact spelling of observability.requiredTraceFields."`
}

type rawManifestEgress struct {
	AllowedDomains      field[[]field[egress.Pattern]] `key:"allowedDomains" is:"required" doc:"Hosts that the tool may reach; *.x covers every name below x but not x. An entry may carry a port; without one it means 443 and 80. An empty list allows nothing."`
	AllowPrivateNetwork field[bool]                    `key:"allowPrivateNetwork" default:"false" doc:"The tool may use the exemptions that the sidecar's config grants it under egress.allowPrivate. By itself it lifts nothing."`
	Rules               field[[]field[rawRule]]        `key:"rules" doc:"Narrow allowedDomains on calls that the sidecar can see into."`
}

type rawRule struct {
	Host    field[egress.Pattern]              `key:"host" is:"required" doc:"Host, or *.x, that allowedDomains covers."`
	Ports   field[[]field[port]]               `key:"ports" is:"nonempty" doc:"Ports. Missing: those of the host entry."`
	Methods field[[]field[method]]             `key:"methods" is:"nonempty" doc:"Methods, in upper case. Missing: any."`
	Paths   field[[]field[egress.PathPattern]] `key:"paths" is:"nonempty" doc:"Paths; * stands for one segment, /* or /** at the end for one or more. Missing: any."`
}

type rawObservability struct {
	RequiredTraceFields field[[]field[string]]      `key:"requiredTraceFields" doc:"Fields that a call must carry: run_id, actor_id, policy_version, …"`
	RedactFields        field[[]field[string]]      `key:"redactFields" doc:"Fields that are masked wherever a payload is printed: names, at any depth, or paths such as $.order.items[*].name."`
	RedactClasses       field[[]field[redactClass]] `key:"redactClasses" doc:"Classes of personal data that are masked there by their form. Missing: card, iban and ssn; an empty list masks none."`
}

type rawPermissions struct {
	Roles field[[]field[string]] `key:"roles" is:"required" doc:"Roles of which the caller needs one. An empty list admits any."`
}

type rawApproval struct {
	RequiredFor field[[]field[string]] `key:"required_for" is:"required" doc:"Kinds of call that need approval."`
}

type rawTrace struct {
	Fields field[[]field[string]] `key:"fields" is:"required" doc:"Fields that a call must carry."`
}
