//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

const callPath = "/call"

// callBody is what a tool call sends and gets: 2 KiB of JSON, with a secret and an address of a person in it.
var callBody = func() []byte {
	b := []byte(`{"order":"4711","customer":{"name":"A. Person","customer_email":"someone@example.com"},"api_key":"not-a-real-key-of-anything","items":[`)
	for i := 0; len(b) < 2000; i++ {
		b = fmt.Appendf(b, `{"id":%d,"sku":"SHOP-%05d","name":"An article of the shop","quantity":%d,"price":%d.95,"url":"https://shop.example/articles/%d"},`, 1000+i, 77*i, i%5+1, 10+i, i)
	}
	return append(b[:len(b)-1], "]}"...)
}()

// calls keeps n tunnels busy with tool calls.
func calls(ctx context.Context, l *lab, p *proxy, way string, n, streams int) (sample, error) {
	r := l.route(p, way)
	r.Call = true
	s, err := l.openRoute(r, n)
	if err != nil {
		return nil, err
	}
	return l.repeat(ctx, p, command{Op: "run", Session: s, Kind: "requests", Streams: streams})
}

// caller is requester for tool calls.
func (r *route) caller(t *tunnel) (func() error, error) {
	n := int64(len(callBody))
	if t.h2 == nil {
		request := append([]byte("POST "+callPath+" HTTP/1.1\r\nHost: "+r.Target+"\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.FormatInt(n, 10)+"\r\n\r\n"), callBody...)
		return func() error { return t.get(request, n) }, nil
	}
	return func() error {
		request, err := http.NewRequest(http.MethodPost, "https://"+r.Target+callPath, bytes.NewReader(callBody))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		return t.getH2(request, n)
	}, nil
}

// serveCall reads the call and answers with as much.
func serveCall(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Date"] = nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(callBody)))
	_, _ = w.Write(callBody)
}
