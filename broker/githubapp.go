package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-json-experiment/json"
)

// GitHubApp gives installation access tokens of a GitHub App, each for the named repositories and permissions only.
type GitHubApp struct {
	AppID          int64  // this or ClientID
	ClientID       string // what GitHub recommends
	InstallationID int64
	PrivateKeyFile string   // PEM, RSA
	Repositories   []string // names without the owner; at least one
	Permissions    []string // "contents:read"; at least one
	Scheme         string   // bearer, basic, or empty: basic where git is served, bearer elsewhere
	APIURL         string   // empty: https://api.github.com; of GitHub Enterprise Server https://HOST/api/v3
	CAFile         string   // roots for APIURL; empty: the system's
	MaxTTL         time.Duration
	Timeout        time.Duration
}

func (c *GitHubApp) kind() string { return "github_app" }
func (c *GitHubApp) name() string { return "githubApp" }

func (c *GitHubApp) copy() settings {
	x := *c
	x.Repositories, x.Permissions = slices.Clone(x.Repositories), slices.Clone(x.Permissions)
	return &x
}

func (c *GitHubApp) bind(bd *Binding, in *opening) (*bound, error) {
	bd.GitHubApp = c
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	c.APIURL = strings.TrimRight(orElse(c.APIURL, "https://api.github.com"), "/")
	if err := c.validate(); err != nil {
		return nil, err
	}
	is, err := newGitHubApp(bd.Name, *c, in)
	if err != nil {
		return nil, err
	}
	end := &revoker{binding: bd.Name, ep: is.ep, end: is.revoke, timeout: c.Timeout, now: in.now}
	return &bound{issuer: is, revoker: end, cached: true, maxTTL: c.MaxTTL, deadline: 2*c.Timeout + maxRetryWait}, nil
}

// maxRepositories is GitHub's own limit for one token.
const maxRepositories = 500

var (
	repositoryName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	permissionForm = regexp.MustCompile(`^[a-z][a-z_]{0,63}:(read|write|admin)$`)
)

func (c *GitHubApp) validate() error {
	switch {
	case (c.AppID == 0) == (c.ClientID == ""):
		return errors.New("a GitHub App needs one of appID and clientID")
	case c.AppID < 0 || c.InstallationID <= 0:
		return errors.New("a GitHub App needs an installationID, and no id is negative")
	case len(c.Repositories) == 0 || len(c.Repositories) > maxRepositories:
		return fmt.Errorf("repositories must name 1 to %d", maxRepositories)
	case len(c.Permissions) == 0:
		return errors.New("permissions must name at least one")
	case c.Scheme != "" && c.Scheme != "bearer" && c.Scheme != "basic":
		return fmt.Errorf("scheme %q is neither bearer nor basic", c.Scheme)
	case c.MaxTTL < 0 || c.Timeout < 0:
		return errors.New("maxTTL and timeout must not be negative")
	}
	seen := map[string]bool{}
	for _, r := range c.Repositories {
		if !repositoryName.MatchString(r) || seen[strings.ToLower(r)] {
			return fmt.Errorf("repositories: %q is not a name without its owner, or is named twice", r)
		}
		seen[strings.ToLower(r)] = true
	}
	for _, p := range c.Permissions {
		name, _, _ := strings.Cut(p, ":")
		if !permissionForm.MatchString(p) || seen[name+":"] {
			return fmt.Errorf("permissions: %q is not of the form contents:read, or is named twice", p)
		}
		seen[name+":"] = true
	}
	return checkURL("apiURL", c.APIURL)
}

// gitHubApp is the issuer of installation access tokens.
type gitHubApp struct {
	binding string
	conf    GitHubApp
	ep      *endpoint
	key     *watched[jose.SigningKey]
	now     func() time.Time
	url     string // of the installation
	asked   map[string]string
	scopes  string // the permissions, sorted and joined
	body    []byte
}

func newGitHubApp(binding string, c GitHubApp, in *opening) (*gitHubApp, error) {
	is := &gitHubApp{binding: binding, conf: c, now: in.now, asked: map[string]string{}}
	is.url = c.APIURL + "/app/installations/" + strconv.FormatInt(c.InstallationID, 10)
	is.key = &watched[jose.SigningKey]{path: c.PrivateKeyFile, parse: parseRSAKey}
	if _, err := is.key.get(); err != nil {
		return nil, fileProblem("privateKeyFile", c.PrivateKeyFile, err)
	}
	for _, p := range c.Permissions {
		name, level, _ := strings.Cut(p, ":")
		is.asked[name] = level
	}
	is.scopes, _ = joinScopes(c.Permissions)
	var err error
	is.body, err = json.Marshal(map[string]any{"repositories": c.Repositories, "permissions": is.asked}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	is.ep, err = in.endpoints.get(place{url: c.APIURL, caFile: c.CAFile}, in.now)
	return is, err
}

// parseRSAKey takes the only kind of key that GitHub gives out.
func parseRSAKey(b []byte) (jose.SigningKey, error) {
	key, err := parseKey(b)
	if err == nil && key.Algorithm != jose.RS256 {
		return jose.SigningKey{}, errors.New("holds a key that is not RSA")
	}
	return key, err
}

// assertion is the App's own proof. GitHub takes none of more than 10 minutes, and advises to begin it 60 s early for clocks.
func (is *gitHubApp) assertion() (string, error) {
	key, err := is.key.get()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", errors.New("cannot sign")
	}
	now := is.now()
	return jwt.Signed(signer).Claims(map[string]any{
		"iss": orElse(is.conf.ClientID, strconv.FormatInt(is.conf.AppID, 10)),
		"iat": now.Add(-time.Minute).Unix(),
		"exp": now.Add(8 * time.Minute).Unix(), // two less than what is allowed, for a clock that is ahead
	}).Serialize()
}

// Key is for what the token is; in whose name the configuration says.
func (is *gitHubApp) Key(s Subject) (Key, error) {
	if s.Subject == "" || s.Tool == "" {
		return Key{}, newError(is.binding, NoIdentity)
	}
	return Key{Binding: is.binding, Audience: is.url, Resource: strings.Join(is.conf.Repositories, " "), Scopes: is.scopes}, nil
}

// Issue asks for a token, with one retry at most.
func (is *gitHubApp) Issue(ctx context.Context, s Subject) (*Credential, error) {
	if s.Subject == "" || s.Tool == "" {
		return nil, newError(is.binding, NoIdentity)
	}
	return is.ep.issue(ctx, is.binding, func() (*Credential, *Error) { return is.attempt(ctx) })
}

func (is *gitHubApp) attempt(ctx context.Context) (*Credential, *Error) {
	ctx, cancel := context.WithTimeout(ctx, is.conf.Timeout)
	defer cancel()
	proof, err := is.assertion()
	if err != nil {
		return nil, newError(is.binding, SecretUnreadable)
	}
	h := gitHubHeader(proof)
	h.Set("Content-Type", "application/json")
	answer, reason := is.ep.send(ctx, http.MethodPost, is.url+"/access_tokens", is.body, h)
	var c *Credential
	if reason == "" {
		c, reason = is.check(answer)
	}
	if reason != "" {
		e := newError(is.binding, reason)
		if e.Temporary {
			e.RetryAfter = answer.retryAfter
		}
		return nil, e
	}
	return c, nil
}

func gitHubHeader(token string) http.Header {
	return http.Header{
		"Authorization": {"Bearer " + token}, "Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"},
	}
}

// installationToken is GitHub's answer.
type installationToken struct {
	Token        string            `json:"token"`
	ExpiresAt    string            `json:"expires_at"`
	Permissions  map[string]string `json:"permissions"`
	Selection    string            `json:"repository_selection"`
	Repositories []struct {
		Name string `json:"name"`
	} `json:"repositories"`
}

// check holds the answer against what was asked: GitHub gives a token for every repository of the installation to whoever does not
// say, or spells, which.
func (is *gitHubApp) check(r reply) (*Credential, Reason) {
	if r.status != http.StatusCreated {
		return nil, gitHubRefusal(r)
	}
	var ans installationToken
	if err := json.Unmarshal(r.body, &ans); err != nil || !isToken(ans.Token) || ans.Repositories == nil && ans.Selection != "all" {
		return nil, BadAnswer
	}
	expires, err := time.Parse(time.RFC3339, ans.ExpiresAt)
	if err != nil {
		return nil, BadExpiry
	}
	if latest := is.now().Add(maxLifetime); expires.After(latest) { // one that is over the broker refuses
		expires = latest
	}
	if reason := is.compare(&ans); reason != "" {
		return nil, reason
	}
	ref := Ref{Binding: is.binding, Kind: "github_app", Audience: is.url, Scopes: strings.Fields(is.scopes), Expires: expires}
	return newGitHubCredential(ref, is.conf.Scheme, ans.Token), ""
}

func (is *gitHubApp) compare(ans *installationToken) Reason {
	wanted, got := map[string]bool{}, map[string]bool{}
	for _, name := range is.conf.Repositories {
		wanted[strings.ToLower(name)] = true
	}
	for _, r := range ans.Repositories {
		name := strings.ToLower(r.Name)
		if !wanted[name] {
			return WiderScope
		}
		got[name] = true
	}
	switch {
	case ans.Selection == "all":
		return WiderScope
	case len(got) < len(wanted):
		return NarrowerScope
	}
	for name, level := range ans.Permissions {
		implied := name == "metadata" && level == "read" // comes with every other
		if !implied && (levels[level] == 0 || levels[level] > levels[is.asked[name]]) {
			return WiderScope
		}
	}
	for name, level := range is.asked {
		if levels[ans.Permissions[name]] < levels[level] {
			return NarrowerScope
		}
	}
	return ""
}

var levels = map[string]int{"read": 1, "write": 2, "admin": 3}

// gitHubRefusal tells apart what GitHub says by status. It limits rates by 403 as well as by 429.
func gitHubRefusal(r reply) Reason {
	switch {
	case r.status == http.StatusTooManyRequests, r.status == http.StatusForbidden && r.retryAfter > 0:
		return RateLimited
	case r.status >= 500:
		return ServerError
	case r.status == http.StatusUnauthorized:
		return InvalidClient
	case r.status == http.StatusNotFound:
		return InvalidTarget
	case r.status == http.StatusUnprocessableEntity:
		return InvalidScope
	case r.status < 400:
		return BadAnswer
	}
	return Refused
}

// revoke ends a token, which is its own proof. One that is not known any more has ended: the tool may have seen to that itself, and it must not
// tell against the App's own key.
func (is *gitHubApp) revoke(ctx context.Context, v revocation) (Reason, time.Duration) {
	answer, reason := is.ep.exchange(ctx, http.MethodDelete, is.conf.APIURL+"/installation/token", nil, gitHubHeader(v.token.Reveal()))
	if reason == "" && answer.status == http.StatusUnauthorized {
		answer.status = http.StatusNoContent
	}
	is.ep.tell(ctx, answer, reason)
	if reason != "" {
		return reason, 0
	}
	return ended(answer)
}
