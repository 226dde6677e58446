package redact

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
)

// Handler wraps h so that every message and attribute passes through this package first: strings through Text,
// errors through Error, http.Header through Headers, URLs through URL, attributes whose key names a secret masked. Bytes
// become a length and a hash; any other type is printed as %+v prints it and goes through Text.
func Handler(h slog.Handler) slog.Handler { return &handler{h} }

type handler struct{ next slog.Handler }

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	safe := slog.NewRecord(r.Time, r.Level, Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(safeAttr(a))
		return true
	})
	return h.next.Handle(ctx, safe)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	safe := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		safe[i] = safeAttr(a)
	}
	return &handler{h.next.WithAttrs(safe)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(Text(name))}
}

func safeAttr(a slog.Attr) slog.Attr {
	if a.Equal(slog.Attr{}) {
		return a // handlers leave out the empty attribute
	}
	if a.Value.Kind() == slog.KindLogValuer {
		if safe, ok := a.Value.LogValuer().(safeHeaders); ok {
			return slog.Attr{Key: Text(a.Key), Value: safe.LogValue()}
		}
	}
	v := a.Value.Resolve() // contains a panic of LogValue, and returns an error that tells of it
	if secretName(a.Key) {
		return slog.String(Text(a.Key), namedSecret(normalise(a.Key), v))
	}
	return slog.Attr{Key: Text(a.Key), Value: safeValue(v)}
}

// namedSecret masks the value of an attribute that is named like a credential.
func namedSecret(key string, v slog.Value) string {
	if v.Kind() == slog.KindString {
		switch {
		case strings.HasSuffix(key, "authorization"):
			return authorization(v.String())
		case key == "cookie":
			return cookies(v.String())
		case key == "setcookie":
			return setCookie(v.String())
		}
	}
	return placeholder
}

func safeValue(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(Text(v.String()))
	case slog.KindGroup:
		group := v.Group()
		safe := make([]slog.Attr, len(group))
		for i, a := range group {
			safe[i] = safeAttr(a)
		}
		return slog.GroupValue(safe...)
	case slog.KindAny:
		return safeAny(v.Any())
	}
	return v // numbers, booleans, times and durations
}

// panicked is how slog begins the error that stands for a LogValue method that panicked; what follows is a stack.
const panicked = "LogValue panicked"

func safeAny(x any) slog.Value {
	switch x := x.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		if text := Error(x); !strings.HasPrefix(text, panicked) {
			return slog.StringValue(text)
		}
		return slog.StringValue("[" + panicked + "]")
	case Excerpt:
		return slog.StringValue(x.text)
	case http.Header:
		return Headers(x)
	case *url.URL:
		if x == nil {
			return slog.StringValue("<nil>")
		}
		return slog.StringValue(URL(x.String()))
	case url.URL:
		return slog.StringValue(URL(x.String()))
	case *http.Request:
		return request(x)
	case *http.Response:
		return response(x)
	case []byte:
		return slog.StringValue(bytesText(x))
	}
	return slog.StringValue(printed(x))
}

func bytesText(b []byte) string {
	return fmt.Sprintf("[%d bytes hmac=%s]", len(b), hash(b))
}

// request and response are shown by what is known to be safe, since %+v would print their headers.
func request(r *http.Request) slog.Value {
	if r == nil || r.URL == nil {
		return slog.StringValue("<request>")
	}
	return slog.StringValue(Text(r.Method) + " " + URL(r.URL.String()))
}

func response(r *http.Response) slog.Value {
	if r == nil {
		return slog.StringValue("<response>")
	}
	return slog.StringValue(fmt.Sprintf("<response %d>", r.StatusCode))
}

// printed is the text of a value of any other type. fmt contains the panics of String methods but prints their values.
// Bytes it prints as numbers, in which no secret would be recognised, so a type that holds bytes shows its name alone.
func printed(x any) string {
	switch x.(type) {
	case fmt.Stringer, fmt.Formatter: // such as net.IP
	default:
		if text := bytesWithin(x); text != "" {
			return text
		}
	}
	s := fmt.Sprintf("%+v", x)
	if strings.Contains(s, "(PANIC=") {
		return fmt.Sprintf("[%T panicked]", x)
	}
	return Text(s)
}

func bytesWithin(x any) string {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return bytesText(v.Bytes())
	}
	if holdsBytes(v.Type(), 0) {
		return fmt.Sprintf("[%T]", x)
	}
	return ""
}

// maxTypeDepth bounds the walk through a type, which may contain itself.
const maxTypeDepth = 5

func holdsBytes(t reflect.Type, depth int) bool {
	if depth > maxTypeDepth {
		return false // fmt shows pointers inside a value as addresses
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() == reflect.Uint8 || holdsBytes(t.Elem(), depth+1)
	case reflect.Pointer:
		return depth == 0 && holdsBytes(t.Elem(), depth+1)
	case reflect.Map:
		return holdsBytes(t.Key(), depth+1) || holdsBytes(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsBytes(t.Field(i).Type, depth+1) {
				return true
			}
		}
	}
	return false
}
