package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxInFlight  = 16      // requests to one endpoint at a time
	maxWaiting   = 128     // requests that wait for that
	maxAnswer    = 1 << 20 // bytes of a body
	maxHeader    = 64 << 10
	maxBundle    = 1 << 20          // bytes of a file of roots
	maxRetryHint = 30 * time.Second // of a Retry-After
)

// endpoints keeps one endpoint for each place, so that bindings share its limits.
type endpoints map[place]*endpoint

// place is a token URL with the files that decide whom we believe there, and as whom we come.
type place struct{ url, caFile, certFile, keyFile string }

// endpoint is a token endpoint with a client of its own: no proxy variables, no redirects (a 307 would send the secrets
// of the form to wherever it points), no cookies.
type endpoint struct {
	url     string
	client  *http.Client
	share   *share
	breaker breaker
	now     func() time.Time
}

func (eps endpoints) get(at place, now func() time.Time) (*endpoint, error) {
	if ep := eps[at]; ep != nil {
		return ep, nil
	}
	roots, err := readRoots(at.caFile)
	if err != nil {
		return nil, fileProblem("caFile", at.caFile, err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if at.certFile != "" {
		cert := newClientCert(at.certFile, at.keyFile)
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.get() }
	}
	ep := &endpoint{
		url:   at.url,
		share: newShare(maxInFlight, maxWaiting),
		now:   now,
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  nil,
				DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
				TLSClientConfig:        conf,
				DisableKeepAlives:      at.certFile != "", // an old connection would go on as whom the old certificate named
				TLSHandshakeTimeout:    10 * time.Second,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true, // a small body must not unfold into a large one
				MaxConnsPerHost:        maxInFlight,
				MaxIdleConnsPerHost:    maxInFlight,
				IdleConnTimeout:        time.Minute,
				MaxResponseHeaderBytes: maxHeader,
			},
		},
	}
	eps[at] = ep
	return ep, nil
}

// readRoots returns nil, the system's roots, for an empty path.
func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	b, _, err := readFile(path, maxBundle)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("holds no PEM certificate")
	}
	return pool, nil
}

// acquire waits for one of the places at the endpoint for the tenant of ctx. It returns why there is none: too many wait, ctx ended
// first, or the endpoint fails.
func (ep *endpoint) acquire(ctx context.Context) Reason {
	tenant := tenantOf(ctx)
	if ep.breaker.pause(tenant, ep.now()) > 0 { // known without waiting
		return BreakerOpen
	}
	if r := ep.share.take(ctx, tenant); r != "" {
		return r
	}
	if !ep.breaker.admit(tenant, ep.now()) {
		ep.share.give(tenant)
		return BreakerOpen
	}
	return ""
}

func (ep *endpoint) release(ctx context.Context) { ep.share.give(tenantOf(ctx)) }

// reply is what came back, whole.
type reply struct {
	status     int
	body       []byte
	retryAfter time.Duration // 0: not said
}

// post sends the form once.
func (ep *endpoint) post(ctx context.Context, form url.Values, h http.Header) (reply, Reason) {
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	h.Set("Accept", "application/json")
	r, reason := ep.send(ctx, http.MethodPost, ep.url, []byte(form.Encode()), h)
	if w, ok := ctx.Value(witnessKey{}).(*witness); ok {
		w.note(ep.url, form, h, r)
	}
	return r, reason
}

// send makes one request, and tells the breaker what that says of the endpoint.
func (ep *endpoint) send(ctx context.Context, method, url string, body []byte, h http.Header) (reply, Reason) {
	r, reason := ep.exchange(ctx, method, url, body, h)
	told := reason
	if reason == "" && r.status >= http.StatusBadRequest {
		told = refusal(r)
	}
	switch told {
	case Timeout, Unreachable, TLS, ServerError, RateLimited, InvalidClient:
		ep.breaker.failed(tenantOf(ctx), r.retryAfter, ep.now())
	case Cancelled, Internal:
		ep.breaker.learnedNothing()
	default:
		ep.breaker.answered()
	}
	return r, reason
}

// exchange keeps transport errors here: their texts quote the URL.
func (ep *endpoint) exchange(ctx context.Context, method, url string, body []byte, h http.Header) (reply, Reason) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return reply{}, Internal
	}
	req.Header = h
	req.Header.Set("User-Agent", "toolgate")
	resp, err := ep.client.Do(req)
	if err != nil {
		return reply{}, transportReason(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return reply{}, transportReason(ctx, err)
	case len(answer) > maxAnswer:
		return reply{}, BadAnswer
	}
	return reply{resp.StatusCode, answer, retryAfter(resp.Header.Get("Retry-After"), ep.now())}, ""
}

func transportReason(ctx context.Context, err error) Reason {
	var (
		timeout   net.Error
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     *net.OpError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return Cancelled
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &authority), errors.As(err, &hostname),
		errors.As(err, &invalid), errors.Is(err, http.ErrSchemeMismatch),
		// crypto/tls gives an alert in a type of its own only to QUIC.
		errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"):
		return TLS
	}
	return Unreachable
}

// retryAfter reads RFC 9110, section 10.2.3: seconds or a date. What cannot be read is as if it were not there.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(maxRetryHint/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryHint)
}

// unasked is the error of a request that acquire has refused.
func (ep *endpoint) unasked(ctx context.Context, binding string, r Reason) *Error {
	e := newError(binding, r)
	if r == BreakerOpen {
		e.RetryAfter = ep.breaker.pause(tenantOf(ctx), ep.now())
	}
	return e
}
