//go:build linux

package cases

import "net"

// allowing lists more domains in t1's manifest, so that nothing but the judgement of addresses stands in the way.
func allowing(domains ...string) func(*settings) {
	return func(s *settings) { s.domains = append(s.domains, domains...) }
}

func egressLines(lines string) func(*settings) {
	return func(s *settings) { s.egress += lines }
}

func manifestLines(lines string) func(*settings) {
	return func(s *settings) { s.manifest += lines }
}

func limits(text string) func(*settings) {
	return func(s *settings) { s.limits = text }
}

func intercepting(targets string) func(*settings) {
	return func(s *settings) { s.intercept = "{caOutFile: ca.pem, targets: [" + targets + "]}" }
}

// withPort returns each host with a port.
func withPort(port string, hosts ...string) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = net.JoinHostPort(h, port)
	}
	return out
}
