package main

// fleet is what one looks at first: is every pod fenced, do calls pass, is anything stale or full.
func fleet() *boardBuilder {
	return board("Fleet", "All sidecars: are the pods fenced, do calls pass, is anything stale, full or lost.",
		variable("namespace", "Namespace", "label_values(toolgate_build_info, namespace)")).
		WithRow(row("Now")).
		WithPanel(number("Sidecars", "Sidecars whose metrics are read.", "short", `count(toolgate_build_info{namespace=~"$namespace", container="toolgate"})`, 0)).
		WithPanel(number("Pods without a sidecar", "Pods of labelled namespaces that go around Toolgate. Needs kube-state-metrics with the label toolgate/inject.", "short",
			`count(max by (namespace, pod) (kube_pod_status_phase{namespace=~"$namespace", phase=~"Pending|Running"} == 1) and on (namespace) kube_namespace_labels{label_toolgate_inject="enabled"} unless on (namespace, pod) kube_pod_init_container_info{container="toolgate"}) or vector(0)`, 1)).
		WithPanel(number("Fences lost", "Sidecars that find their pod's rules not in force.", "short",
			`count(toolgate_fence_in_force{namespace=~"$namespace"} == 0) or vector(0)`, 1)).
		WithPanel(number("Kill switch stale", "Sidecars that deny risky tools, since a source of revocations is silent.", "short",
			`count(toolgate_kill_switch_age_seconds{namespace=~"$namespace"} > toolgate_kill_switch_max_stale_seconds) or vector(0)`, 1)).
		WithPanel(number("Records lost, 1 h", "Records of calls that were dropped or not written.", "short",
			`sum(increase(toolgate_audit_records_total{namespace=~"$namespace", result=~"dropped|error"}[1h]))`, 1)).
		WithPanel(number("Alerts that fire", "Alerts of Toolgate, of every namespace.", "short",
			`count(ALERTS{alertname=~"Toolgate.+", alertstate="firing"}) or vector(0)`, 1)).
		WithRow(row("Calls")).
		WithPanel(graph("Calls", "Finished calls a second, allowed and denied.", "reqps",
			series{`sum by (decision) (rate(toolgate_calls_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{decision}}"})).
		WithPanel(graph("Denials and failures", "By code; docs/denials.md says what each means.", "reqps",
			series{`sum by (code) (rate(toolgate_calls_total{namespace=~"$namespace", code!="ok"}[$__rate_interval])) > 0`, "{{code}}"})).
		WithPanel(graph("Time of a decision", "The gates alone, without credential and dial.", "s",
			series{`histogram_quantile(0.5, sum by (le) (rate(toolgate_decision_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p50"},
			series{`histogram_quantile(0.99, sum by (le) (rate(toolgate_decision_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p99"})).
		WithPanel(graph("Busiest tools", "The ten tools with most calls.", "reqps",
			series{`topk(10, sum by (tool) (rate(toolgate_calls_total{namespace=~"$namespace"}[$__rate_interval])))`, "{{tool}}"})).
		WithRow(row("Credentials")).
		WithPanel(graph("Failures by binding", "Share of the requests for a credential that failed.", "percentunit",
			series{`sum by (binding) (rate(toolgate_token_exchanges_total{namespace=~"$namespace", result!="ok"}[$__rate_interval])) / sum by (binding) (rate(toolgate_token_exchanges_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{binding}}"})).
		WithPanel(graph("Credential cache", "A miss asks the issuer.", "ops",
			series{`sum by (result) (rate(toolgate_token_cache_events_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{result}}"})).
		WithRow(row("Resources")).
		WithPanel(graph("Memory of the largest sidecars", "Resident memory of the ten largest.", "bytes",
			series{`topk(10, max by (namespace, pod) (process_resident_memory_bytes{namespace=~"$namespace", container="toolgate"}))`, "{{namespace}}/{{pod}}"})).
		WithPanel(graph("CPU of the busiest sidecars", "Cores, of the ten busiest.", "short",
			series{`topk(10, sum by (namespace, pod) (rate(process_cpu_seconds_total{namespace=~"$namespace", container="toolgate"}[$__rate_interval])))`, "{{namespace}}/{{pod}}"})).
		WithPanel(graph("Tunnels, as a share of the limit", "The ten fullest sidecars.", "percentunit",
			series{`topk(10, sum by (namespace, pod) (toolgate_tunnels_open{namespace=~"$namespace"}) / max by (namespace, pod) (toolgate_limit{limit="maxTunnels"}))`, "{{namespace}}/{{pod}}"})).
		WithPanel(graph("Versions", "Sidecars by the version that they run.", "short",
			series{`count by (version) (toolgate_build_info{namespace=~"$namespace", container="toolgate"})`, "{{version}}"}))
}
