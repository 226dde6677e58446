package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestAnswersAsNetHTTP: what a client gets of an answer is what net/http's server would send.
func TestAnswersAsNetHTTP(t *testing.T) {
	long := strings.Repeat("0123456789", 5000)
	for name, handler := range map[string]http.HandlerFunc{
		"nothing":       func(http.ResponseWriter, *http.Request) {},
		"a status":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"an odd status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) },
		"no content": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(204)
		},
		"not modified": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(304)
		},
		"a length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		},
		"a long body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(long)))
			_, _ = io.WriteString(w, long)
		},
		"too little": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "hello")
		},
		"too much": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "hel")
			_, _ = io.WriteString(w, "lo")
		},
		"no length": func(w http.ResponseWriter, _ *http.Request) {
			flush(w)
			_, _ = io.WriteString(w, "hello")
			flush(w)
			_, _ = w.Write(nil)
			_, _ = io.WriteString(w, long)
		},
		"close": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ok")
		},
		"lines in lines": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X"] = []string{"a\r\nY: b"}
			w.Header()["Z\r\nQ"] = []string{"c"}
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "x")
			w.WriteHeader(103)
			w.Header().Del("Link")
			w.WriteHeader(200)
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Trailer"] = []string{"A", "B"}
			flush(w)
			_, _ = io.WriteString(w, "hello")
			w.Header().Set("A", "1")
			w.Header().Set(http.TrailerPrefix+"C", "3")
		},
		"aborts": func(w http.ResponseWriter, _ *http.Request) {
			flush(w)
			_, _ = io.WriteString(w, "hel")
			flush(w)
			panic(http.ErrAbortHandler)
		},
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				request := method + " / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"
				h := func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Content-Type"] = nil
					w.Header()["Date"] = []string{"today"}
					handler(w, r)
				}
				want, got := byNetHTTP(t, h, request), byH1Client(t, h, request)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("the client gets\n%q, of net/http\n%q", got, want)
				}
			})
		}
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// understood is what a client makes of an answer: each response, its header sorted, and how its connection went on.
func understood(t *testing.T, method string, raw []byte) []string {
	br := bufio.NewReader(bytes.NewReader(raw))
	var all []string
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return append(all, "then "+err.Error())
		}
		body, err := io.ReadAll(res.Body)
		all = append(all, fmt.Sprint(res.Status, res.Header, res.ContentLength, res.TransferEncoding, res.Close, res.Trailer, len(body), err))
	}
}

func byNetHTTP(t *testing.T, h http.HandlerFunc, request string) []string {
	return exchanged(t, request, func(conn net.Conn) {
		ln := &oneConn{conn: conn, over: make(chan struct{})}
		go func() { _ = http.Serve(ln, h) }()
		t.Cleanup(func() { close(ln.over) })
	})
}

func byH1Client(t *testing.T, h http.HandlerFunc, request string) []string {
	return exchanged(t, request, func(conn net.Conn) {
		k := newH1Client(&innerServer{idle: time.Minute, timeout: time.Minute}, &tunnel{}, "https", conn)
		k.handler = func(_ context.Context, w http.ResponseWriter, r *http.Request) { h(w, r) }
		go func() {
			if early := k.run(); early != nil {
				t.Errorf("%q was handed on", early)
			}
			_ = conn.Close()
		}()
	})
}

// exchanged returns what a client gets that sends two requests and no more.
func exchanged(t *testing.T, request string, serve func(net.Conn)) []string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	serve(conn)
	_ = client.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(client, request+request)
	_ = client.(*net.TCPConn).CloseWrite()
	raw, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	return understood(t, method, raw)
}
