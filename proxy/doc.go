// Package proxy carries a tool's calls. It is the one place where a call goes through every gate, in an order that is
// code (decide.go), and from there to the upstream: relayed blind (tunnel.go), or intercepted (intercept.go) and sent on
// with a credential that the tool never sees (forward.go). Every call leaves one record, whatever happened to it.
//
// Limits: it does not decide what a rule means, whom to believe or how a credential is had; the gates do, and know
// nothing of HTTP statuses, which only denial.go knows.
//
// It imports every other package of the data plane. Only cmd may import it.
package proxy
