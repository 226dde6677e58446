package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
)

// CredentialsPath is where a sidecar gets credentials for its own token.
const CredentialsPath = "/v1/sidecar-credentials"

// CredentialsLife is how long credentials are good for.
const CredentialsLife = time.Hour

// CredentialsRequest is the body of a request. The seed of the key stays with the sidecar.
type CredentialsRequest struct {
	PublicKey string `json:"public_key"` // of a NATS user (nkey)
}

// CredentialsAnswer is what a sidecar gets.
type CredentialsAnswer struct {
	JWT     string    `json:"jwt"` // of a NATS user, for the key of the request
	Expires time.Time `json:"expires"`
}

// Credentials gives a sidecar NATS credentials for a token that says who it is. They let it do what every sidecar may.
type Credentials struct {
	// Verify says whose token it is: the name to speak under. ErrIssuerAway: that cannot be told now. Other errors: it is not
	// accepted; their text goes to the log alone.
	Verify func(ctx context.Context, token string) (name string, err error)
	// Issue signs a user. Its errors are the request's, and their text is shown.
	Issue func(name, publicKey string, expires time.Time) (string, error)
	Count func(result string) // of the closed set of CredentialsResults
	Log   *slog.Logger
	Life  time.Duration // 0: CredentialsLife
	Now   func() time.Time

	byAddress, byName throttle
	busy              chan struct{}
}

// ErrIssuerAway is an error of Verify: the issuer's keys cannot be had.
var ErrIssuerAway = errors.New("the issuer's keys cannot be had")

// CredentialsResults are the values that Count is called with. The set is closed; it labels a metric.
var CredentialsResults = [...]string{"ok", "unauthenticated", "invalid", "too_many_requests", "unavailable"}

// Bounds of what is asked. The fleet of a large node restarts behind one address; one sidecar asks once an hour.
const (
	maxCredentialsBody = 1 << 10
	maxBusy            = 64 // signatures that are verified at once

	addressRate, addressBurst = 20, 400 // requests a second
	nameRate, nameBurst       = 0.1, 10
)

// Handler serves CredentialsPath. It is to be called once.
func (c *Credentials) Handler() http.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.byAddress, c.byName = newThrottle(addressRate, addressBurst), newThrottle(nameRate, nameBurst)
	c.busy = make(chan struct{}, maxBusy)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+CredentialsPath, func(w http.ResponseWriter, r *http.Request) {
		answer, err := c.answer(w, r)
		c.Count(credentialsResult(err))
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	return headers(http.NewCrossOriginProtection().Handler(mux))
}

func (c *Credentials) answer(w http.ResponseWriter, r *http.Request) (*CredentialsAnswer, error) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	// Before anything is looked at: a flood must not make us verify signatures.
	if !c.byAddress.allow(address, c.Now()) {
		return nil, errTooMany
	}
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	default:
		return nil, &central.Error{Code: central.Unavailable, Text: "too many ask at once; ask again in a while"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, unauthenticated("a bearer token is needed: the sidecar's own service-account token")
	}
	name, err := c.Verify(r.Context(), token)
	switch {
	case errors.Is(err, ErrIssuerAway):
		c.Log.Error("no sidecar credentials: the issuer's keys cannot be had")
		return nil, &central.Error{Code: central.Unavailable, Text: "the token cannot be verified now"}
	case err != nil:
		c.Log.Warn("sidecar credentials refused", "address", address, "error", err)
		return nil, unauthenticated("the token is not accepted; the control plane's log says why")
	}
	if !c.byName.allow(name, c.Now()) {
		return nil, errTooMany
	}
	return c.issue(w, r, name)
}

func (c *Credentials) issue(w http.ResponseWriter, r *http.Request, name string) (*CredentialsAnswer, error) {
	var q CredentialsRequest
	r.Body = http.MaxBytesReader(w, r.Body, maxCredentialsBody)
	if err := read(r, &q); err != nil {
		return nil, err
	}
	expires := c.Now().Add(cmp.Or(c.Life, CredentialsLife)).UTC().Truncate(time.Second)
	token, err := c.Issue(name, q.PublicKey, expires)
	if err != nil {
		return nil, &central.Error{Code: central.Invalid, Text: err.Error()}
	}
	c.Log.Info("sidecar credentials issued", "name", name, "expires", expires)
	return &CredentialsAnswer{JWT: token, Expires: expires}, nil
}

// TooManyRequests is the code of who asks more often than a sidecar needs to.
const TooManyRequests central.Code = "too_many_requests"

var errTooMany = &central.Error{Code: TooManyRequests, Text: "a sidecar asks once an hour; ask again in a while"}

func (c *Credentials) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errTooMany) || errors.Is(err, &central.Error{Code: central.Unavailable}) {
		w.Header().Set("Retry-After", "10")
	}
	// A client that has not sent its body yet must not hold the connection.
	w.Header().Set("Connection", "close")
	fail(w, err)
}

func credentialsResult(err error) string {
	var e *central.Error
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &e):
		return "invalid" // the body could not be read
	}
	switch e.Code {
	case Unauthenticated, TooManyRequests, central.Unavailable:
		return string(e.Code)
	}
	return "invalid"
}
