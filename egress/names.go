package egress

// Names reports whether the policy allows the canonical host at some port, whatever rules then say of requests.
func (p *Policy) Names(host string) bool {
	if p == nil {
		return false
	}
	for w := p.allowedAt.walk(host); w.next(); {
		if p.allowed[w.found()].matchHost(host) {
			return true
		}
	}
	return false
}
