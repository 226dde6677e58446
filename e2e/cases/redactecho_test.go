//go:build linux

package cases

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

// echoed is a credential that each form writes differently.
const echoed = `SECRET/E+9f1c"64&d0<b7`

// echoing starts a sidecar whose credential for api.ok.test is echoed, and everything is logged.
func (l *lab) echoing(t *testing.T, options ...func(*settings)) *world {
	t.Helper()
	k := l.files(t, append(options, talkative)...)
	k.write(t, "secret-a", echoed)
	k.start(t)
	return k
}

// answers has api.ok.test answer by what the path names.
func (l *lab) answers(parts map[string]http.HandlerFunc) {
	l.up.handle("api.ok.test", func(rw http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if r.Header.Get("Authorization") != "Bearer "+echoed || parts[name] == nil {
			rw.WriteHeader(http.StatusTeapot)
			return
		}
		parts[name](rw, r)
	})
}

// heard is all that a client can see of an answer.
func heard(t *testing.T, c *http.Client, method, path string) (int, string) {
	t.Helper()
	var all strings.Builder
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		fmt.Fprintln(&all, code, h)
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, method, "https://api.ok.test"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Te", "trailers")
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	fmt.Fprintln(&all, res.Status, res.Header, layers(body, 2), res.Trailer, err)
	return res.StatusCode, all.String()
}

// echoes has the upstream repeat the credential wherever HTTP has room for it.
func echoes(t *testing.T, w *world) {
	k := w.lab.echoing(t)
	names, texts := sorted(forms(echoed))
	flush := func(rw http.ResponseWriter) { _ = http.NewResponseController(rw).Flush() }
	k.answers(map[string]http.HandlerFunc{
		"header": func(rw http.ResponseWriter, r *http.Request) {
			for i, text := range texts {
				for _, name := range []string{"X-Echo-", "Set-Cookie", "Location", "Link", "Www-Authenticate", "Etag", "Content-Disposition", "Server-Timing"} {
					rw.Header().Add(name+map[bool]string{true: fmt.Sprint(i)}[name == "X-Echo-"], "a="+text+"; b")
				}
			}
		},
		"hints": func(rw http.ResponseWriter, r *http.Request) {
			for _, code := range []int{103, 102, 110} {
				for _, text := range texts {
					rw.Header().Add("Link", "</"+text+">; rel=preload")
				}
				rw.WriteHeader(code)
				rw.Header().Del("Link")
			}
			_, _ = io.WriteString(rw, "after")
		},
		"body": func(rw http.ResponseWriter, r *http.Request) {
			for i, text := range texts {
				_, _ = io.WriteString(rw, names[i]+": "+text+"\n")
			}
		},
		"split": func(rw http.ResponseWriter, r *http.Request) { // cut in two at each place, each part a chunk or a DATA frame
			for _, text := range texts {
				for at := 1; at < len(text); at++ {
					_, _ = io.WriteString(rw, "<"+text[:at])
					flush(rw)
					_, _ = io.WriteString(rw, text[at:]+">")
					flush(rw)
				}
			}
		},
		"bytes": func(rw http.ResponseWriter, r *http.Request) {
			for _, b := range []byte(strings.Join(texts, "\n")) {
				_, _ = rw.Write([]byte{b})
				flush(rw)
			}
		},
		"events": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for _, text := range texts {
				_, _ = io.WriteString(rw, "data: {\"token\": \""+text+"\"}\n\n")
				flush(rw)
			}
		},
		"trailers": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Trailer", "Grpc-Status, Grpc-Message, X-Announced")
			_, _ = io.WriteString(rw, "body")
			rw.Header().Set("Grpc-Status", "7")
			for _, text := range texts {
				for _, name := range []string{"Grpc-Message", "X-Announced", http.TrailerPrefix + "X-Sudden"} {
					rw.Header().Add(name, "no: "+text)
				}
			}
		},
		"part": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Range", "bytes 10-99/1000")
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(rw, strings.Join(texts, " "))
		},
		"error": func(rw http.ResponseWriter, r *http.Request) {
			http.Error(rw, strings.Join(texts, " "), http.StatusInternalServerError)
		},
		"end": func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "it was "+echoed) },
	})
	for proto, c := range k.transports(t) {
		for name, status := range map[string]int{"header": 200, "hints": 200, "body": 200, "split": 200, "bytes": 200, "events": 200, "trailers": 200, "part": 206, "error": 500, "end": 200} {
			t.Run(proto+"/"+name, func(t *testing.T) {
				for _, method := range []string{"GET", "HEAD", "POST"} {
					got, all := heard(t, c, method, "/"+name)
					if got != status {
						t.Errorf("%s: status %d", method, got)
					}
					hidden(t, method+" "+name, all, echoed)
				}
			})
		}
	}
	t.Run("sockets", func(t *testing.T) { echoedFrames(t, k) })
	hidden(t, "what was said", k.told(t), echoed)
}

func sorted(m map[string]string) (keys, values []string) {
	for key, v := range m {
		if !strings.ContainsAny(v, "\r\n") {
			keys, values = append(keys, key), append(values, v)
		}
	}
	return keys, values
}

const wsHandshake = "GET /socket HTTP/1.1\r\nHost: api.ok.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// frame is a WebSocket frame as servers send it (RFC 6455, section 5.2).
func frame(head byte, payload string) []byte {
	if len(payload) < 126 {
		return append([]byte{head, byte(len(payload))}, payload...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{head, 126}, uint16(len(payload))), payload...)
}

// spoken reads frames until a close frame and returns the payloads, one behind the other, and how many frames there were.
func spoken(t *testing.T, r *bufio.Reader) (string, int) {
	t.Helper()
	var all strings.Builder
	for n := 0; ; n++ {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			t.Errorf("after %d frames: %v", n, err)
			return all.String(), n
		}
		size := int(head[1])
		if size == 126 {
			if _, err := io.ReadFull(r, head[2:]); err != nil {
				t.Error(err)
			}
			size = int(binary.BigEndian.Uint16(head[2:]))
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(r, payload); err != nil {
			t.Error(err)
		}
		if head[0]&0x0f == 8 {
			return all.String() + string(payload), n + 1
		}
		all.Write(payload)
	}
}

// echoedFrames repeats the credential in a WebSocket: in its answer, in a message, in frames that it is cut over, in a ping.
func echoedFrames(t *testing.T, k *world) {
	_, texts := sorted(forms(echoed))
	sent := 0
	k.answers(map[string]http.HandlerFunc{"socket": func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Echo: %s\r\n\r\n", echoed)
		var out []byte
		for _, text := range texts {
			out = append(append(out, frame(0x81, text)...), frame(0x89, "p"+text[:min(len(text), 100)])...)
			for at := 1; at < len(text); at++ {
				out = append(append(out, frame(0x01, "<"+text[:at])...), frame(0x80, text[at:]+">")...)
				sent += 2
			}
			sent += 2
		}
		_, _ = conn.Write(append(out, frame(0x88, "\x03\xe8"+echoed)...))
		_, _ = io.Copy(io.Discard, conn)
	}})
	a := k.inside(t, "api.ok.test:443")
	a.send(t, wsHandshake+"\r\n")
	res, err := http.ReadResponse(a.r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", res, err)
	}
	hidden(t, "the answer", fmt.Sprint(res.Header), echoed)
	all, n := spoken(t, a.r)
	hidden(t, "the frames", all, echoed)
	if n != sent+1 {
		t.Errorf("%d frames of %d arrived", n, sent+1)
	}
	_ = a.Close()
}

// manyHits hides the real one behind many others.
func manyHits(t *testing.T, w *world) {
	k := w.lab.echoing(t)
	fakes := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"password":"not-it-%d","note":"Bearer %s, AKIA%016d"},`, i, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "no secret %d", i)), i)
		}
		return b.String()
	}
	k.answers(map[string]http.HandlerFunc{"many": func(rw http.ResponseWriter, r *http.Request) {
		_, n, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		for i := range 60 {
			rw.Header().Add("X-Fake", fmt.Sprintf("Bearer not-it-%d", i))
		}
		rw.Header().Add("X-Fake", "Bearer "+echoed)
		_, _ = io.WriteString(rw, "["+fakes(map[string]int{"60": 60, "6000": 6000}[n])+`"`+echoed+`"]`)
	}})
	for proto, c := range k.transports(t) {
		for _, n := range []string{"60", "6000"} {
			status, all := heard(t, c, "GET", "/many/"+n)
			if status != http.StatusOK || strings.Count(all, "password") < 60 {
				t.Errorf("%s, %s: status %d, %d bytes", proto, n, status, len(all))
			}
			hidden(t, proto+" after "+n, all, echoed)
		}
		for _, n := range []int{60, 400} {
			body := "[" + fakes(n) + `{"password":"quiet-real-one-stone","note":"x ` + strings.ReplaceAll(echoed, `"`, `\"`) + ` y"}]`
			res, err := c.Post("https://api.ok.test/many/60", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
	}
	all := k.told(t)
	says(t, "the log", all, `"msg":"payload"`, "[REDACTED")
	hidden(t, "what was said", all, echoed, "quiet-real-one-stone")
}
