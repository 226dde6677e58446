package main

import "time"

var killSwitchStories = []behaviour{
	{
		alert: "ToolgateKillSwitchGone", what: "it vanishes", at: 12 * time.Minute,
		series: `toolgate_central_revision{namespace="toolgate", pod="k-0"} 7x4`,
		fires:  `{}`,
	},
	{
		alert: "ToolgateKillSwitchGone", what: "it is there", at: 12 * time.Minute,
		series: `toolgate_central_revision{namespace="toolgate", pod="k-0"} 0x20`,
	},
	{
		alert: "ToolgateKillSwitchReplicasMissing", what: "one of three is not ready", at: 15 * time.Minute,
		series: `kube_statefulset_replicas{namespace="toolgate", statefulset="toolgate-killswitch"} 3x20
			kube_statefulset_status_replicas_ready{namespace="toolgate", statefulset="toolgate-killswitch"} 2x20`,
		fires: `{namespace="toolgate", statefulset="toolgate-killswitch"}`, text: "2 replicas",
	},
	{
		alert: "ToolgateKillSwitchReplicasMissing", what: "one of two on another's NATS", at: 15 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-killswitch"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-killswitch"} 1x20
			kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-injector"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-injector"} 1x20`,
		fires: `{deployment="toolgate-killswitch", namespace="toolgate"}`, text: "1 replicas",
	},
	{
		alert: "ToolgateKillSwitchReplicasMissing", what: "all are", at: 15 * time.Minute,
		series: `kube_statefulset_replicas{namespace="toolgate", statefulset="toolgate-killswitch"} 3x20
			kube_statefulset_status_replicas_ready{namespace="toolgate", statefulset="toolgate-killswitch"} 3x20`,
	},
	{
		alert: "ToolgateKillSwitchAlarm", what: "two replicas raise the same", at: 2 * time.Minute,
		series: `toolgate_central_alarm{namespace="toolgate", pod="k-0", kind="log_lost"} 0 1x9
			toolgate_central_alarm{namespace="toolgate", pod="k-1", kind="log_lost"} 0 1x9
			toolgate_central_alarm{namespace="toolgate", pod="k-0", kind="roster_full"} 0x9`,
		fires: `{kind="log_lost", namespace="toolgate"}`, text: "log_lost",
	},
	{
		alert: "ToolgateKillSwitchAlarm", what: "none stands", at: 2 * time.Minute,
		series: `toolgate_central_alarm{namespace="toolgate", pod="k-0", kind="log_lost"} 0x9`,
	},
	{
		alert: "ToolgateSidecarCredentialsRefused", what: "one sidecar is refused again and again", at: 10 * time.Minute,
		series: `toolgate_central_credentials_total{namespace="toolgate", pod="k-0", result="unauthenticated"} 0+1x20
			toolgate_central_credentials_total{namespace="toolgate", pod="k-1", result="unauthenticated"} 0+1x20
			toolgate_central_credentials_total{namespace="toolgate", pod="k-0", result="ok"} 0+9x20`,
		fires: `{namespace="toolgate", result="unauthenticated"}`, text: "unauthenticated",
	},
	{
		alert: "ToolgateSidecarCredentialsRefused", what: "a start of many, of which some came back", at: 10 * time.Minute,
		series: `toolgate_central_credentials_total{namespace="toolgate", pod="k-0", result="too_many_requests"} 0 0 4x18
			toolgate_central_credentials_total{namespace="toolgate", pod="k-0", result="ok"} 0+100x20`,
	},
	{
		alert: "ToolgateSidecarsWithoutCredentials", what: "two of three get none", at: 10 * time.Minute,
		series: `toolgate_kill_switch_credentials_total{namespace="shop", pod="a", result="error"} 0+2x20
			toolgate_kill_switch_credentials_total{namespace="shop", pod="b", result="error"} 0+2x20
			toolgate_kill_switch_credentials_total{namespace="shop", pod="c", result="error"} 0x20
			toolgate_kill_switch_credentials_total{namespace="shop", pod="c", result="ok"} 0+2x20`,
		fires: `{namespace="shop"}`, text: "2 sidecars in shop",
	},
	{
		alert: "ToolgateSidecarsWithoutCredentials", what: "the control plane was rolled", at: 10 * time.Minute,
		series: `toolgate_kill_switch_credentials_total{namespace="shop", pod="a", result="error"} 0 0 3x18`,
	},
	{
		alert: "ToolgateKillSwitchStale", what: "the bus is silent, and maxStale is ten minutes", at: 16 * time.Minute,
		series: `toolgate_kill_switch_source_age_seconds{namespace="shop", pod="p", source="nats"} 0+60x30
			toolgate_kill_switch_source_age_seconds{namespace="shop", pod="p", source="file"} 5x30
			toolgate_kill_switch_max_stale_seconds{namespace="shop", pod="p"} 600x30`,
		fires: `{namespace="shop", pod="p", source="nats"}`, text: "16m 0s",
	},
	{
		alert: "ToolgateKillSwitchStale", what: "it was never heard", at: 3 * time.Minute,
		series: `toolgate_kill_switch_source_age_seconds{namespace="shop", pod="p", source="nats"} Inf Inf Inf Inf
			toolgate_kill_switch_max_stale_seconds{namespace="shop", pod="p"} 60x9`,
		fires: `{namespace="shop", pod="p", source="nats"}`, text: "+Inf",
	},
	{
		alert: "ToolgateKillSwitchStale", what: "two minutes, and maxStale is ten", at: 3 * time.Minute,
		series: `toolgate_kill_switch_source_age_seconds{namespace="shop", pod="p", source="nats"} 120x9
			toolgate_kill_switch_max_stale_seconds{namespace="shop", pod="p"} 600x9`,
	},
	{
		alert: "ToolgateKillSwitchLogRefused", what: "a second history", at: 6 * time.Minute,
		series: `toolgate_kill_switch_refused_total{namespace="shop", pod="p", kind="fork"} 0x3 1x9`,
		fires:  `{kind="fork", namespace="shop"}`, text: "fork",
	},
	{
		alert: "ToolgateKillSwitchLogRefused", what: "entries that are late", at: 6 * time.Minute,
		series: `toolgate_kill_switch_refused_total{namespace="shop", pod="p", kind="behind"} 0+1x9
			toolgate_kill_switch_refused_total{namespace="shop", pod="p", kind="fork"} 0x9`,
	},
	{
		alert: "ToolgateKillSwitchStateNotSaved", what: "the disk is full", at: 6 * time.Minute,
		series: `toolgate_kill_switch_state_writes_total{namespace="shop", pod="p", result="error"} 0x3 1 2 3 4 5 6`,
		fires:  `{namespace="shop", pod="p"}`, text: "shop/p",
	},
	{
		alert: "ToolgateKillSwitchStateNotSaved", what: "it is saved", at: 6 * time.Minute,
		series: `toolgate_kill_switch_state_writes_total{namespace="shop", pod="p", result="error"} 0x9
			toolgate_kill_switch_state_writes_total{namespace="shop", pod="p", result="ok"} 0+1x9`,
	},
	{
		alert: "ToolgateRevocationUnacknowledged", what: "two sidecars are behind for minutes", at: 3 * time.Minute,
		series: `toolgate_central_sidecars_behind{namespace="toolgate", pod="k-0"} 0 2x9
			toolgate_central_sidecars_behind{namespace="toolgate", pod="k-1"} 0 1x9`,
		fires: `{namespace="toolgate"}`, text: "2 sidecars",
	},
	{
		alert: "ToolgateRevocationUnacknowledged", what: "all were behind at one scrape", at: 3 * time.Minute,
		series: `toolgate_central_sidecars_behind{namespace="toolgate", pod="k-0"} 0 0 40 0 0`,
	},
	{
		alert: "ToolgateSidecarsSilent", what: "a node died", at: 5 * time.Minute,
		series: `toolgate_central_sidecars{namespace="toolgate", pod="k-0", state="silent"} 0 9x9
			toolgate_central_sidecars{namespace="toolgate", pod="k-0", state="live"} 40x9`,
		fires: `{namespace="toolgate"}`, text: "9 sidecars",
	},
	{
		alert: "ToolgateSidecarsSilent", what: "pods leave in order", at: 5 * time.Minute,
		series: `toolgate_central_sidecars{namespace="toolgate", pod="k-0", state="silent"} 0x9
			toolgate_central_sidecars{namespace="toolgate", pod="k-0", state="leaving"} 9x9`,
	},
	{
		alert: "ToolgateKillSwitchSlow", what: "five seconds", at: 20 * time.Minute,
		series: `toolgate_central_propagation_seconds_bucket{namespace="toolgate", le="1"} 0+1x30
			toolgate_central_propagation_seconds_bucket{namespace="toolgate", le="5"} 0+10x30
			toolgate_central_propagation_seconds_bucket{namespace="toolgate", le="+Inf"} 0+10x30`,
		fires: `{namespace="toolgate"}`, text: "toolgate",
	},
	{
		alert: "ToolgateKillSwitchSlow", what: "milliseconds, and then nothing to acknowledge", at: 28 * time.Minute,
		series: `toolgate_central_propagation_seconds_bucket{namespace="toolgate", le="1"} 0+10x10 100x20
			toolgate_central_propagation_seconds_bucket{namespace="toolgate", le="+Inf"} 0+10x10 100x20`,
	},
	{
		alert: "ToolgateKillSwitchSlowAtSidecars", what: "five seconds at some", at: 20 * time.Minute,
		series: `toolgate_kill_switch_propagation_seconds_bucket{namespace="shop", pod="p", le="1"} 0+9x30
			toolgate_kill_switch_propagation_seconds_bucket{namespace="shop", pod="p", le="5"} 0+10x30
			toolgate_kill_switch_propagation_seconds_bucket{namespace="shop", pod="p", le="+Inf"} 0+10x30`,
		fires: `{namespace="shop"}`, text: "shop",
	},
	{
		alert: "ToolgateKillSwitchSlowAtSidecars", what: "milliseconds", at: 20 * time.Minute,
		series: `toolgate_kill_switch_propagation_seconds_bucket{namespace="shop", pod="p", le="0.05"} 0+10x30
			toolgate_kill_switch_propagation_seconds_bucket{namespace="shop", pod="p", le="+Inf"} 0+10x30`,
	},
	{
		alert: "ToolgateTokenRevocationsFail", what: "the very first fails", at: 20 * time.Minute,
		series: `toolgate_token_revocations_total{namespace="shop", pod="p", binding="orders", result="unreachable"} _x17 2 2 2 2
			toolgate_token_revocations_total{namespace="shop", pod="p", binding="orders", result="ok"} 4x30`,
		fires: `{binding="orders", namespace="shop", result="unreachable"}`, text: "2 tokens of orders",
	},
	{
		alert: "ToolgateTokenRevocationsFail", what: "they are revoked, or over by themselves", at: 20 * time.Minute,
		series: `toolgate_token_revocations_total{namespace="shop", pod="p", binding="orders", result="ok"} 0+1x30
			toolgate_token_revocations_total{namespace="shop", pod="p", binding="orders", result="expired"} 0+1x30`,
	},
	{
		alert: "ToolgateProposalWaits", what: "nobody approves", at: 40 * time.Minute,
		series: `toolgate_central_proposals{namespace="toolgate", pod="k-0"} 1x50`,
		fires:  `{namespace="toolgate"}`, text: "1 proposals",
	},
	{
		alert: "ToolgateProposalWaits", what: "somebody does", at: 40 * time.Minute,
		series: `toolgate_central_proposals{namespace="toolgate", pod="k-0"} 1x20 0x30`,
	},
	{
		alert: "ToolgateKillSwitchDescriptorsNearLimit", what: "3,600 of 4,096", at: 10 * time.Minute,
		series: `process_open_fds{namespace="toolgate", pod="k-0", instance="i"} 3600x20
			process_max_fds{namespace="toolgate", pod="k-0", instance="i"} 4096x20
			toolgate_central_revision{namespace="toolgate", pod="k-0", instance="i"} 7x20`,
		fires: `{instance="i", namespace="toolgate", pod="k-0"}`, text: "87.89%",
	},
	{
		alert: "ToolgateKillSwitchDescriptorsNearLimit", what: "another program", at: 10 * time.Minute,
		series: `process_open_fds{namespace="toolgate", pod="other", instance="j"} 3600x20
			process_max_fds{namespace="toolgate", pod="other", instance="j"} 4096x20
			toolgate_central_revision{namespace="toolgate", pod="k-0", instance="i"} 7x20`,
	},
}
