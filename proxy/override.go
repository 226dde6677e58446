package proxy

import (
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/egress"
)

// overriding are headers whose method many servers take for the request's own.
var overriding = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// overridden returns the methods that such headers name, in upper case. Other spellings of the headers are not passed on.
func overridden(h http.Header) (methods []string) {
	for _, name := range overriding {
		for _, v := range h[name] {
			methods = append(methods, strings.ToUpper(strings.TrimSpace(v)))
		}
	}
	return methods
}

// misleads reports whether a header would have the upstream answer for another path than the one that was decided on, or for another
// method by a name that overridden does not know. Proxies write such headers; tools have no use for them.
func misleads(name string) bool {
	if !foldedPrefix(name, "x-") {
		return false
	}
	if strings.IndexByte(name, '_') >= 0 && (folds(name, "x-http-method-override") || folds(name, "x-http-method") || folds(name, "x-method-override")) {
		return true
	}
	return folds(name, "x-original-url") || folds(name, "x-original-uri") || folds(name, "x-original-host") || folds(name, "x-original-method") ||
		folds(name, "x-rewrite-url")
}

// judge decides on a target, and on the same with each of the methods that an upstream may take for the request's.
func (a *ask) judge(p *egress.Policy, t egress.Target) egress.Decision {
	v := p.Decide(t)
	for _, method := range a.overrides {
		if v.Verdict != egress.Allow {
			break
		}
		t.Method = method
		if w := p.Decide(t); w.Verdict != egress.Allow {
			v = w
		}
	}
	return v
}
