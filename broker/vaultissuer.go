package broker

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/redact"
)

// vault is the issuer of secrets from Vault or OpenBao.
type vault struct {
	binding  string
	conf     Vault
	ep       *endpoint
	file     *watched[line] // nil: the caller's token
	sessions *sessions
	leases   leases
	now      func() time.Time
}

func newVault(binding string, c Vault, in *opening) (*vault, error) {
	is := &vault{binding: binding, conf: c, now: in.now, sessions: newSessions()}
	is.leases.after = time.AfterFunc
	if c.TokenFile != "" {
		is.file = watchLine(c.TokenFile)
		if _, err := is.file.get(); err != nil {
			return nil, fileProblem("auth tokenFile", c.TokenFile, err)
		}
	}
	var err error
	is.ep, err = in.endpoints.get(place{url: c.Address, caFile: c.CAFile}, in.now)
	return is, err
}

// proof is the JWT of the login: the caller's or the workload's.
func (is *vault) proof(s *Subject) (line, error) {
	switch {
	case s.Subject == "" || s.Tool == "":
		return line{}, newError(is.binding, NoIdentity)
	case is.conf.Caller && s.Token.IsZero():
		return line{}, newError(is.binding, NoSubjectToken)
	case is.conf.Caller:
		return line{s.Token, hash(s.Token.Reveal())}, nil
	}
	l, err := is.file.get()
	if err != nil {
		return line{}, newError(is.binding, SecretUnreadable)
	}
	return l, nil
}

// Key is which secret it is, and by whose token it was read.
func (is *vault) Key(s Subject) (Key, error) {
	proof, err := is.proof(&s)
	if err != nil {
		return Key{}, err
	}
	c := &is.conf
	return Key{Binding: is.binding, Audience: c.url(), Resource: strings.Join([]string{c.Field, c.UserField, c.PasswordField}, " "), Workload: proof.hash}, nil
}

// Issue reads the secret, with one retry at most, and one more login where the token is not taken any more.
func (is *vault) Issue(ctx context.Context, s Subject) (*Credential, error) {
	proof, err := is.proof(&s)
	if err != nil {
		return nil, err
	}
	return is.ep.issue(ctx, is.binding, func() (*Credential, *Error) { return is.attempt(ctx, proof) })
}

func (is *vault) attempt(ctx context.Context, proof line) (*Credential, *Error) {
	ctx, cancel := context.WithTimeout(ctx, is.conf.Timeout)
	defer cancel()
	for again := false; ; again = true {
		token, answer, reason := is.login(ctx, proof)
		start := is.now()
		if reason == "" {
			answer, reason = is.call(ctx, http.MethodGet, is.conf.url(), token.value, nil)
		}
		if reason == "" && answer.status == http.StatusForbidden && !again {
			is.sessions.forget(proof.hash, token) // it has ended there before it did here
			continue
		}
		var c *Credential
		if reason == "" {
			c, reason = is.check(answer, token, start)
		}
		if reason == "" {
			return c, nil
		}
		e := newError(is.binding, reason)
		if e.Temporary {
			e.RetryAfter = answer.retryAfter
		}
		return nil, e
	}
}

// call makes one request of Vault's API. body is JSON, or nil.
func (is *vault) call(ctx context.Context, method, url string, token redact.Secret, body map[string]string) (reply, Reason) {
	h := http.Header{"X-Vault-Request": {"true"}}
	if is.conf.Namespace != "" {
		h.Set("X-Vault-Namespace", is.conf.Namespace)
	}
	if !token.IsZero() {
		h.Set("X-Vault-Token", token.Reveal())
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return reply{}, Internal
		}
		h.Set("Content-Type", "application/json")
	}
	return is.ep.send(ctx, method, url, text, h)
}

// vaultAnswer is what Vault's API answers; warnings and everything else are left out.
type vaultAnswer struct {
	LeaseID       string                    `json:"lease_id"`
	LeaseDuration int64                     `json:"lease_duration"`
	Renewable     bool                      `json:"renewable"`
	Data          map[string]jsontext.Value `json:"data"`
	Auth          *struct {
		ClientToken   string `json:"client_token"`
		LeaseDuration int64  `json:"lease_duration"`
		Renewable     bool   `json:"renewable"`
	} `json:"auth"`
}

// check takes the fields out of an answer.
func (is *vault) check(r reply, token *vaultToken, start time.Time) (*Credential, Reason) {
	if r.status != http.StatusOK {
		return nil, vaultRefusal(r)
	}
	var ans vaultAnswer
	if err := json.Unmarshal(r.body, &ans); err != nil {
		return nil, BadAnswer
	}
	data := ans.Data
	if is.conf.Mount != "" {
		data = nil
		if err := json.Unmarshal(ans.Data["data"], &data); err != nil {
			return nil, BadAnswer
		}
	}
	ref := Ref{Binding: is.binding, Kind: "vault", Audience: is.conf.url()}
	if is.conf.Mount == "" {
		if ans.LeaseID == "" || ans.LeaseDuration <= 0 {
			return nil, BadExpiry
		}
		ref.Expires = token.before(start.Add(seconds(ans.LeaseDuration)))
	}
	c, reason := is.credential(ref, data)
	if reason != "" {
		return nil, reason
	}
	c.keep = start.Add(is.conf.MaxTTL)
	if is.conf.Mount == "" {
		c.lease = is.leases.add(is, ans.LeaseID, token, seconds(ans.LeaseDuration), ref.Expires, ans.Renewable)
	}
	return c, ""
}

func (is *vault) credential(ref Ref, data map[string]jsontext.Value) (*Credential, Reason) {
	c := &is.conf
	if c.PasswordField == "" {
		value, ok := fieldOf(data, c.Field)
		if !ok {
			return nil, BadAnswer
		}
		return c.slot().credential(ref, value), ""
	}
	user, ok := c.Username, true
	if c.UserField != "" {
		user, ok = fieldOf(data, c.UserField)
	}
	password, good := fieldOf(data, c.PasswordField)
	if !ok || !good || !isUser(user) {
		return nil, BadAnswer
	}
	return newBasic(ref, user, password), ""
}

// fieldOf returns a field that can be sent: one line of visible ASCII.
func fieldOf(data map[string]jsontext.Value, name string) (string, bool) {
	s, ok := stringOf(data[name])
	if !ok || len(s) > maxValue || strings.ContainsAny(s, "\r\n") {
		return "", false
	}
	_, err := parseLine([]byte(s))
	return s, err == nil
}

// seconds caps what Vault says.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(maxLifetime/time.Second))) * time.Second
}

// vaultRefusal tells apart what Vault says by status; 503 is a sealed or a standby server.
func vaultRefusal(r reply) Reason {
	switch {
	case r.status == http.StatusTooManyRequests:
		return RateLimited
	case r.status >= 500:
		return ServerError
	case r.status == http.StatusNotFound:
		return InvalidTarget
	case r.status < 400:
		return BadAnswer
	}
	return Refused
}
