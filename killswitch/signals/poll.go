package signals

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// poller asks one transmitter for its events (RFC 8936), one request at a time.
type poller struct {
	r      *Receiver
	t      *transmitter
	client *http.Client
	wait   func(context.Context, time.Duration) error

	acks []string           // events that had their effect, to be said in the next request
	errs map[string]failure // events that were refused, likewise
	busy time.Duration      // the wait after the newest failure
}

const (
	pollPause  = time.Second // between two polls, when nothing waits at the transmitter
	minPause   = 100 * time.Millisecond
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	maxJTI     = 1024 // bytes of a name in an answer that is repeated to the transmitter
)

// Run polls until ctx ends, and returns then. Transmitters that are not polled cost nothing.
func (r *Receiver) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, t := range r.transmitters {
		if t.config.Poll != nil {
			all.Go(func() { newPoller(r, t).run(ctx) })
		}
	}
	all.Wait()
}

func newPoller(r *Receiver, t *transmitter) *poller {
	return &poller{r: r, t: t, client: pollClient(t.config.Poll), wait: pause, errs: map[string]failure{}}
}

// pollClient follows no redirect, which would carry the token elsewhere, and uses no proxy of the environment.
func pollClient(p *Poll) *http.Client {
	c := http.Client{}
	if p.Client != nil {
		c = *p.Client
	}
	c.Jar = nil
	c.Timeout = cmp.Or(p.Wait, DefaultWait) + 15*time.Second // the transmitter decides how long it holds a request
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	if given, ok := c.Transport.(*http.Transport); ok {
		transport = given.Clone()
	}
	transport.Proxy = nil
	transport.TLSHandshakeTimeout, transport.IdleConnTimeout = 10*time.Second, 30*time.Second
	transport.ResponseHeaderTimeout = c.Timeout
	transport.MaxResponseHeaderBytes = 64 << 10
	c.Transport = transport
	return &c
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (p *poller) run(ctx context.Context) {
	defer p.client.CloseIdleConnections()
	for ctx.Err() == nil {
		next, err := p.once(ctx)
		if ctx.Err() != nil {
			return
		}
		p.report(err)
		if err != nil {
			next = p.backoff()
		} else {
			p.busy = 0
		}
		if p.wait(ctx, next) != nil {
			return
		}
	}
}

// backoff doubles and has jitter, so that many receivers do not come back at once.
func (p *poller) backoff() time.Duration {
	p.busy = min(max(2*p.busy, minBackoff), maxBackoff)
	return p.busy/2 + rand.N(p.busy/2)
}

func (p *poller) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
		p.r.count(p.t.config.Name, "poll", Unavailable)
		p.r.o.Log.Warn("poll for security events", "sender", p.t.config.Name, "error", text)
	}
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	if p.t.state.PollErr = text; err == nil {
		p.t.state.Polled = p.r.now()
	}
}

// asked and answered are the bodies of RFC 8936, sections 2.2 and 2.3.
type asked struct {
	MaxEvents         int                `json:"maxEvents"`
	ReturnImmediately bool               `json:"returnImmediately"`
	Acks              []string           `json:"ack,omitempty"`
	Errs              map[string]failure `json:"setErrs,omitempty"`
}

type answered struct {
	Sets map[string]string `json:"sets"`
	More bool              `json:"moreAvailable"`
}

// once polls and acts on what came. It returns how long to wait before the next poll. What has not had its effect is neither
// acknowledged nor refused, so that the transmitter gives it again, and is an error here.
func (p *poller) once(ctx context.Context) (time.Duration, error) {
	got, err := p.ask(ctx)
	if err != nil {
		return 0, err
	}
	failed := 0
	for _, jti := range slices.Sorted(maps.Keys(got.Sets)) {
		err := p.r.take(ctx, p.t, got.Sets[jti], jti)
		switch {
		case err == nil:
			p.acks = append(p.acks, jti)
		case asRefusal(err).result == Unavailable:
			failed++
		default:
			refused := asRefusal(err)
			p.errs[jti] = failure{refused.code(), refused.text}
		}
	}
	switch {
	case failed > 0:
		return 0, fmt.Errorf("%d events could not take effect", failed)
	case got.More || len(p.acks)+len(p.errs) > 0:
		return minPause, nil // a transmitter that gives the same again and again is not to keep us busy
	}
	return pollPause, nil
}

// ask sends one request and returns a bounded answer. The errors quote neither the answer nor the URL.
func (p *poller) ask(ctx context.Context) (*answered, error) {
	config := p.t.config.Poll
	tokens, err := readTokens(config.TokenFile)
	if err != nil {
		return nil, err
	}
	maxEvents := cmp.Or(config.MaxEvents, DefaultMaxEvents)
	body, err := json.Marshal(asked{MaxEvents: maxEvents, ReturnImmediately: p.busy > 0, Acks: p.acks, Errs: p.errs})
	if err != nil {
		return nil, errors.New("the request cannot be written")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, config.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+tokens[0])
	res, err := p.client.Do(req)
	if err != nil {
		return nil, errors.New("no answer")
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	got, err := readAnswer(res, maxEvents)
	if err != nil {
		return nil, err
	}
	p.acks, p.errs = nil, map[string]failure{} // the transmitter has heard them
	return got, nil
}

func readAnswer(res *http.Response, maxEvents int) (*answered, error) {
	if media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errors.New("the answer is not application/json")
	}
	limit := int64(maxEvents)*(maxSET+maxJTI) + 4<<10
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, errors.New("the answer broke off")
	}
	if int64(len(b)) > limit {
		return nil, errors.New("the answer is too large")
	}
	var got answered
	if json.Unmarshal(b, &got) != nil {
		return nil, errors.New("the answer is not as RFC 8936 says")
	}
	// It may send more than was asked for (RFC 8936, section 2.2), within the bound above.
	for jti := range got.Sets {
		if len(jti) > maxJTI {
			return nil, errors.New("the answer has a name that is too long")
		}
	}
	return &got, nil
}
