package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

func TestHandlerIsAHandler(t *testing.T) {
	var buf bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		buf.Reset()
		return Handler(slog.NewJSONHandler(&buf, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(buf.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type panicValuer struct{}

func (panicValuer) LogValue() slog.Value { panic(marker) }

type panicStringer struct{}

func (panicStringer) String() string { panic(marker) }

type credentials struct {
	User     string
	Password string
}

func TestHandler(t *testing.T) {
	const c = "[REDACTED:credential]"
	u := &url.URL{Scheme: "https", User: url.UserPassword("u", marker), Host: "h", Path: "/p", RawQuery: "q=" + marker}
	cases := []struct {
		name string
		attr slog.Attr
		want any
	}{
		{"number", slog.Int("n", 3), 3.0},
		{"bool", slog.Bool("b", true), true},
		{"duration", slog.Duration("d", time.Second), 1e9},
		{"text", slog.String("s", "Bearer "+marker), "Bearer " + c},
		{"control", slog.String("s", "a\nb"), `a\nb`},
		{"named", slog.String("api_key", marker), c},
		{"named suffix", slog.Int("db_password", 12345678), c},
		{"named any", slog.Any("token", map[string]int{marker: 1}), c},
		{"named group", slog.Group("secret", "x", marker), c},
		{"authorization", slog.String("Authorization", "Bearer "+marker), "Bearer " + c},
		{"authorization, safe already", slog.String("authorization", "Bearer "+c), "Bearer " + c},
		{"cookie", slog.String("cookie", "sid="+marker), "sid=" + c},
		{"set-cookie", slog.String("Set-Cookie", "sid="+marker+"; Path=/"), "sid=" + c + "; Path=/"},
		{"error", slog.Any("err", &url.Error{Op: "Get", URL: u.String(), Err: errors.New(marker)}), "Get h: other error"},
		{"header", slog.Any("h", http.Header{"X-Key": {marker}, "Authorization": {"Basic " + marker}}),
			map[string]any{"X-Key": "[REDACTED:header]", "Authorization": "Basic " + c}},
		{"Headers", slog.Attr{Key: "h", Value: Headers(http.Header{"Authorization": {"Basic " + marker}})}, map[string]any{"Authorization": "Basic " + c}},
		{"URL", slog.Any("u", u), "https://h/p?q=[REDACTED:url]"},
		{"URL value", slog.Any("u", *u), "https://h/p?q=[REDACTED:url]"},
		{"nil URL", slog.Any("u", (*url.URL)(nil)), "<nil>"},
		{"bytes", slog.Any("b", []byte(marker)), fmt.Sprintf("[%d bytes hmac=%s]", len(marker), Hash(marker))},
		{"raw JSON", slog.Any("b", json.RawMessage(`"`+marker+`"`)), fmt.Sprintf("[%d bytes hmac=%s]", len(marker)+2, Hash(`"`+marker+`"`))},
		{"request", slog.Any("r", &http.Request{Method: "GET", URL: u, Header: http.Header{"X": {marker}}}), "GET https://h/p?q=[REDACTED:url]"},
		{"nil request", slog.Any("r", (*http.Request)(nil)), "<request>"},
		{"response", slog.Any("r", &http.Response{StatusCode: 502, Header: http.Header{"X": {marker}}}), "<response 502>"},
		{"Secret", slog.Any("s", New(marker)), c},
		{"struct with bytes", slog.Any("b", struct{ B []byte }{[]byte(marker)}), "[struct { B []uint8 }]"},
		{"address", slog.Any("a", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}), "127.0.0.1:80"},
		{"IP", slog.Any("a", net.IPv4(127, 0, 0, 1)), "127.0.0.1"},
		{"map of arrays", slog.Any("b", map[string][4]byte{"k": {1, 2, 3, 4}}), "[map[string][4]uint8]"},
		{"struct with Secret", slog.Any("s", struct{ s Secret }{New(marker)}), nil},
		{"struct", slog.Any("s", credentials{"bob", marker}), "{User:bob Password:" + c + "}"},
		{"struct pointer", slog.Any("s", &credentials{"bob", marker}), "&{User:bob Password:" + c + "}"},
		{"map", slog.Any("m", map[string]string{"password": marker}), "map[password:" + c + "]"},
		{"valuer", slog.Any("v", valuer{slog.GroupValue(slog.String("pin", marker), slog.Any("e", safe{}))}),
			map[string]any{"pin": c, "e": "binding orders: denied"}},
		{"panicking valuer", slog.Any("v", panicValuer{}), "[LogValue panicked]"},
		{"panicking stringer", slog.Any("v", panicStringer{}), "[redact.panicStringer panicked]"},
		{"panicking error", slog.Any("v", (*explosive)(nil)), "error whose text panicked"},
		{"nil", slog.Any("v", nil), nil},
	}
	for _, tc := range cases {
		// The three ways an attribute can reach a handler.
		for way, log := range map[string]func(*slog.Logger){
			"record": func(l *slog.Logger) { l.Info("m", tc.attr) },
			"with":   func(l *slog.Logger) { l.With(tc.attr).Info("m") },
			"group":  func(l *slog.Logger) { l.WithGroup("g").With("x", 1).Info("m", tc.attr) },
		} {
			var out bytes.Buffer
			log(slog.New(Handler(slog.NewJSONHandler(&out, nil))))
			if leaks(out.String(), marker) != "" || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
				t.Errorf("%s, %s: %s", tc.name, way, out.String())
			}
			var m map[string]any
			if err := json.Unmarshal(out.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			if way == "group" {
				m = m["g"].(map[string]any)
			}
			if got := m[tc.attr.Key]; tc.want != nil && fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("%s, %s: got %v, want %v", tc.name, way, got, tc.want)
			}
		}
	}
}

func TestHandlerMessageAndNames(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(Handler(slog.NewTextHandler(&out, nil)))
	l.WithGroup("g\nlevel=ERROR").Info("call\n{\"level\":\"info\"} token="+marker, "k\nlevel=ERROR", "v\n")
	if text := out.String(); leaks(text, marker) != "" || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

func TestHandlerLevel(t *testing.T) {
	h := Handler(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if h.Enabled(context.Background(), slog.LevelInfo) || !h.Enabled(context.Background(), slog.LevelError) {
		t.Error("the level is not the inner handler's")
	}
}

func TestHash(t *testing.T) {
	if a, b := Hash("x"), Hash("y"); len(a) != 12 || a == b || a != Hash("x") {
		t.Errorf("%s %s", a, b)
	}
}

func TestShape(t *testing.T) {
	known := []string{"order", "orderId", "items", "note", "customer_email"}
	in := `{"order":{"order-id":"A1","Customer_Email":"` + marker + `"},"items":[{"note":"x"},{"note":null},{"` + marker + `":true}],"unknown":1.5,"note":{},"order":[]}`
	want := []string{"*: number", "items: array(1-16)", "items[].*: boolean", "items[].note: null", "items[].note: string(1-16)",
		"note: object(0)", "order.customer_email: string(17-64)", "order.orderId: string(1-16)", "order: array(0)"}
	got := Shape([]byte(in), known)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for in, want := range map[string]string{`"x"`: "$: string(1-16)", `[]`: "$: array(0)", `[[1]]`: "$: array(1-16) $[]: array(1-16) $[][]: number", `{}`: "$: object(0)"} {
		if got := strings.Join(Shape([]byte(in), nil), " "); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{"", "x", `{"a":1`, `{"a":1}x`, `{"a":1}{}`, `{"a":}`, `[1}`, `{1:2}`, strings.Repeat("[", 20000)} {
		if got := Shape([]byte(in), known); got != nil {
			t.Errorf("%.20q: %v", in, got)
		}
	}
	var many strings.Builder
	var names []string
	for i := range 5000 {
		fmt.Fprintf(&many, `,"k%d":%d`, i, i)
		names = append(names, fmt.Sprint("k", i))
	}
	if got := Shape([]byte("{"+many.String()[1:]+"}"), names); len(got) != maxShape || !slices.IsSorted(got) {
		t.Errorf("%d paths", len(got))
	}
	deep := strings.Repeat(`{"order":`, 40) + "1" + strings.Repeat("}", 40)
	if got := Shape([]byte(deep), known); len(got) != 1 || !strings.HasSuffix(got[0], ": object") {
		t.Errorf("deep: %v", got)
	}
}
