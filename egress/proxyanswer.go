package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer      = 16 << 10 // bytes of the header of the proxy's answer
	headerEnd      = "\r\n\r\n"
	shortestAnswer = len("HTTP/1.1 200" + headerEnd)

	proxyAuthRequired = 407 // RFC 9110 section 15.5.8
)

var (
	errAnswerForm = errors.New("the answer is malformed")
	errAnswerSize = errors.New("the header of the answer is longer than 16 KiB")
)

// answer is what the header of a proxy's answer says. All but the status are a gateway's own words, and not to be looked at in what
// another proxy answers.
type answer struct {
	status           int
	denial, decision string // a code and an id; empty where they are missing or are none
	retryAfter       time.Duration
}

// openTunnel writes the request on a connection to a proxy and reads the answer, until ctx ends. After an error the
// connection is of no use.
func openTunnel(ctx context.Context, conn net.Conn, request []byte) (answer, *ProxyError) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	a, err := exchange(conn, request)
	if !stop() { // the deadline is set, or will be at any moment
		return answer{}, &ProxyError{Reason: ProxyUnreachable, Err: ctx.Err()}
	}
	return a, answerError(a.status, err)
}

func answerError(status int, err error) *ProxyError {
	switch {
	case errors.Is(err, errAnswerForm), errors.Is(err, errAnswerSize), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &ProxyError{Reason: ProxyMalformed, Err: err}
	case err != nil:
		return &ProxyError{Reason: ProxyUnreachable, Err: err}
	case status == proxyAuthRequired:
		return &ProxyError{Reason: ProxyAuth, Status: status}
	case status < 200 || status > 299:
		return &ProxyError{Reason: ProxyRefused, Status: status}
	}
	return nil
}

func exchange(conn io.ReadWriter, request []byte) (answer, error) {
	if _, err := conn.Write(request); err != nil {
		return answer{}, err
	}
	head, err := readHeader(conn)
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(head)
}

// readHeader reads a header to its last byte and not beyond it: what follows is the upstream's, which may speak first,
// and is read from the socket by others. It never asks for more bytes than the header must still have.
func readHeader(r io.Reader) ([]byte, error) {
	buf := make([]byte, maxAnswer)
	n := 0
	for {
		want := n + missing(buf[:n])
		if want > len(buf) {
			return nil, errAnswerSize
		}
		k, err := r.Read(buf[n:want])
		from := max(0, n-len(headerEnd)+1)
		n += k
		if i := bytes.Index(buf[from:n], []byte(headerEnd)); i >= 0 {
			return buf[:from+i+len(headerEnd)], checkEnd(from+i+len(headerEnd), n)
		}
		switch {
		case !plausible(buf[:n], from):
			return nil, errAnswerForm
		case err != nil:
			return nil, err
		}
	}
}

// checkEnd refuses a header that is shorter than any valid one, after which bytes have been read.
func checkEnd(end, n int) error {
	if end != n {
		return errAnswerForm
	}
	return nil
}

// missing returns how many bytes a header that begins so must still have, at least one.
func missing(head []byte) int {
	rest := len(headerEnd)
	for k := len(headerEnd) - 1; k > 0; k-- {
		if bytes.HasSuffix(head, []byte(headerEnd[:k])) {
			rest -= k
			break
		}
	}
	return max(rest, shortestAnswer-len(head))
}

// plausible reports whether more bytes could make head valid, so that a peer which speaks another protocol is not waited
// for. What stands before from has been looked at.
func plausible(head []byte, from int) bool {
	const start = "HTTP/1."
	if k := min(len(head), len(start)); string(head[:k]) != start[:k] {
		return false
	}
	for i := from; i < len(head); i++ {
		if head[i] == '\n' && (i == 0 || head[i-1] != '\r') {
			return false
		}
	}
	return true
}

// parseAnswer reads a header that ends in an empty line. Fields are checked for their form alone: what they say about a body
// means nothing after a success (RFC 9110 section 9.3.6), and no body of a refusal is read.
func parseAnswer(head []byte) (answer, error) {
	first, fields, more := strings.Cut(strings.TrimSuffix(string(head), headerEnd), "\r\n")
	status, err := parseStatus(first)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: status}
	for more {
		var field string
		field, fields, more = strings.Cut(fields, "\r\n")
		name, value, colon := strings.Cut(field, ":")
		if !colon || !isToken(name) || !isText(value) {
			return answer{}, errAnswerForm
		}
		a.note(strings.ToLower(name), strings.TrimSpace(value))
	}
	return a, nil
}

// note keeps what a gateway says of its decision. What is not in the form of a code or an id is not kept.
func (a *answer) note(name, value string) {
	switch {
	case name == "toolgate-denial" && len(value) <= 64 && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz_") == "":
		a.denial = value
	case name == "toolgate-decision" && IsDecisionID(value):
		a.decision = value
	case name == "retry-after":
		if s, err := strconv.Atoi(value); err == nil && s > 0 {
			a.retryAfter = time.Duration(min(s, maxRetryAfter)) * time.Second
		}
	}
}

// IsDecisionID reports whether s has the form of a decision's id, which is safe in a header field and a record.
func IsDecisionID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// parseStatus parses "HTTP/1.1 200 reason" (RFC 9112 section 4). The space before a missing reason may be missing, too.
func parseStatus(line string) (int, error) {
	rest, ok := strings.CutPrefix(line, "HTTP/1.")
	if !ok || len(rest) < len("1 200") || rest[0] != '0' && rest[0] != '1' || rest[1] != ' ' {
		return 0, errAnswerForm
	}
	status := 0
	for _, c := range []byte(rest[2:5]) {
		if c < '0' || c > '9' {
			return 0, errAnswerForm
		}
		status = status*10 + int(c-'0')
	}
	if reason := rest[5:]; status < 100 || reason != "" && reason[0] != ' ' || !isText(reason) {
		return 0, errAnswerForm
	}
	return status, nil
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// isText reports whether s has no control character but tabs.
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
