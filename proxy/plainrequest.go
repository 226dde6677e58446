package proxy

import "bytes"

// maxPlainRequest is how long the head of a plain request may be, and the size of the buffer that it is looked for in.
const maxPlainRequest = 4 << 10

// plainRequest returns the length of the head that b begins with, if it is one of HTTP/1.1 in the form that common clients send, whole.
// Whatever is unusual in any byte gives 0, and is the server's to read or to refuse: where a head is plain, nothing that
// net/http's server checks beyond http.ReadRequest is left to be checked (FuzzPlainRequest). The form: an upper-case method other than
// CONNECT; a path; one Host, a name with or without a port; headers as "Name: value" of printable ASCII; a body of a length that is told
// once, or none. What changes how long a message or its connection is, or wants an answer before the answer, is not plain.
func plainRequest(b []byte) int {
	line, rest, ok := bytes.Cut(b, crlf)
	if !ok || !isPlainRequestLine(line) {
		return 0
	}
	hosts, lengths := 0, 0
	for {
		if line, rest, ok = bytes.Cut(rest, crlf); !ok {
			return 0
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(": "))
		if !ok || !isPlainName(name) || !isPlainValue(value) {
			return 0
		}
		switch {
		case isHeader(name, "host"):
			if hosts++; !isPlainHost(value) {
				return 0
			}
		case isHeader(name, "content-length"):
			if lengths++; !isPlainLength(value) {
				return 0
			}
		case isHeader(name, "transfer-encoding"), isHeader(name, "trailer"), isHeader(name, "expect"), isHeader(name, "upgrade"):
			return 0
		}
	}
	if hosts != 1 || lengths > 1 {
		return 0
	}
	return len(b) - len(rest)
}

func isPlainRequestLine(line []byte) bool {
	line, ok := bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	method, path, found := bytes.Cut(line, []byte(" "))
	if !ok || !found || len(method) == 0 || len(path) == 0 || path[0] != '/' || string(method) == "CONNECT" {
		return false
	}
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	for _, c := range path {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// isPlainName reports whether b is letters, digits and "-".
func isPlainName(b []byte) bool {
	for _, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return len(b) > 0
}

// isPlainHost reports whether b is letters, digits, "." and "-", and perhaps a port.
func isPlainHost(b []byte) bool {
	name, port, _ := bytes.Cut(b, []byte(":"))
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return len(name) > 0
}

// isPlainLength reports whether b is a decimal number that an int64 holds.
func isPlainLength(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) <= 18
}

// isHeader reports whether name is lower, whatever its case.
func isHeader(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
