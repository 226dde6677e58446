package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Introspection is where an issuer tells about its opaque tokens (RFC 7662).
type Introspection struct {
	URL          string                                     // https, or http to loopback
	Authenticate func(form url.Values, h http.Header) error // adds the proof of who asks to one request
	Timeout      time.Duration                              // of one request; 0: 5 s
	Client       *http.Client                               // nil: one with timeouts and without redirects
}

const (
	introspectTimeout = 5 * time.Second
	maxAnswer         = 64 << 10
	goodFor           = 30 * time.Second // how long a revocation at the issuer may go unseen
	badFor            = 5 * time.Second
	maxAsking         = 16 // requests at once, of which
	maxStrangers      = 12 // may be about unknown tokens
	maxUnknown        = 40 // unknown tokens at once, and
	unknownEach       = 50 * time.Millisecond
)

// introspector judges opaque tokens by their issuer's word. Against callers that send junk, each token of which is another: one that
// turns out bad costs a place of maxUnknown, which comes back after unknownEach; a good one costs none, and one that was good before
// needs none. So a flood makes at most twenty requests a second, and leaves alone who is known.
type introspector struct {
	issuer *issuer
	url    string
	prove  func(form url.Values, h http.Header) error
	client *http.Client
	wait   time.Duration
	now    func() time.Time

	mu      sync.Mutex
	answers *lru.Cache[[sha256.Size]byte, *answer] // good ones; kept when they are too old, since a token that was good may be again
	refused *lru.Cache[[sha256.Size]byte, *answer]
	asking  map[[sha256.Size]byte]*question
	strange int // of asking, about unknown tokens
	places  int // of maxUnknown, at the time since
	since   time.Time
}

// answer is what was said of a token.
type answer struct {
	caller *Caller // nil: it is not accepted
	err    error
	until  time.Time
}

// question is one request, shared by all who wait for its answer.
type question struct {
	done   chan struct{}
	caller *Caller
	err    error
}

func newIntrospector(i *issuer, c *Introspection, now func() time.Time) (*introspector, error) {
	if err := checkKeyURL(c.URL, true); err != nil {
		return nil, fmt.Errorf("introspection: %w", err)
	}
	if c.Authenticate == nil || c.Timeout < 0 {
		return nil, errors.New("introspection: needs a proof of who asks, and no negative timeout")
	}
	p := &introspector{
		issuer: i, url: c.URL, prove: c.Authenticate, client: keyClient(c.Client), wait: cmp.Or(c.Timeout, introspectTimeout), now: now,
		asking: map[[sha256.Size]byte]*question{}, places: maxUnknown, since: now(),
	}
	var err1, err2 error
	p.answers, err1 = lru.New[[sha256.Size]byte, *answer](cacheEntries)
	p.refused, err2 = lru.New[[sha256.Size]byte, *answer](cacheEntries)
	return p, errors.Join(err1, err2)
}

// isOpaque tells what only its issuer can read from what looks like a JWT, which is judged by its signature and by nothing else: who
// sends one that is forged must not get another opinion.
func isOpaque(token string) bool {
	return strings.Count(token, ".") != 2 && !strings.HasPrefix(token, "eyJ")
}

// verify is Verify for opaque tokens, with the token's hash as the key.
func (p *introspector) verify(ctx context.Context, key [sha256.Size]byte, token string) (*Caller, error) {
	q, a := p.ask(key, token)
	switch {
	case a != nil:
		return a.caller, a.err
	case q == nil:
		return nil, fmt.Errorf("%w: too many unknown tokens", ErrUnavailable)
	}
	select {
	case <-q.done:
		return q.caller, q.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// ask returns the answer that is held, or else the question that is under way or begins; neither when there is no place for it.
func (p *introspector) ask(key [sha256.Size]byte, token string) (*question, *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	held, known := p.answers.Get(key)
	if known && now.Before(held.until) {
		return nil, held
	}
	if bad, ok := p.refused.Get(key); ok && now.Before(bad.until) {
		return nil, bad
	}
	if q := p.asking[key]; q != nil {
		return q, nil
	}
	if back := now.Sub(p.since) / unknownEach; back > 0 {
		p.places, p.since = min(maxUnknown, p.places+int(min(back, maxUnknown))), now
	}
	if len(p.asking) >= maxAsking || !known && (p.places == 0 || p.strange >= maxStrangers) {
		return nil, nil
	}
	if !known {
		p.places--
		p.strange++
	}
	q := &question{done: make(chan struct{})}
	p.asking[key] = q
	go p.run(q, key, token, now, !known)
	return q, nil
}

// run makes one request. It belongs to no caller: one that gives up must not fail it for the others.
func (p *introspector) run(q *question, key [sha256.Size]byte, token string, began time.Time, took bool) {
	ctx, cancel := context.WithTimeout(context.Background(), p.wait)
	defer cancel()
	q.caller, q.err = p.introspect(ctx, token, began)
	if q.err == nil {
		q.caller.TokenHash = key
	}
	var bad *InvalidError
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case q.err == nil:
		p.answers.Add(key, &answer{caller: q.caller, until: earlier(began.Add(goodFor), q.caller.Expiry)})
		if took {
			p.places = min(maxUnknown, p.places+1)
		}
	case errors.As(q.err, &bad):
		p.answers.Remove(key)
		p.refused.Add(key, &answer{err: q.err, until: p.now().Add(badFor)})
	}
	if took {
		p.strange--
	}
	delete(p.asking, key)
	close(q.done)
}

// introspect asks, and judges the answer as the claims of a JWT are judged. The errors quote nothing of an answer and no URL.
func (p *introspector) introspect(ctx context.Context, token string, now time.Time) (caller *Caller, err error) {
	// As with keys: nobody else would catch a parser's panic on hostile bytes.
	defer func() {
		if recover() != nil {
			caller, err = nil, fmt.Errorf("%w: the answer cannot be read", ErrUnavailable)
		}
	}()
	body, err := p.post(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("%w: introspection: %w", ErrUnavailable, err)
	}
	doc, err := parseObject(body)
	switch {
	case errors.Is(err, errDuplicate):
		return nil, invalid("claim")
	case err != nil:
		return nil, fmt.Errorf("%w: introspection: %w", ErrUnavailable, err)
	}
	return p.issuer.judgeAnswer(doc, now)
}

func (p *introspector) post(ctx context.Context, token string) ([]byte, error) {
	form, header := url.Values{}, http.Header{}
	if err := p.prove(form, header); err != nil {
		return nil, errors.New("the client cannot prove who it is")
	}
	form.Set("token", token)
	form.Set("token_type_hint", "access_token")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	req.GetBody = nil // or net/http sends it again where a connection broke, proof and all
	req.Header = header
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return answerTo(p.client, req, maxAnswer)
}

// judgeAnswer is the strict pass over an introspection's answer (RFC 7662, section 2.2).
func (i *issuer) judgeAnswer(doc object, now time.Time) (*Caller, error) {
	if doc.hasVariant(answered...) {
		return nil, invalid("claim")
	}
	switch string(doc["active"]) {
	case "true":
	case "false":
		return nil, invalid("inactive")
	default:
		return nil, invalid("claim")
	}
	if value := doc["iss"]; value != nil {
		if iss, _ := asString(value); iss != i.url {
			return nil, invalid("issuer")
		}
	}
	if value := doc["token_type"]; value != nil {
		kind, ok := asString(value)
		switch {
		case ok && strings.EqualFold(kind, "DPoP"):
			return nil, invalid("bound")
		case !ok || !strings.EqualFold(kind, "Bearer"):
			return nil, invalid("type")
		}
	}
	// Ory Hydra's word: a refresh token is active, too.
	if value := doc["token_use"]; value != nil {
		if use, _ := asString(value); use != "access_token" {
			return nil, invalid("type")
		}
	}
	// Who may act for the subject (RFC 8693, section 4.4) is judged where the token is exchanged, by the token's own text, which has none.
	if doc["may_act"] != nil {
		return nil, invalid("claim")
	}
	if doc["azp"] == nil && doc["client_id"] != nil {
		doc["azp"] = doc["client_id"] // which it is called in an answer
	}
	return i.judge(doc, now)
}

// answered are the members of an answer that are read besides claims.
var answered = []string{"active", "token_type", "token_use", "client_id", "may_act"}
