package broker

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// GCP is an access token of Google Cloud by workload identity federation: a token is exchanged at Google's STS, and what comes of it is
// used as itself, or to ask for a token of a service account.
type GCP struct {
	Provider         string        // //iam.googleapis.com/projects/…/providers/…
	ServiceAccount   string        // its e-mail address; empty: the federated identity itself
	Scopes           []string      // of the token, exactly; not empty
	Lifetime         time.Duration // of a service account's token; 0: 15 min
	SubjectTokenFile string        // the workload's token; empty: the caller's own
	SubjectTokenType string        // empty: urn:ietf:params:oauth:token-type:jwt
	STSURL           string        // https; http only at a literal loopback address; empty: Google's
	IAMURL           string        // likewise, without a path, of the IAM Service Account Credentials API; empty: Google's
	CAFile           string        // roots for both; empty: the system's
	MaxTTL           time.Duration // cap of a cached token's life; 0: 15 min
	Timeout          time.Duration // of one attempt; 0: 10 s
}

const (
	googleSTS = "https://sts.googleapis.com/v1/token"
	googleIAM = "https://iamcredentials.googleapis.com"

	// googleAny is what a federated token must be good for to ask for a service account's; it does not leave the sidecar.
	googleAny = "https://www.googleapis.com/auth/cloud-platform"
)

func (c *GCP) kind() string { return "gcp" }
func (c *GCP) name() string { return "gcp" }

func (c *GCP) copy() settings {
	x := *c
	x.Scopes = slices.Clone(x.Scopes)
	return &x
}

func (c *GCP) bind(bd *Binding, in *opening) (*bound, error) {
	bd.GCP = c
	c.Lifetime = orElse(c.Lifetime, 15*time.Minute)
	c.SubjectTokenType = orElse(c.SubjectTokenType, typeJWT)
	c.STSURL, c.IAMURL = orElse(c.STSURL, googleSTS), orElse(c.IAMURL, googleIAM)
	c.MaxTTL = orElse(c.MaxTTL, 15*time.Minute)
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is := &googleTokens{
		tokenClient: tokenClient{binding: bd.Name, auth: publicClient(""), timeout: c.Timeout, now: in.now}, conf: *c,
	}
	is.scopes, _ = joinScopes(c.Scopes)
	var err error
	if is.subject, err = newFederated(c.SubjectTokenFile); err != nil {
		return nil, err
	}
	if is.ep, err = in.endpoints.get(place{url: c.STSURL, caFile: c.CAFile}, in.now); err != nil {
		return nil, err
	}
	deadline := 2*c.Timeout + maxRetryWait
	if c.ServiceAccount != "" {
		of := c.IAMURL + "/v1/projects/-/serviceAccounts/" + url.PathEscape(c.ServiceAccount) + ":generateAccessToken"
		if is.account, err = in.endpoints.get(place{url: of, caFile: c.CAFile}, in.now); err != nil {
			return nil, err
		}
		deadline *= 2
	}
	return &bound{issuer: is, cached: true, maxTTL: c.MaxTTL, deadline: deadline}, nil
}

// provider is the full name of a provider of a pool, of workloads or of a workforce.
var provider = regexp.MustCompile(`^//iam\.[a-z0-9.-]+/(projects/[a-z0-9:.-]+/)?locations/[a-z0-9-]+/(workloadIdentityPools|workforcePools)/[a-z0-9-]+/providers/[a-z0-9-]+$`)

// serviceAccount is an address of one, which goes into a path.
var serviceAccount = regexp.MustCompile(`^[a-z0-9-]+@[a-z0-9.-]+$`)

func (c *GCP) validate() error {
	if err := checkURL("stsURL", c.STSURL); err != nil {
		return err
	}
	if err := checkURL("iamURL", c.IAMURL); err != nil {
		return err
	}
	if u, err := url.Parse(c.IAMURL); err != nil || u.Path != "" || u.RawQuery != "" || strings.HasSuffix(c.IAMURL, "?") {
		return errors.New("iamURL must have neither a path nor a query")
	}
	switch {
	case !provider.MatchString(c.Provider):
		return errors.New("provider is not the full name of one, such as //iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/p")
	case c.ServiceAccount != "" && !serviceAccount.MatchString(c.ServiceAccount):
		return fmt.Errorf("serviceAccount %q is not the address of one, such as orders@project.iam.gserviceaccount.com", c.ServiceAccount)
	case len(c.Scopes) == 0:
		return errors.New("scopes must name at least one")
	case c.Lifetime < time.Second || c.Lifetime > 12*time.Hour:
		return errors.New("lifetime is not between 1 s and 12 h")
	case c.MaxTTL < 0 || c.Timeout < 0:
		return errors.New("maxTTL and timeout must not be negative")
	}
	if _, ok := joinScopes(c.Scopes); !ok {
		return errors.New("scopes holds what is no scope")
	}
	return nil
}
