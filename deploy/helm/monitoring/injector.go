package main

// injector shows whether pods can be created, and what was refused.
func injector() *boardBuilder {
	return board("Injector", "Can pods be created, what was refused, and how long do certificates last.",
		variable("namespace", "Namespace of the injector", "label_values(toolgate_injector_certificate_expiry_timestamp_seconds, namespace)")).
		WithRow(row("Now")).
		WithPanel(number("Replicas", "Replicas whose metrics are read.", "short", `count(count by (pod) (toolgate_injector_certificate_expiry_timestamp_seconds{namespace=~"$namespace"}))`, 0)).
		WithPanel(number("Errors, 1 h", "Pods that an error of the injector refused.", "short", `sum(increase(toolgate_injector_admissions_total{namespace=~"$namespace", result="error"}[1h])) or vector(0)`, 1)).
		WithPanel(number("Next certificate ends in", "The one that ends first.", "s", `min(toolgate_injector_certificate_expiry_timestamp_seconds{namespace=~"$namespace"}) - time()`, 0)).
		WithPanel(number("Not reached, 1 h", "Calls of the API server that did not reach the webhook.", "short", `sum(increase(apiserver_admission_webhook_rejection_count{name=~".*toolgate.*", error_type=~"calling_webhook_error|apiserver_internal_error"}[1h])) or vector(0)`, 1)).
		WithRow(row("Admissions")).
		WithPanel(graph("Admissions", "By result.", "reqps",
			series{`sum by (result) (rate(toolgate_injector_admissions_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{result}}"})).
		WithPanel(graph("Refused and failed", "By reason.", "reqps",
			series{`sum by (result, reason) (rate(toolgate_injector_admissions_total{namespace=~"$namespace", result=~"refused|error"}[$__rate_interval])) > 0`, "{{result}} {{reason}}"})).
		WithPanel(graph("Time of an admission", "The API server waits for it.", "s",
			series{`histogram_quantile(0.5, sum by (le) (rate(toolgate_injector_admission_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p50"},
			series{`histogram_quantile(0.99, sum by (le) (rate(toolgate_injector_admission_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))`, "p99"})).
		WithPanel(graph("Reloads of the settings", "On an error those in force stay.", "short",
			series{`sum by (result) (increase(toolgate_injector_settings_reloads_total{namespace=~"$namespace"}[$__rate_interval]))`, "{{result}}"})).
		WithRow(row("Certificates and resources")).
		WithPanel(graph("Time left", "Of each certificate of every part.", "s",
			series{`min by (certificate) (toolgate:certificate_remaining_seconds:min)`, "{{certificate}}"})).
		WithPanel(graph("Memory", "Of each replica.", "bytes",
			series{`process_resident_memory_bytes{namespace=~"$namespace"} and on (namespace, pod) toolgate_injector_certificate_expiry_timestamp_seconds`, "{{pod}}"}))
}
