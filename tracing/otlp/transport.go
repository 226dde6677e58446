package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const connectTimeout = 5 * time.Second

// newTransport has no proxy, whatever the environment names.
func newTransport(o Options) *http.Transport {
	t := &http.Transport{
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		MaxConnsPerHost:        2,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: connectTimeout},
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialTLS(ctx, network, address, o)
	}
	if o.Protocol == GRPC {
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// dialTLS reads the roots for each connection, so that they can be rotated.
func dialTLS(ctx context.Context, network, address string, o Options) (net.Conn, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if o.Protocol == GRPC {
		conf.NextProtos = []string{"h2"}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conf.ServerName = host
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", o.CAFile)
		}
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout}, Config: conf}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if o.Protocol == GRPC && conn.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
		_ = conn.Close()
		return nil, errNoHTTP2
	}
	return conn, nil
}

var (
	errNoHTTP2     = errors.New("the collector's port does not speak HTTP/2")
	errHeadersForm = errors.New("the headers file has a line that is not name: value")
)

// reserved are the headers that the client sets itself.
var reserved = []string{"Content-Type", "Content-Length", "Content-Encoding", "Te", "Host", "Connection", "Transfer-Encoding", "User-Agent"}

// readHeaders reads a headers file: one "name: value" a line; empty lines and those that begin with # do not count.
func readHeaders(file string) (http.Header, error) {
	h := http.Header{}
	if file == "" {
		return h, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseHeaders(b)
}

// ParseHeaders reads the text of a headers file. Its error quotes nothing of it, since the values are secrets.
func ParseHeaders(text []byte) (http.Header, error) {
	h := http.Header{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || value == "" || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errHeadersForm
		}
		h.Add(name, value)
	}
	for _, name := range reserved {
		if h.Get(name) != "" {
			return nil, fmt.Errorf("the headers file sets %s, which is the exporter's", name)
		}
	}
	return h, nil
}

// retryAfter reads seconds (RFC 9110, section 10.2.3); a date is taken for nothing said.
func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}
