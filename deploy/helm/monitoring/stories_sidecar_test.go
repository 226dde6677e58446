package main

import "time"

var sidecarStories = []behaviour{
	{
		alert: "ToolgatePodWithoutSidecar", what: "a pod from before the label", at: 5 * time.Minute,
		series: `kube_namespace_labels{namespace="shop", label_toolgate_inject="enabled"} 1x10
			kube_pod_status_phase{namespace="shop", pod="old", phase="Running"} 1x10
			kube_pod_status_phase{namespace="shop", pod="old", phase="Pending"} 0x10
			kube_pod_status_phase{namespace="shop", pod="new", phase="Running"} 1x10
			kube_pod_init_container_info{namespace="shop", pod="new", container="toolgate"} 1x10`,
		fires: `{namespace="shop", pod="old"}`, text: "shop/old",
	},
	{
		alert: "ToolgatePodWithoutSidecar", what: "pods of other namespaces, and one that has ended", at: 5 * time.Minute,
		series: `kube_namespace_labels{namespace="shop", label_toolgate_inject="enabled"} 1x10
			kube_namespace_labels{namespace="plain"} 1x10
			kube_pod_status_phase{namespace="plain", pod="p", phase="Running"} 1x10
			kube_pod_status_phase{namespace="shop", pod="job", phase="Running"} 0x10
			kube_pod_status_phase{namespace="shop", pod="job", phase="Succeeded"} 1x10`,
	},
	{
		alert: "ToolgateInjectionNotObserved", what: "kube-state-metrics does not show the label", at: 70 * time.Minute,
		series: `kube_namespace_labels{namespace="shop"} 1x80`,
		fires:  `{label_toolgate_inject="enabled"}`,
	},
	{
		alert: "ToolgateInjectionNotObserved", what: "it does", at: 70 * time.Minute,
		series: `kube_namespace_labels{namespace="shop", label_toolgate_inject="enabled"} 1x80`,
	},
	{
		alert: "ToolgateSidecarNotReady", what: "it waits for an issuer's keys", at: 10 * time.Minute,
		series: `kube_pod_init_container_status_ready{namespace="shop", pod="p", container="toolgate"} 0x20
			kube_pod_status_phase{namespace="shop", pod="p", phase="Pending"} 1x20`,
		fires: `{container="toolgate", namespace="shop", pod="p"}`, text: "shop/p",
	},
	{
		alert: "ToolgateSidecarNotReady", what: "a job that has ended, and a start of two minutes", at: 10 * time.Minute,
		series: `kube_pod_init_container_status_ready{namespace="shop", pod="job", container="toolgate"} 0x20
			kube_pod_status_phase{namespace="shop", pod="job", phase="Succeeded"} 1x20
			kube_pod_status_phase{namespace="shop", pod="job", phase="Running"} 0x20
			kube_pod_init_container_status_ready{namespace="shop", pod="new", container="toolgate"} _x7 0x1 1x20
			kube_pod_status_phase{namespace="shop", pod="new", phase="Running"} 1x20`,
	},
	{
		alert: "ToolgateSidecarRestarting", what: "four times in half an hour", at: 31 * time.Minute,
		series: `kube_pod_init_container_status_restarts_total{namespace="shop", pod="p", container="toolgate"} 0x5 1x5 2x5 3x5 4x20`,
		fires:  `{container="toolgate", namespace="shop", pod="p"}`, text: "4 times",
	},
	{
		alert: "ToolgateSidecarRestarting", what: "once, and a tool's own container often", at: 31 * time.Minute,
		series: `kube_pod_init_container_status_restarts_total{namespace="shop", pod="p", container="toolgate"} 0x5 1x30
			kube_pod_init_container_status_restarts_total{namespace="shop", pod="p", container="migrate"} 0+1x40`,
	},
	{
		alert: "ToolgateSidecarNotScraped", what: "its port does not answer", at: 10 * time.Minute,
		series: `up{namespace="shop", pod="p", container="toolgate"} 1 0x20`,
		fires:  `{container="toolgate", namespace="shop", pod="p"}`, text: "shop/p",
	},
	{
		alert: "ToolgateSidecarNotScraped", what: "a tool's port does not answer", at: 10 * time.Minute,
		series: `up{namespace="shop", pod="p", container="toolgate"} 1x20
			up{namespace="shop", pod="p", container="tool"} 0x20`,
	},
	{
		alert: "ToolgateFenceLost", what: "the rules are gone", at: 3 * time.Minute,
		series: `toolgate_fence_in_force{namespace="shop", pod="p"} 1 1 0x9
			toolgate_fence_in_force{namespace="shop", pod="q"} 1x9`,
		fires: `{namespace="shop", pod="p"}`, text: "shop/p",
	},
	{
		alert: "ToolgateFenceLost", what: "they are in force", at: 3 * time.Minute,
		series: `toolgate_fence_in_force{namespace="shop", pod="p"} 1x9`,
	},
	{
		alert: "ToolgateConfigNotReloaded", what: "a manifest is broken", at: 8 * time.Minute,
		series: `toolgate_config_reloads_total{namespace="shop", pod="p", result="error"} 0x5 1x10`,
		fires:  `{namespace="shop", pod="p", result="error"}`, text: "shop/p",
	},
	{
		alert: "ToolgateConfigNotReloaded", what: "reloads succeed", at: 8 * time.Minute,
		series: `toolgate_config_reloads_total{namespace="shop", pod="p", result="error"} 1x20
			toolgate_config_reloads_total{namespace="shop", pod="p", result="ok"} 0+1x20`,
	},
	{
		alert: "ToolgateCredentialsFail", what: "one binding of two fails at two pods", at: 20 * time.Minute,
		series: `toolgate_token_exchanges_total{namespace="shop", pod="p", binding="orders", result="invalid_client"} 0+6x30
			toolgate_token_exchanges_total{namespace="shop", pod="q", binding="orders", result="unreachable"} 0+3x30
			toolgate_token_exchanges_total{namespace="shop", pod="q", binding="orders", result="ok"} 0+1x30
			toolgate_token_exchanges_total{namespace="shop", pod="p", binding="mail", result="ok"} 0+6x30`,
		fires: `{binding="orders", namespace="shop"}`, text: "90%",
	},
	{
		alert: "ToolgateCredentialsFail", what: "one in ten fails", at: 20 * time.Minute,
		series: `toolgate_token_exchanges_total{namespace="shop", pod="p", binding="orders", result="rate_limited"} 0+1x30
			toolgate_token_exchanges_total{namespace="shop", pod="p", binding="orders", result="ok"} 0+9x30`,
	},
	{
		alert: "ToolgateDenialsSurge", what: "from one in a hundred to one in two", step: 5 * time.Minute, at: 16 * time.Hour,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="refund", decision="allow", code="ok"} 0+99x180 17820+50x40
			toolgate_calls_total{namespace="shop", pod="p", tool="refund", decision="deny", code="domain_not_allowed"} 0+1x180 230+50x40`,
		fires: `{namespace="shop", tool="refund"}`, text: "50%",
	},
	{
		alert: "ToolgateDenialsSurge", what: "a tool that is denied as often as ever", step: 5 * time.Minute, at: 16 * time.Hour,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="search", decision="allow", code="ok"} 0+50x220
			toolgate_calls_total{namespace="shop", pod="p", tool="search", decision="deny", code="domain_not_allowed"} 0+50x220`,
	},
	{
		alert: "ToolgateDenialsSurge", what: "a tool that is used seldom and is denied once", at: 368 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="search", decision="allow", code="ok"} 0+0.2x400
			toolgate_calls_total{namespace="shop", pod="p", tool="search", decision="deny", code="domain_not_allowed"} 0x360 1x40`,
	},
	{
		alert: "ToolgateDenialsSurge", what: "it is revoked, which somebody wanted", step: 5 * time.Minute, at: 16 * time.Hour,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="refund", decision="allow", code="ok"} 0+99x180 17820x40
			toolgate_calls_total{namespace="shop", pod="p", tool="refund", decision="deny", code="revoked"} 0x180 50+50x40`,
	},
	{
		alert: "ToolgateProbing", what: "private addresses one after another", at: 20 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="browse", decision="deny", code="private_network"} 0+2x30`,
		fires:  `{code="private_network", namespace="shop", tool="browse"}`, text: "browse",
	},
	{
		alert: "ToolgateProbing", what: "hosts that are not listed", at: 20 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="browse", decision="deny", code="domain_not_allowed"} 0+20x30
			toolgate_calls_total{namespace="shop", pod="p", tool="browse", decision="deny", code="private_network"} 0x10 2x20`,
	},
}

var limitStories = []behaviour{
	{
		alert: "ToolgateSidecarMemoryNearLimit", what: "58 of 64 MiB", at: 15 * time.Minute,
		series: `process_resident_memory_bytes{namespace="shop", pod="p", container="toolgate", job="a"} 60817408x20
			kube_pod_init_container_resource_limits{namespace="shop", pod="p", container="toolgate", resource="memory", node="n"} 67108864x20`,
		fires: `{namespace="shop", pod="p"}`, text: "58MiB",
	},
	{
		alert: "ToolgateSidecarMemoryNearLimit", what: "28 of 64 MiB, and a tool that is near its own", at: 15 * time.Minute,
		series: `process_resident_memory_bytes{namespace="shop", pod="p", container="toolgate", job="a"} 29360128x20
			process_resident_memory_bytes{namespace="shop", pod="p", container="tool", job="a"} 67108864x20
			kube_pod_init_container_resource_limits{namespace="shop", pod="p", container="toolgate", resource="memory", node="n"} 67108864x20`,
	},
	{
		alert: "ToolgateTunnelsNearLimit", what: "two tools share 90 of 100", at: 10 * time.Minute,
		series: `toolgate_tunnels_open{namespace="shop", pod="p", tool="a"} 45x20
			toolgate_tunnels_open{namespace="shop", pod="p", tool="b"} 45x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnels"} 100x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnelsPerTool"} 75x20`,
		fires: `{namespace="shop", pod="p"}`, text: "90 tunnels",
	},
	{
		alert: "ToolgateTunnelsNearLimit", what: "as many under a higher limit", at: 10 * time.Minute,
		series: `toolgate_tunnels_open{namespace="shop", pod="p", tool="a"} 90x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnels"} 4096x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnelsPerTool"} 75x20`,
	},
	{
		alert: "ToolgateToolTunnelsNearLimit", what: "one tool takes nearly all of its share", at: 10 * time.Minute,
		series: `toolgate_tunnels_open{namespace="shop", pod="p", tool="a"} 70x20
			toolgate_tunnels_open{namespace="shop", pod="p", tool="b"} 3x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnelsPerTool"} 75x20`,
		fires: `{namespace="shop", pod="p", tool="a"}`, text: "70 tunnels",
	},
	{
		alert: "ToolgateToolTunnelsNearLimit", what: "two tools, each with half", at: 10 * time.Minute,
		series: `toolgate_tunnels_open{namespace="shop", pod="p", tool="a"} 40x20
			toolgate_tunnels_open{namespace="shop", pod="p", tool="b"} 40x20
			toolgate_limit{namespace="shop", pod="p", limit="maxTunnelsPerTool"} 75x20`,
	},
	{
		alert: "ToolgateCallsOverLimit", what: "the sidecar is full", at: 12 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="a", decision="deny", code="overloaded"} 0+6x20`,
		fires:  `{code="overloaded", namespace="shop", tool="a"}`, text: "0.10 a second",
	},
	{
		alert: "ToolgateCallsOverLimit", what: "a burst of one minute", at: 12 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="a", decision="deny", code="overloaded"} 0 60x20`,
	},
	{
		alert: "ToolgateDecisionSlow", what: "half take a tenth of a second", at: 25 * time.Minute,
		series: `toolgate_decision_duration_seconds_bucket{namespace="shop", pod="p", le="0.0001"} 0+5x30
			toolgate_decision_duration_seconds_bucket{namespace="shop", pod="p", le="0.1"} 0+10x30
			toolgate_decision_duration_seconds_bucket{namespace="shop", pod="p", le="+Inf"} 0+10x30`,
		fires: `{namespace="shop"}`, text: "shop",
	},
	{
		alert: "ToolgateDecisionSlow", what: "all take microseconds, and some namespace is at rest", at: 25 * time.Minute,
		series: `toolgate_decision_duration_seconds_bucket{namespace="shop", pod="p", le="0.0001"} 0+10x30
			toolgate_decision_duration_seconds_bucket{namespace="shop", pod="p", le="+Inf"} 0+10x30
			toolgate_decision_duration_seconds_bucket{namespace="idle", pod="p", le="0.0001"} 3x30
			toolgate_decision_duration_seconds_bucket{namespace="idle", pod="p", le="+Inf"} 3x30`,
	},
}
