package main

import "time"

var injectorStories = []behaviour{
	{
		alert: "ToolgateInjectorDown", what: "both replicas vanish", at: 12 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{pod="i-1", certificate="webhook"} 1e9x4`,
		fires:  `{}`,
	},
	{
		alert: "ToolgateInjectorDown", what: "one of two replicas vanishes", at: 12 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{pod="i-1", certificate="webhook"} 1e9x4
			toolgate_injector_certificate_expiry_timestamp_seconds{pod="i-2", certificate="webhook"} 1e9x20`,
	},
	{
		alert: "ToolgateInjectorReplicasMissing", what: "one of two is not available", at: 15 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-injector"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-injector"} 2 1x20`,
		fires: `{deployment="toolgate-injector", namespace="toolgate"}`, text: "1 replicas",
	},
	{
		alert: "ToolgateInjectorReplicasMissing", what: "another webhook is not available", at: 15 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="vault", deployment="vault-agent-injector"} 2x20
			kube_deployment_status_replicas_available{namespace="vault", deployment="vault-agent-injector"} 0x20`,
	},
	{
		alert: "ToolgateInjectorUnreachable", what: "calls of the webhook time out", at: 6 * time.Minute,
		series: `apiserver_admission_webhook_rejection_count{name="pods.injector.toolgate.dev", error_type="calling_webhook_error"} 0 0 1 2 3 4 5 6`,
		fires:  `{name="pods.injector.toolgate.dev"}`, text: "pods.injector.toolgate.dev",
	},
	{
		alert: "ToolgateInjectorUnreachable", what: "calls are let through unasked", at: 6 * time.Minute,
		series: `apiserver_admission_webhook_fail_open_count{name="pods.injector.toolgate.dev"} 0 0 1 2 3 4 5 6`,
		fires:  `{name="pods.injector.toolgate.dev"}`,
	},
	{
		alert: "ToolgateInjectorUnreachable", what: "it refuses pods itself, and others time out", at: 6 * time.Minute,
		series: `apiserver_admission_webhook_rejection_count{name="pods.injector.toolgate.dev", error_type="no_error"} 0+1x10
			apiserver_admission_webhook_rejection_count{name="x.kyverno.svc", error_type="calling_webhook_error"} 0+1x10`,
	},
	{
		alert: "ToolgateAdmissionErrors", what: "the very first error", at: 11 * time.Minute,
		series: `toolgate_injector_admissions_total{result="error", reason="tools_unknown"} _x10 1 1
			toolgate_injector_admissions_total{result="injected", reason=""} 5+1x20`,
		fires: `{reason="tools_unknown"}`, text: "1 pods",
	},
	{
		alert: "ToolgateAdmissionErrors", what: "errors of long ago and pods that are refused", at: 30 * time.Minute,
		series: `toolgate_injector_admissions_total{result="error", reason="tools_unknown"} 3x40
			toolgate_injector_admissions_total{result="refused", reason="host_network"} 0+1x40`,
	},
	{
		alert: "ToolgateAdmissionsRefused", what: "a controller tries again and again", at: 20 * time.Minute,
		series: `toolgate_injector_admissions_total{result="refused", reason="host_network"} 0+1x40`,
		fires:  `{reason="host_network"}`, text: "host_network",
	},
	{
		alert: "ToolgateAdmissionsRefused", what: "somebody tries twice", at: 20 * time.Minute,
		series: `toolgate_injector_admissions_total{result="refused", reason="host_network"} 0x10 1 2x20
			toolgate_injector_admissions_total{result="injected", reason=""} 0+9x40`,
	},
	{
		alert: "ToolgateAdmissionSlow", what: "most take longer than half a second", at: 20 * time.Minute,
		series: `toolgate_injector_admission_duration_seconds_bucket{le="0.5"} 0+1x30
			toolgate_injector_admission_duration_seconds_bucket{le="1"} 0+10x30
			toolgate_injector_admission_duration_seconds_bucket{le="+Inf"} 0+10x30`,
		fires: `{}`,
	},
	{
		alert: "ToolgateAdmissionSlow", what: "all are fast", at: 20 * time.Minute,
		series: `toolgate_injector_admission_duration_seconds_bucket{le="0.005"} 0+10x30
			toolgate_injector_admission_duration_seconds_bucket{le="+Inf"} 0+10x30`,
	},
	{
		alert: "ToolgateInjectorSettingsNotReloaded", what: "a reload fails", at: 8 * time.Minute,
		series: `toolgate_injector_settings_reloads_total{namespace="toolgate", pod="i-1", result="error"} 0x5 1x10`,
		fires:  `{namespace="toolgate", pod="i-1", result="error"}`, text: "toolgate/i-1",
	},
	{
		alert: "ToolgateInjectorSettingsNotReloaded", what: "reloads succeed", at: 8 * time.Minute,
		series: `toolgate_injector_settings_reloads_total{namespace="toolgate", pod="i-1", result="ok"} 0+1x10
			toolgate_injector_settings_reloads_total{namespace="toolgate", pod="i-1", result="error"} 0x10`,
	},
	{
		alert: "ToolgateManifestsRefused", what: "one of the cluster has a mistake", at: 10 * time.Minute,
		series: `toolgate_injector_manifests{namespace="toolgate", pod="i-1", source="cluster", state="refused"} 1x20
			toolgate_injector_manifests{namespace="toolgate", pod="i-2", source="cluster", state="refused"} 1x20
			toolgate_injector_manifests{namespace="toolgate", pod="i-1", source="folder", state="refused"} 0x20`,
		fires: `{namespace="toolgate", source="cluster"}`, text: "1 manifests",
	},
	{
		alert: "ToolgateManifestsRefused", what: "all can be used", at: 10 * time.Minute,
		series: `toolgate_injector_manifests{namespace="toolgate", pod="i-1", source="cluster", state="refused"} 0x20
			toolgate_injector_manifests{namespace="toolgate", pod="i-1", source="cluster", state="accepted"} 7x20`,
	},
}

// Time begins at 1970 here: a certificate that ends at 864000 ends ten days later.
var certificateStories = []behaviour{
	{
		alert: "ToolgateCertificatesNotKept", what: "round after round fails", at: 60 * time.Minute,
		series: `toolgate_injector_certificate_syncs_total{namespace="toolgate", pod="i-1", result="error"} 0+1x70`,
		fires:  `{namespace="toolgate"}`, text: "toolgate",
	},
	{
		alert: "ToolgateCertificatesNotKept", what: "two fail while the API server restarts", at: 60 * time.Minute,
		series: `toolgate_injector_certificate_syncs_total{namespace="toolgate", pod="i-1", result="error"} 0x20 1 2x50
			toolgate_injector_certificate_syncs_total{namespace="toolgate", pod="i-1", result="ok"} 0+1x70`,
	},
	{
		alert: "ToolgateCertificateExpiring", what: "ten days are left of the webhook's and of the kill switch's", at: 61 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="i-1", certificate="webhook"} 864000x70
			toolgate_central_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="k-0", certificate="nats"} 864000x70
			toolgate_certificate_expiry_timestamp_seconds{namespace="shop", pod="p", certificate="intercept_ca"} 31536000x70`,
		fires: `{certificate="nats", namespace="toolgate", pod="k-0"}
			{certificate="webhook", namespace="toolgate", pod="i-1"}`,
		text: "9d 22h",
	},
	{
		alert: "ToolgateCertificateExpiring", what: "it is renewed within the hour", at: 61 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="i-1", certificate="webhook"} 864000x40 7776000x30`,
	},
	{
		alert: "ToolgateCertificateExpiring", what: "two days are left, which is the other alert's", at: 61 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="i-1", certificate="webhook"} 172800x70`,
	},
	{
		alert: "ToolgateCertificateExpiresNow", what: "two days are left", at: 10 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="i-1", certificate="webhook"} 172800x20`,
		fires:  `{certificate="webhook", namespace="toolgate", pod="i-1"}`, text: "1d 23h",
	},
	{
		alert: "ToolgateCertificateExpiresNow", what: "it is over", at: 10 * time.Minute,
		series: `toolgate_certificate_expiry_timestamp_seconds{namespace="shop", pod="p", certificate="intercept_ca"} -60x20`,
		fires:  `{certificate="intercept_ca", namespace="shop", pod="p"}`,
	},
	{
		alert: "ToolgateCertificateExpiresNow", what: "four days are left", at: 10 * time.Minute,
		series: `toolgate_injector_certificate_expiry_timestamp_seconds{namespace="toolgate", pod="i-1", certificate="webhook"} 345600x20`,
	},
}

var gatewayStories = []behaviour{
	{
		alert: "ToolgateGatewayDown", what: "none is available", at: 5 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-gateway"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-gateway"} 2 0x20`,
		fires: `{deployment="toolgate-gateway", namespace="toolgate"}`, text: "toolgate/toolgate-gateway",
	},
	{
		alert: "ToolgateGatewayDown", what: "it is scaled to nothing on purpose", at: 5 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-gateway"} 0x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-gateway"} 0x20`,
	},
	{
		alert: "ToolgateGatewayReplicasMissing", what: "one of two is not available", at: 15 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="prod-toolgate-gateway"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="prod-toolgate-gateway"} 1x20`,
		fires: `{deployment="prod-toolgate-gateway", namespace="toolgate"}`, text: "1 replicas",
	},
	{
		alert: "ToolgateGatewayReplicasMissing", what: "a rollout of five minutes", at: 15 * time.Minute,
		series: `kube_deployment_spec_replicas{namespace="toolgate", deployment="toolgate-gateway"} 2x20
			kube_deployment_status_replicas_available{namespace="toolgate", deployment="toolgate-gateway"} 1x4 2x20`,
	},
	{
		alert: "ToolgateGatewayDenies", what: "a manifest differs", at: 12 * time.Minute,
		series: `toolgate_calls_total{namespace="toolgate", pod="toolgate-gateway-7c9-x2", tool="refund", decision="deny", code="path_not_allowed"} 0+1x20`,
		fires:  `{code="path_not_allowed", namespace="toolgate", tool="refund"}`, text: "refund",
	},
	{
		alert: "ToolgateGatewayDenies", what: "a sidecar denies, and the gateway what is revoked", at: 12 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="refund-1", tool="refund", decision="deny", code="path_not_allowed"} 0+9x20
			toolgate_calls_total{namespace="toolgate", pod="toolgate-gateway-7c9-x2", tool="refund", decision="deny", code="revoked"} 0+9x20`,
	},
}

var auditStories = []behaviour{
	{
		alert: "ToolgateRecordsLost", what: "records are dropped", at: 6 * time.Minute,
		series: `toolgate_audit_records_total{namespace="shop", pod="p", result="dropped"} 0x4 3x10`,
		fires:  `{namespace="shop", pod="p", result="dropped"}`, text: "shop/p",
	},
	{
		alert: "ToolgateRecordsLost", what: "records are written", at: 6 * time.Minute,
		series: `toolgate_audit_records_total{namespace="shop", pod="p", result="written"} 0+9x10
			toolgate_audit_records_total{namespace="shop", pod="p", result="dropped"} 0x10`,
	},
	{
		alert: "ToolgateRecordsNotShipped", what: "the collector takes none", at: 25 * time.Minute,
		series: `toolgate_audit_spool_records{namespace="shop", pod="p"} 0x2 12+10x40
			toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="shipped"} 70x40`,
		fires: `{namespace="shop", pod="p"}`, text: "shop/p wait",
	},
	{
		alert: "ToolgateRecordsNotShipped", what: "there are always some on the way, and none where nothing is to be sent", at: 25 * time.Minute,
		series: `toolgate_audit_spool_records{namespace="shop", pod="p"} 12x40
			toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="shipped"} 0+60x40
			toolgate_audit_spool_records{namespace="shop", pod="idle"} 0x40
			toolgate_audit_shipped_records_total{namespace="shop", pod="idle", result="shipped"} 5x40`,
	},
	{
		alert: "ToolgateShippedRecordsLost", what: "memory is full", at: 8 * time.Minute,
		series: `toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="dropped"} 0x4 3x10
			toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="rejected"} 0x14`,
		fires: `{namespace="shop", pod="p", result="dropped"}`, text: "shop/p",
	},
	{
		alert: "ToolgateShippedRecordsLost", what: "they arrive", at: 8 * time.Minute,
		series: `toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="shipped"} 0+9x14
			toolgate_audit_shipped_records_total{namespace="shop", pod="p", result="dropped"} 0x14`,
	},
	{
		alert: "ToolgateRecordsMissing", what: "calls without records", at: 30 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="a", decision="allow", code="ok"} 0+60x40
			toolgate_audit_records_total{namespace="shop", pod="p", result="written"} 7x40`,
		fires: `{namespace="shop", pod="p"}`, text: "1.00 calls a second",
	},
	{
		alert: "ToolgateRecordsMissing", what: "calls with records, and a pod at rest", at: 30 * time.Minute,
		series: `toolgate_calls_total{namespace="shop", pod="p", tool="a", decision="allow", code="ok"} 0+60x40
			toolgate_audit_records_total{namespace="shop", pod="p", result="written"} 0+60x40
			toolgate_calls_total{namespace="shop", pod="idle", tool="a", decision="allow", code="ok"} 5x40
			toolgate_audit_records_total{namespace="shop", pod="idle", result="written"} 5x40`,
	},
	{
		alert: "ToolgatePayloadsLogged", what: "payloads are masked all the time", at: 40 * time.Minute,
		series: `toolgate_redactions_total{namespace="shop", pod="p", class="field"} 0+1x60`,
		fires:  `{namespace="shop", pod="p"}`, text: "log.payloads",
	},
	{
		alert: "ToolgatePayloadsLogged", what: "somebody looked yesterday", at: 40 * time.Minute,
		series: `toolgate_redactions_total{namespace="shop", pod="p", class="field"} 900x60`,
	},
}
