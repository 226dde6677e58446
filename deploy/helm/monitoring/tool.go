package main

// tool is for the owner of one tool: what it calls, what is refused and why, how long it takes.
func tool() *boardBuilder {
	const of = `{namespace=~"$namespace", tool=~"$tool"`
	return board("Tool", "One tool: what it calls, what is refused and why, how long calls take.",
		variable("namespace", "Namespace", "label_values(toolgate_calls_total, namespace)"),
		variable("tool", "Tool", `label_values(toolgate_calls_total{namespace=~"$namespace"}, tool)`)).
		WithRow(row("Now")).
		WithPanel(number("Calls a second", "Finished calls.", "reqps", `sum(rate(toolgate_calls_total`+of+`}[5m]))`, 0)).
		WithPanel(number("Denied", "Share of the calls of the last 10 minutes.", "percentunit",
			`sum(rate(toolgate_calls_total`+of+`, decision="deny"}[10m])) / sum(rate(toolgate_calls_total`+of+`}[10m]))`, 0.1)).
		WithPanel(number("Open tunnels", "Relayed, intercepted, WebSockets.", "short", `sum(toolgate_tunnels_open`+of+`})`, 0)).
		WithPanel(number("Cut by the kill switch, 1 h", "Running calls that were cut.", "short", `sum(increase(toolgate_calls_cut_total`+of+`}[1h]))`, 1)).
		WithRow(row("Calls")).
		WithPanel(graph("Calls by decision", "Of what is denied, nothing was sent.", "reqps",
			series{`sum by (tool, decision) (rate(toolgate_calls_total` + of + `}[$__rate_interval]))`, "{{tool}} {{decision}}"})).
		WithPanel(graph("Denials and failures", "By code; docs/denials.md says what each means.", "reqps",
			series{`sum by (tool, code) (rate(toolgate_calls_total` + of + `, code!="ok"}[$__rate_interval])) > 0`, "{{tool}} {{code}}"})).
		WithPanel(graph("Time of a request", "From its first gate to its last byte; tunnels are not in it.", "s",
			series{`histogram_quantile(0.5, sum by (tool, le) (rate(toolgate_call_duration_seconds_bucket` + of + `}[$__rate_interval])))`, "{{tool}} p50"},
			series{`histogram_quantile(0.99, sum by (tool, le) (rate(toolgate_call_duration_seconds_bucket` + of + `}[$__rate_interval])))`, "{{tool}} p99"})).
		WithPanel(graph("Share of denials and its own past", "The alert on a surge compares the two.", "percentunit",
			series{`namespace_tool:toolgate_denied:ratio_rate10m` + of + `}`, "{{tool}}"},
			series{`avg_over_time(namespace_tool:toolgate_denied:ratio_rate10m` + of + `}[1d])`, "{{tool}}, a day's mean"})).
		WithPanel(graph("Open tunnels", "By tool; the limit is limits.maxTunnelsPerTool for each sidecar.", "short",
			series{`sum by (tool) (toolgate_tunnels_open` + of + `})`, "{{tool}}"})).
		WithPanel(graph("Queries for names", "By the code of their answer; NXDOMAIN is a name that the tool may not reach.", "reqps",
			series{`sum by (tool, result) (rate(toolgate_dns_queries_total` + of + `}[$__rate_interval]))`, "{{tool}} {{result}}"}))
}
