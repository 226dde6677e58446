package config

import "time"

// rawRevocations is a revocations file as written.
type rawRevocations struct {
	APIVersion  field[apiVersion]             `key:"apiVersion" is:"required" doc:"Version of this format."`
	Kind        field[kindRevocations]        `key:"kind" is:"required" doc:"Kind of this file."`
	Revocations field[[]field[rawRevocation]] `key:"revocations" is:"required" doc:"What is revoked now. [] for nothing."`
}

type rawRevocation struct {
	ID       field[string]      `key:"id" is:"required" doc:"Name of the entry, unique in the file."`
	Selector field[rawSelector] `key:"selector" is:"required" doc:"Which calls it covers: all fields given must match, within a list one value."`
	Reason   field[string]      `key:"reason" is:"required" doc:"Why. Callers read it."`
	By       field[string]      `key:"by" is:"required" doc:"Who revoked."`
	At       field[time.Time]   `key:"at" is:"required" doc:"Since when (RFC 3339)."`
	Expires  field[time.Time]   `key:"expires" doc:"Until when (RFC 3339). Missing: until the entry is taken out."`
}

type rawSelector struct {
	Tool            field[names] `key:"tool" is:"nonempty" doc:"Tool names."`
	Version         field[names] `key:"version" is:"nonempty" doc:"Tool versions."`
	Tenant          field[names] `key:"tenant" is:"nonempty" doc:"Tenants."`
	Subject         field[names] `key:"subject" is:"nonempty" doc:"Subjects: on whose behalf."`
	Agent           field[names] `key:"agent" is:"nonempty" doc:"Agents: who acts."`
	Task            field[names] `key:"task" is:"nonempty" doc:"Tasks."`
	Run             field[names] `key:"run" is:"nonempty" doc:"Runs."`
	CapabilityClass field[names] `key:"capabilityClass" is:"nonempty" doc:"Capability classes."`
	Risk            field[names] `key:"risk" is:"nonempty" doc:"Risks."`
	Host            field[names] `key:"host" is:"nonempty" doc:"Hosts; *.x covers the names below x."`
	All             field[bool]  `key:"all" default:"false" doc:"Everything. Excludes every other field."`
}
