package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central/api"
)

// The environment stands in for flags that are not given.
const (
	envServer = "TOOLGATE_KILLSWITCH_SERVER"
	envToken  = "TOOLGATE_KILLSWITCH_TOKEN_FILE"
	envCA     = "TOOLGATE_KILLSWITCH_CA_FILE"
)

const defaultServer = "http://127.0.0.1:15030"

// remote is the control plane that a command talks to.
type remote struct{ server, tokenFile, caFile string }

// remoteFlags adds --server, --token-file and --ca-file.
func remoteFlags(cmd *cobra.Command) *remote {
	r := &remote{}
	f := cmd.Flags()
	f.StringVar(&r.server, "server", "", "the control plane's `URL` (or "+envServer+"; default "+defaultServer+")")
	f.StringVar(&r.tokenFile, "token-file", "", "a `file` that holds your token (or "+envToken+")")
	f.StringVar(&r.caFile, "ca-file", "", "a `file` with the CA certificates that the server's is verified with (or "+envCA+"; default the system's)")
	return r
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// client speaks to the API as one principal.
type client struct {
	base, token string
	http        *http.Client
}

// dial reads the token and prepares the client. It does not connect yet.
func (r *remote) dial() (*client, error) {
	base := strings.TrimSuffix(or(r.server, os.Getenv(envServer), defaultServer), "/")
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("found server %q, expected a URL such as https://killswitch.example", base)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("found server %q, expected https: a token does not go over a network in the clear", base)
	}
	c := &client{base: base, http: &http.Client{Transport: &http.Transport{TLSHandshakeTimeout: 10 * time.Second}}}
	if name := or(r.tokenFile, os.Getenv(envToken)); name != "" {
		b, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return nil, cli.Wrong(fmt.Errorf("the token: %w", err))
		}
		c.token = strings.TrimSpace(string(b))
		if len(strings.Fields(c.token)) != 1 {
			return nil, cli.Wrong(fmt.Errorf("the file %s does not hold one token and nothing else", name))
		}
	} else {
		return nil, fmt.Errorf("found no token, expected --token-file or %s", envToken)
	}
	if name := or(r.caFile, os.Getenv(envCA)); name != "" {
		pem, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return nil, cli.Wrong(fmt.Errorf("the CA file: %w", err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, cli.Wrong(fmt.Errorf("the CA file %s holds no certificate", name))
		}
		c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return c, nil
}

// requestTime bounds a request that is not a stream.
const requestTime = 45 * time.Second

// do sends in as JSON, if it is not nil, and reads the answer into out. A refusal is a wrong with the problem's text.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var body io.Reader
	media := ""
	switch v := in.(type) {
	case nil:
	case io.Reader:
		body, media = v, "application/x-ndjson"
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return cli.Wrong(err)
		}
		body, media = bytes.NewReader(b), "application/json"
	}
	res, err := c.send(ctx, method, path, media, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return cli.Wrong(fmt.Errorf("the control plane's answer: %w", err))
	}
	return nil
}

// send returns a response of status 200; its body is the caller's to close.
func (c *client) send(ctx context.Context, method, path, media string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, cli.Wrong(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, cli.Wrong(&unreached{err})
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	p := &refused{}
	if json.Unmarshal(b, &p.Problem) != nil || p.Code == "" {
		return nil, cli.Wrong(fmt.Errorf("the server answered %s, and not as a control plane does", res.Status))
	}
	return nil, cli.Wrong(p)
}

// refused is the control plane's no.
type refused struct{ api.Problem }

func (r *refused) Error() string {
	text := string(r.Code) + ": " + r.Detail
	if e := r.Entry; e != nil {
		text += fmt.Sprintf("\n  revision %d: %s %s by %s at %s", e.Revision, e.Op, e.ID, e.By, stamp(e.At))
	}
	return text
}

// unreached is a request without an answer.
type unreached struct{ error }

func (u *unreached) Error() string { return "the control plane was not reached: " + u.error.Error() }
func (u *unreached) Unwrap() error { return u.error }

// isUnreached reports whether the same request may be sent again: there was no answer.
func isUnreached(err error) bool {
	var u *unreached
	return errors.As(err, &u)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}
