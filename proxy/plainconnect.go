package proxy

import (
	"bytes"
	"net/http"
)

// maxPlainHead bounds the head of a plain CONNECT. A longer one is read by net/http.
const maxPlainHead = 4 << 10

// plainConnect reads the head of a CONNECT in the form that common clients send, and returns it with its length. Whatever
// is unusual in any byte gives nil, and is net/http's to read or to refuse: what is read here, net/http reads the same
// (FuzzPlainConnect). The form: a lower-case name or IPv4 address with a port; HTTP/1.1; a Host that says the same; each
// header of plainHeaders at most once, as "Name: value" of printable ASCII.
func plainConnect(b []byte) (*ask, int) {
	a, values, n := connectHead(b, isPlainAuthority)
	if a != nil && (values[plainToolgateWorkload] != nil || values[plainToolgateDecision] != nil) {
		return nil, 0
	}
	return a, n
}

// connectHead is plainConnect for the authorities that authority covers, with the values of every header of plainHeaders.
func connectHead(b []byte, authorityForm func([]byte) bool) (*ask, *plainValues, int) {
	line, rest, ok := bytes.Cut(b, crlf)
	authority, ok1 := bytes.CutPrefix(line, []byte("CONNECT "))
	authority, ok2 := bytes.CutSuffix(authority, []byte(" HTTP/1.1"))
	if !ok || !ok1 || !ok2 || !authorityForm(authority) {
		return nil, nil, 0
	}
	values := new(plainValues)
	for {
		if line, rest, ok = bytes.Cut(rest, crlf); !ok {
			return nil, nil, 0
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(": "))
		i := plainHeader(name)
		if !ok || i < 0 || values[i] != nil || !isPlainValue(value) {
			return nil, nil, 0
		}
		values[i] = value
	}
	if !bytes.Equal(values[plainHost], authority) {
		return nil, nil, 0
	}
	// Each text is a copy of its own: one of the whole head would keep the token in memory as long as the target.
	a := &ask{tunnel: true, method: http.MethodConnect, authority: string(authority), traceparent: string(values[plainTraceparent])}
	a.proxyAuthorization, a.toolgateAuthorization = list(values[plainProxyAuthorization]), list(values[plainToolgateAuthorization])
	return a, values, len(b) - len(rest)
}

type plainValues [len(plainHeaders)][]byte

// The headers of a plain CONNECT. Others may change how long a head or its connection is.
const (
	plainHost = iota
	plainProxyAuthorization
	plainToolgateAuthorization
	plainTraceparent
	plainUserAgent
	plainProxyConnection
	plainToolgateWorkload
	plainToolgateDecision
)

var plainHeaders = [...]string{
	plainHost: "host", plainProxyAuthorization: "proxy-authorization", plainToolgateAuthorization: "toolgate-authorization",
	plainTraceparent: "traceparent", plainUserAgent: "user-agent", plainProxyConnection: "proxy-connection",
	plainToolgateWorkload: "toolgate-workload", plainToolgateDecision: "toolgate-decision",
}

var crlf = []byte("\r\n")

// plainHeader returns which of plainHeaders name is, whatever its case, or -1.
func plainHeader(name []byte) int {
	for i, h := range plainHeaders {
		if isHeader(name, h) {
			return i
		}
	}
	return -1
}

// isPlainAuthority reports whether b is letters, digits, "." and "-", then a colon and one to five digits.
func isPlainAuthority(b []byte) bool {
	name, port, ok := bytes.Cut(b, []byte(":"))
	for _, c := range name {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return ok && len(name) > 0 && len(port) > 0 && len(port) <= 5
}

// isPlainValue reports whether b is printable ASCII that neither begins nor ends with a space.
func isPlainValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(b) > 0 && b[0] != ' ' && b[len(b)-1] != ' '
}

func list(value []byte) []string {
	if value == nil {
		return nil
	}
	return []string{string(value)}
}
