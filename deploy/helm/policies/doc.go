// Package policies tests the chart's admission policies by the API server's own code, without a server: each policy is compiled as the
// server compiles it, and judges pods. It is a module of its own, since nothing else of Toolgate needs the API server's packages.
package policies
