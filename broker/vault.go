package broker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Vault gives a secret that HashiCorp Vault or OpenBao keeps (KV version 2) or makes (dynamic, with a lease).
type Vault struct {
	Address   string // https; http only at a literal loopback address
	Namespace string // X-Vault-Namespace; empty: the root

	AuthPath  string // where the JWT method is mounted; empty: jwt
	Role      string
	Caller    bool   // the caller's token is the login's JWT; else TokenFile's
	TokenFile string // the workload's token

	Mount         string // of KV version 2; empty: Path is of an engine that makes secrets
	Path          string
	Field         string // the value; or
	UserField     string // the user for Basic, or Username
	Username      string
	PasswordField string

	Header, Prefix, Query string // as Static's; not with PasswordField

	CAFile  string        // roots for Address; empty: the system's
	MaxTTL  time.Duration // how long a secret is kept; 0: 1 min of KV, 1 h of a lease, which is renewed meanwhile
	Timeout time.Duration // of one attempt; 0: 10 s
}

func (c *Vault) kind() string { return "vault" }
func (c *Vault) name() string { return "vault" }

func (c *Vault) copy() settings {
	x := *c
	return &x
}

func (c *Vault) bind(bd *Binding, in *opening) (*bound, error) {
	bd.Vault = c
	c.AuthPath = orElse(c.AuthPath, "jwt")
	c.Address = strings.TrimRight(c.Address, "/")
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	keep := time.Minute
	if c.Mount == "" {
		keep = time.Hour
	}
	c.MaxTTL = orElse(c.MaxTTL, keep)
	if err := c.validate(); err != nil {
		return nil, err
	}
	is, err := newVault(bd.Name, *c, in)
	if err != nil {
		return nil, err
	}
	bo := &bound{issuer: is, cached: true, maxTTL: c.MaxTTL, deadline: 2*c.Timeout + maxRetryWait}
	if c.Mount == "" {
		bo.revoker = &revoker{binding: bd.Name, ep: is.ep, end: is.revoke, timeout: c.Timeout, now: in.now}
	}
	return bo, nil
}

// vaultPath has no signs that a URL or Vault would read otherwise.
var vaultPath = regexp.MustCompile(`^[A-Za-z0-9_.@:+-]+(/[A-Za-z0-9_.@:+-]+)*$`)

func (c *Vault) validate() error {
	for _, p := range []struct{ setting, path string }{{"auth path", c.AuthPath}, {"mount", orElse(c.Mount, "x")}, {"secret path", c.Path}} {
		if !vaultPath.MatchString(p.path) || strings.Contains("/"+p.path+"/", "/./") || strings.Contains("/"+p.path+"/", "/../") {
			return fmt.Errorf("%s %q is not a path such as orders/api", p.setting, p.path)
		}
	}
	switch {
	case c.Role == "":
		return errors.New("a login needs a role")
	case c.Caller == (c.TokenFile != ""):
		return errors.New("a login needs the caller's token or a tokenFile, not both")
	case c.Namespace != "" && !vaultPath.MatchString(strings.TrimSuffix(c.Namespace, "/")):
		return fmt.Errorf("namespace %q is not a path such as team/agents", c.Namespace)
	case (c.Field == "") == (c.PasswordField == ""):
		return errors.New("secret needs one of field and passwordField")
	case c.PasswordField != "" && (c.UserField == "") == (c.Username == ""):
		return errors.New("secret passwordField needs one of userField and username")
	case c.PasswordField == "" && c.UserField+c.Username != "":
		return errors.New("secret userField and username need a passwordField")
	case c.Username != "" && !isUser(c.Username):
		return errors.New("username must be of visible ASCII and spaces, without a colon")
	case c.MaxTTL < 0 || c.Timeout < 0:
		return errors.New("maxTTL and timeout must not be negative")
	}
	if err := c.slot().check(); err != nil {
		return err
	}
	return checkURL("address", c.Address)
}

func (c *Vault) slot() slot {
	return slot{header: c.Header, prefix: c.Prefix, query: c.Query, basic: c.PasswordField != ""}
}

// url returns where the secret is read.
func (c *Vault) url() string {
	if c.Mount != "" {
		return c.Address + "/v1/" + c.Mount + "/data/" + c.Path
	}
	return c.Address + "/v1/" + c.Path
}
