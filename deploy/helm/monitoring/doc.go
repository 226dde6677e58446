// Command monitoring writes the Grafana dashboards of the chart: "go run ." here. Its tests hold the chart's alert rules,
// its dashboards and the runbooks of docs/operations.md together: what is parsed, what fires when, which metrics exist.
//
// It is a module of its own, since the parser and the engine of Prometheus are heavy, and nothing of them belongs into the
// programs. Its tests read files outside of it, which the test cache does not see: run them with -count=1.
package main
