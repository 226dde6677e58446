package egress

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestProxyAnswers(t *testing.T) {
	long := strings.Repeat("a", maxAnswer)
	for name, tt := range map[string]struct {
		answer string
		reason ProxyReason // "": connected
		status int
	}{
		"usual":                 {"HTTP/1.1 200 Connection established\r\n\r\n", "", 0},
		"1.0":                   {"HTTP/1.0 200 OK\r\nProxy-Agent: x/1\r\n\r\n", "", 0},
		"no reason":             {"HTTP/1.1 200 \r\n\r\n", "", 0},
		"no reason, no space":   {"HTTP/1.1 200\r\n\r\n", "", 0},
		"another success":       {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "", 0},
		"odd fields":            {"HTTP/1.1 200 OK\r\nX-Empty:\r\nX_y!: \ta;\"b\"\xe4\r\n\r\n", "", 0},
		"just short enough":     {"HTTP/1.1 200 OK\r\nX: " + long[:maxAnswer-len("HTTP/1.1 200 OK\r\nX: \r\n\r\n")] + "\r\n\r\n", "", 0},
		"no credentials":        {"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 6\r\n\r\nsecret", ProxyAuth, 407},
		"refused":               {"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nsecret", ProxyRefused, 403},
		"bad gateway":           {"HTTP/1.0 502 Bad Gateway\r\n\r\n", ProxyRefused, 502},
		"redirect":              {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", ProxyRefused, 302},
		"interim":               {"HTTP/1.1 100 Continue\r\n\r\n" + opened, ProxyRefused, 100},
		"switched":              {"HTTP/1.1 101 Switching Protocols\r\n\r\n", ProxyRefused, 101},
		"nothing":               {"", ProxyMalformed, 0},
		"half a line":           {"HTTP/1.1 20", ProxyMalformed, 0},
		"half a header":         {"HTTP/1.1 200 OK\r\nVia: x\r\n", ProxyMalformed, 0},
		"too long by one":       {"HTTP/1.1 200 OK\r\nX: " + long[:maxAnswer-len("HTTP/1.1 200 OK\r\nX: \r\n\r\n")+1] + "\r\n\r\n", ProxyMalformed, 0},
		"without end":           {"HTTP/1.1 200 OK\r\nX: " + long, ProxyMalformed, 0},
		"another protocol":      {"220 smtp.ok.test ESMTP\r\n", ProxyMalformed, 0},
		"TLS":                   {"\x15\x03\x01\x00\x02\x02\x46", ProxyMalformed, 0},
		"h2":                    {"HTTP/2.0 200 OK\r\n\r\n", ProxyMalformed, 0},
		"1.2":                   {"HTTP/1.2 200 OK\r\n\r\n", ProxyMalformed, 0},
		"lower case":            {"http/1.1 200 OK\r\n\r\n", ProxyMalformed, 0},
		"no status":             {"HTTP/1.1\r\n\r\n", ProxyMalformed, 0},
		"no status, more":       {"HTTP/1.1\r\n\r\nabcdefgh", ProxyMalformed, 0},
		"short status":          {"HTTP/1.1 20 OK there\r\n\r\n", ProxyMalformed, 0},
		"long status":           {"HTTP/1.1 2000 OK\r\n\r\n", ProxyMalformed, 0},
		"signed status":         {"HTTP/1.1 +20 OK\r\n\r\n", ProxyMalformed, 0},
		"status of letters":     {"HTTP/1.1 abc OK\r\n\r\n", ProxyMalformed, 0},
		"status below 100":      {"HTTP/1.1 020 OK\r\n\r\n", ProxyMalformed, 0},
		"two spaces":            {"HTTP/1.1  200 OK\r\n\r\n", ProxyMalformed, 0},
		"bare line feeds":       {"HTTP/1.1 200 OK\n\n", ProxyMalformed, 0},
		"a bare line feed":      {"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", ProxyMalformed, 0},
		"a bare return":         {"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", ProxyMalformed, 0},
		"a NUL":                 {"HTTP/1.1 200 OK\x00\r\n\r\n", ProxyMalformed, 0},
		"a NUL in a field":      {"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n", ProxyMalformed, 0},
		"no colon":              {"HTTP/1.1 200 OK\r\nVia\r\n\r\n", ProxyMalformed, 0},
		"no name":               {"HTTP/1.1 200 OK\r\n: x\r\n\r\n", ProxyMalformed, 0},
		"space before colon":    {"HTTP/1.1 200 OK\r\nVia : x\r\n\r\n", ProxyMalformed, 0},
		"folded":                {"HTTP/1.1 200 OK\r\nVia: x\r\n y: z\r\n\r\n", ProxyMalformed, 0},
		"refused and malformed": {"HTTP/1.1 407 No\r\n\tVia\r\n\r\n", ProxyMalformed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, tt.answer)
			conn, err := through(p, &Dialer{Addresses: &Addresses{}}).Dial(t.Context(), "t", "8.8.8.8", 443, nil)
			if err == nil {
				_ = conn.Close()
			}
			via, _ := errors.AsType[*ProxyError](err)
			switch {
			case tt.reason == "" && err != nil:
				t.Error(err)
			case tt.reason != "" && (via == nil || via.Reason != tt.reason || via.Status != tt.status):
				t.Errorf("%v, expected %q with status %d", err, tt.reason, tt.status)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error quotes the proxy: %v", err)
			}
		})
	}
}

// What follows the header at once is the upstream's word and arrives whole, however the proxy cut its writes.
func TestProxyDialKeepsEarlyBytes(t *testing.T) {
	const greeting = "SSH-2.0-test\r\n\r\nHTTP/1.1 200 not ours\r\n\r\n"
	for name, answer := range map[string][]string{
		"one write":           {opened + greeting},
		"cut at the end":      {opened, greeting},
		"cut before the end":  {opened[:len(opened)-1], "\n" + greeting},
		"byte by byte":        strings.Split(opened+greeting, ""),
		"shortest":            {"HTTP/1.0 200\r\n\r\n" + greeting},
		"a body is announced": {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + greeting},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, answer...)
			conn, err := through(p, &Dialer{Addresses: &Addresses{}}).Dial(t.Context(), "t", "8.8.8.8", 22, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			got := make([]byte, len(greeting))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != greeting {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// Whatever a header looks like and however it comes, not one byte beyond it is read.
func FuzzReadHeader(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nVia: x\r\n", "early")
	f.Add("HTTP/1.1 200 \r", "\r\n\r\n")
	f.Add("HTTP/1.0 200 \r\n\r", "")
	f.Fuzz(func(t *testing.T, head, rest string) {
		whole := head + headerEnd + rest
		end := strings.Index(whole, headerEnd) + len(headerEnd)
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with EOF": iotest.DataErrReader,
		} {
			src := strings.NewReader(whole)
			got, err := readHeader(wrap(src))
			if err != nil {
				continue
			}
			if string(got) != whole[:end] {
				t.Errorf("%s: got %q of %q", name, got, whole)
			}
			if name != "with EOF" && src.Len() != len(whole)-end { // that reader looks one read ahead
				t.Errorf("%s: %d bytes are left of %q after %q", name, src.Len(), whole, got)
			}
		}
	})
}
