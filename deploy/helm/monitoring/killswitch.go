package main

// killSwitch shows whether a revocation would arrive, and how fast the last ones did.
func killSwitch() *boardBuilder {
	return board("Kill switch", "Would a revocation arrive everywhere, and how fast did the last ones.",
		variable("namespace", "Namespace of the control plane", "label_values(toolgate_central_revision, namespace)")).
		WithRow(row("Now")).
		WithPanel(number("In force", "Revocations in force.", "short", `max(toolgate_central_active{namespace=~"$namespace"})`, 0)).
		WithPanel(number("Live sidecars", "As the control plane hears them.", "short", `max(toolgate_central_sidecars{namespace=~"$namespace", state="live"})`, 0)).
		WithPanel(number("Silent sidecars", "Heard before, and not now.", "short", `max(toolgate_central_sidecars{namespace=~"$namespace", state="silent"})`, 1)).
		WithPanel(number("Behind", "Live sidecars with an earlier revision than the log's.", "short", `max(toolgate_central_sidecars_behind{namespace=~"$namespace"})`, 1)).
		WithPanel(number("Alarms", "killswitch status says more.", "short", `sum(max by (kind) (toolgate_central_alarm{namespace=~"$namespace"}))`, 1)).
		WithPanel(number("Proposals", "They wait for a second person.", "short", `max(toolgate_central_proposals{namespace=~"$namespace"})`, 1)).
		WithRow(row("Revocations")).
		WithPanel(graph("Revision of the log and of the slowest sidecar", "The two lines meet when all have it in force.", "short",
			series{`max(toolgate_central_revision{namespace=~"$namespace"})`, "log"},
			series{`min(toolgate_kill_switch_log_revision)`, "slowest sidecar"})).
		WithPanel(graph("From signing to acknowledgement", "As the control plane sees it.", "s",
			series{`histogram_quantile(0.5, sum by (le) (rate(toolgate_central_propagation_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p50"},
			series{`histogram_quantile(0.99, sum by (le) (rate(toolgate_central_propagation_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p99"})).
		WithPanel(graph("From signing to effect", "As sidecars see it.", "s",
			series{`histogram_quantile(0.99, sum by (le) (rate(toolgate_kill_switch_propagation_seconds_bucket[$__rate_interval])))`, "p99"})).
		WithPanel(graph("Calls cut", "Running calls that a revocation ended.", "short",
			series{`sum by (tool) (increase(toolgate_calls_cut_total[$__rate_interval]))`, "{{tool}}"})).
		WithPanel(graph("Requests to add to the log", "By operation and result.", "ops",
			series{`sum by (op, result) (rate(toolgate_central_appends_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{op}} {{result}}"})).
		WithPanel(graph("Security events and alerts", "By sender and result.", "ops",
			series{`sum by (sender, result) (rate(toolgate_central_signals_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{sender}} {{result}}"})).
		WithRow(row("Sidecars")).
		WithPanel(graph("Longest silence of a source", "The ten sidecars that were not spoken to for longest.", "s",
			series{`topk(10, max by (namespace, pod, source) (toolgate_kill_switch_source_age_seconds < Inf))`, "{{namespace}}/{{pod}} {{source}}"})).
		WithPanel(graph("Refused", "Messages of the bus that sidecars refused.", "ops",
			series{`sum by (kind) (rate(toolgate_kill_switch_refused_total[$__rate_interval]))`, "{{kind}}"})).
		WithRow(row("Control plane")).
		WithPanel(graph("Memory", "About 110 KiB for each sidecar.", "bytes",
			series{`process_resident_memory_bytes{namespace=~"$namespace"} and on (namespace, pod) toolgate_central_revision`, "{{pod}}"})).
		WithPanel(graph("Descriptors", "One for each sidecar.", "percentunit",
			series{`process_open_fds{namespace=~"$namespace"} / process_max_fds and on (namespace, pod) toolgate_central_revision`, "{{pod}}"}))
}
