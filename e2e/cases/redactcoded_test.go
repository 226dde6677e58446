//go:build linux

package cases

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// codedBodies are Content-Encoding lines and how the body under them is coded.
var codedBodies = []struct {
	name    string
	lines   []string
	codings []string
	refused bool
}{
	{"gzip", []string{"gzip"}, []string{"gzip"}, false},
	{"shouted", []string{"GZIP"}, []string{"gzip"}, false},
	{"old", []string{"x-gzip"}, []string{"gzip"}, false},
	{"br", []string{"br"}, []string{"br"}, false},
	{"zstd", []string{"zstd"}, []string{"zstd"}, false},
	{"deflate", []string{"deflate"}, []string{"deflate"}, false},
	{"raw", []string{"deflate"}, []string{"raw deflate"}, false},
	{"two", []string{"gzip, br"}, []string{"gzip", "br"}, false},
	{"lines", []string{"br", "zstd"}, []string{"br", "zstd"}, false},
	{"identity", []string{"identity, gzip , "}, []string{"gzip"}, false},
	{"three", []string{"gzip, gzip, gzip"}, []string{"gzip", "gzip", "gzip"}, true},
	{"unknown", []string{"compress"}, []string{"gzip"}, true},
	{"wrapped", []string{"gzip, aes128gcm"}, []string{"gzip"}, true},
	{"dcz", []string{"dcz"}, []string{"zstd"}, true},
	{"odd", []string{"gzip;q=1"}, []string{"gzip"}, true},
	{"quoted", []string{`"gzip"`}, []string{"gzip"}, true},
}

// codedEchoes has the credential repeated where a search for it finds nothing.
func codedEchoes(t *testing.T, w *world) {
	k := w.lab.echoing(t)
	_, texts := sorted(forms(echoed))
	text := strings.Repeat("before ", 1000) + strings.Join(texts, "\n") + strings.Repeat(" after", 1000)
	asked := make(chan string, 100)
	handlers := map[string]http.HandlerFunc{}
	for _, c := range codedBodies {
		body := coded(t, text, c.codings...)
		send := func(status, n int) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Accept-Encoding")
				rw.Header()["Content-Encoding"] = c.lines
				rw.Header().Set("Etag", `"x"`)
				rw.Header().Set("Content-Length", fmt.Sprint(n))
				rw.WriteHeader(status)
				_, _ = rw.Write(body[:n])
			}
		}
		handlers[c.name] = send(http.StatusOK, len(body))
		handlers[c.name+"-part"] = send(http.StatusPartialContent, len(body))
		handlers[c.name+"-error"] = send(http.StatusInternalServerError, len(body))
		handlers[c.name+"-cut"] = send(http.StatusOK, len(body)-1)
	}
	k.answers(handlers)
	for proto, client := range k.transports(t) {
		for _, c := range codedBodies {
			for _, variant := range []string{"", "-part", "-error", "-cut"} {
				for _, method := range []string{"GET", "HEAD"} {
					what := proto + " " + method + " " + c.name + variant
					status, all := heard(t, client, method, "/"+c.name+variant)
					if want := c.refused || variant == "-part"; want != (status == http.StatusBadGateway) && method == "GET" {
						t.Errorf("%s: status %d", what, status)
					}
					hidden(t, what, all, echoed)
					if method == "GET" && !c.refused && c.name != "raw" && variant == "" && (strings.Count(all, "after") < 1000 || strings.Contains(all, "Content-Encoding")) {
						t.Errorf("%s: the body did not arrive whole and plain: %.300s", what, all)
					}
					if a := <-asked; a != "identity" {
						t.Errorf("%s: the upstream was asked for %q", what, a)
					}
				}
			}
		}
	}
	t.Run("socket", func(t *testing.T) { codedFrames(t, k) })
	t.Run("messages", func(t *testing.T) { codedMessages(t, k) })
	hidden(t, "what was said", k.told(t), echoed)
}

// codedFrames: a WebSocket's messages must not be compressed (RFC 7692), whether the tool asks for it or the upstream just does it.
func codedFrames(t *testing.T, k *world) {
	for _, forced := range []bool{false, true} {
		asked := make(chan string, 1)
		k.answers(map[string]http.HandlerFunc{"socket": func(rw http.ResponseWriter, r *http.Request) {
			extensions := r.Header.Get("Sec-Websocket-Extensions")
			asked <- extensions
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			head, message, line := byte(0x82), []byte(echoed), ""
			if forced || extensions != "" {
				head, message, line = 0xc2, coded(t, echoed, "raw deflate"), "Sec-WebSocket-Extensions: permessage-deflate\r\n"
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"+line+"\r\n")
			_, _ = conn.Write(append(frame(head, string(message)), frame(0x88, "\x03\xe8")...))
			_, _ = io.Copy(io.Discard, conn)
		}})
		a := k.inside(t, "api.ok.test:443")
		a.send(t, wsHandshake+"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n")
		res, err := http.ReadResponse(a.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if extensions := <-asked; extensions != "" {
			t.Errorf("the upstream was asked for %q", extensions)
		}
		if forced {
			if res.StatusCode != http.StatusBadGateway {
				t.Errorf("an upstream that compresses unasked: status %d", res.StatusCode)
			}
			continue
		}
		all, _ := spoken(t, a.r)
		hidden(t, "the frames", layers([]byte(all), 1), echoed)
		if res.StatusCode != http.StatusSwitchingProtocols || len(all) != len(echoed)+2 {
			t.Errorf("status %d, frames %q", res.StatusCode, all)
		}
	}
}

// codedMessages: neither may gRPC's and Connect's, which have codings of their own below HTTP's.
func codedMessages(t *testing.T, k *world) {
	for _, c := range []struct{ kind, accept, coding string }{
		{"application/grpc", "Grpc-Accept-Encoding", "Grpc-Encoding"}, {"application/grpc-web+proto", "Grpc-Accept-Encoding", "Grpc-Encoding"},
		{"application/connect+json", "Connect-Accept-Encoding", "Connect-Content-Encoding"},
	} {
		for _, forced := range []bool{false, true} {
			asked := make(chan string, 1)
			k.answers(map[string]http.HandlerFunc{"messages": func(rw http.ResponseWriter, r *http.Request) {
				accept := r.Header.Get(c.accept)
				asked <- accept
				message, flag := []byte(echoed), byte(0)
				rw.Header().Set("Content-Type", c.kind)
				if forced || strings.Contains(accept, "gzip") {
					message, flag = coded(t, echoed, "gzip"), 1
					rw.Header().Set(c.coding, "gzip")
				}
				_, _ = rw.Write(append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...))
			}})
			for proto, client := range k.transports(t) {
				what := fmt.Sprint(proto, " ", c.kind, " forced ", forced)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.ok.test/messages", bufio.NewReader(strings.NewReader("\x00\x00\x00\x00\x00")))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", c.kind)
				req.Header.Set(c.accept, "gzip, identity")
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if a := <-asked; strings.Contains(a, "gzip") {
					t.Errorf("%s: the upstream was asked for %q", what, a)
				}
				hidden(t, what, fmt.Sprint(res.Header)+layers(body[min(5, len(body)):], 1), echoed)
				if !forced && (res.StatusCode != http.StatusOK || len(body) != 5+len(echoed) || !bytes.HasPrefix(body, []byte{0})) {
					t.Errorf("%s: status %d, %q", what, res.StatusCode, body)
				}
			}
		}
	}
}
