package config

import "time"

// rawSignals is a file of whose signals become revocations, as written.
type rawSignals struct {
	APIVersion    field[apiVersion]               `key:"apiVersion" is:"required" doc:"Version of this format."`
	Kind          field[kindSignals]              `key:"kind" is:"required" doc:"Kind of this file."`
	Transmitters  field[[]field[rawTransmitter]]  `key:"transmitters" doc:"Whose security events are taken (OpenID Shared Signals)."`
	Alertmanagers field[[]field[rawAlertmanager]] `key:"alertmanagers" doc:"Whose alerts are taken."`
}

type rawTransmitter struct {
	Name           field[name]                  `key:"name" is:"required" doc:"Name in paths, metrics, logs and the by of revocations."`
	Issuer         field[string]                `key:"issuer" is:"required" doc:"Exact iss of the events; keys are found by OpenID discovery below it. https, or http on a loopback address."`
	JWKSURL        field[string]                `key:"jwksURL" doc:"URL of the key set. Set: no discovery."`
	Audiences      field[[]field[string]]       `key:"audiences" is:"required,nonempty" doc:"Audiences of which an event must carry one."`
	Algorithms     field[[]field[algorithm]]    `key:"algorithms" is:"nonempty" doc:"Signature algorithms. Missing: RS256, ES256, EdDSA."`
	CAFile         field[string]                `key:"caFile" is:"blank" doc:"PEM file of the roots for this transmitter, in place of the system's."`
	SubjectIssuers field[[]field[string]]       `key:"subjectIssuers" is:"nonempty" doc:"Issuers whose sub values rules may use. Missing: issuer."`
	Leeway         field[time.Duration]         `key:"leeway" default:"30s" min:"1s" max:"10m" doc:"How far in the future iat may lie."`
	MaxAge         field[time.Duration]         `key:"maxAge" default:"168h" min:"1m" max:"8784h" doc:"How far in the past iat may lie."`
	Push           field[rawPush]               `key:"push" doc:"How the transmitter proves who it is, when it pushes."`
	Poll           field[rawPoll]               `key:"poll" doc:"Where the transmitter is asked for events, when it is polled."`
	Reason         field[reasonFrom]            `key:"reason" default:"admin" doc:"Text of the event that becomes part of the reason, which callers may read: reason_admin, reason_user, or the type of the event alone."`
	Rules          field[[]field[rawEventRule]] `key:"rules" is:"required,nonempty" doc:"What to revoke. Of the rules for an event the first that fits its subject counts."`
}

type rawPush struct {
	TokenFile field[string] `key:"tokenFile" is:"required" doc:"File of the bearer tokens that the transmitter may send, one a line."`
}

type rawPoll struct {
	URL       field[string]        `key:"url" is:"required" doc:"The transmitter's poll endpoint. https, or http on a loopback address."`
	TokenFile field[string]        `key:"tokenFile" is:"required" doc:"File of the bearer token for it."`
	MaxEvents field[int]           `key:"maxEvents" default:"50" min:"1" max:"200" doc:"Events of one answer."`
	Wait      field[time.Duration] `key:"wait" default:"1m" min:"1s" max:"10m" doc:"How long the transmitter may hold a request."`
}

type rawEventRule struct {
	Events   field[[]field[signalEvent]]   `key:"events" is:"required,nonempty" doc:"Events that it is for."`
	Selector field[rawEventSelector]       `key:"selector" is:"required" doc:"Which calls to revoke. All fields must be filled from the event; one at least has a placeholder."`
	Broader  field[[]field[subjectMember]] `key:"broader" is:"nonempty" doc:"Members of the event's subject that the rule may leave out, so that it revokes more than the event says."`
	Expires  field[time.Duration]          `key:"expires" min:"1m" max:"8784h" doc:"Time after the event for which it rules. Missing: until restored."`
}

type rawEventSelector struct {
	Subject field[template] `key:"subject" doc:"Subject: on whose behalf."`
	Agent   field[template] `key:"agent" doc:"Agent: who acts."`
	Tenant  field[template] `key:"tenant" doc:"Tenant."`
	Task    field[template] `key:"task" doc:"Task."`
	Run     field[template] `key:"run" doc:"Run."`
	Tool    field[template] `key:"tool" doc:"Tool name."`
}

type rawAlertmanager struct {
	Name      field[name]          `key:"name" is:"required" doc:"Name in paths, metrics, logs and the by of revocations."`
	TokenFile field[string]        `key:"tokenFile" is:"required" doc:"File of the bearer tokens that it may send, one a line."`
	Expires   field[time.Duration] `key:"expires" min:"1m" max:"8784h" doc:"Time after an alert's start for which its revocation rules. Missing: until restored."`
	Restore   field[bool]          `key:"restore" default:"false" doc:"A resolved alert restores what it revoked."`
}
