package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// AWS is a role's session (AssumeRoleWithWebIdentity), with which requests that the tool's SDK signed with keys of no worth are signed
// anew (Signature Version 4).
type AWS struct {
	RoleARN          string
	STSURL           string   // https; http only at a literal loopback address; empty: STS of the first of Regions
	SubjectTokenFile string   // the workload's token; empty: the caller's own
	Policy           string   // session policy, JSON; what it does not allow the session may not do; empty: all that the role may
	Services         []string // signing names, such as s3, that a tool may use
	Regions          []string // that it may use
	UnsignedPayload  bool     // S3 only: bodies that no signature covers are passed on unread
	MaxBody          int64    // bytes of a body that is read to be signed; 0: 8 MiB
	CAFile           string   // roots for STSURL; empty: the system's
	Timeout          time.Duration
}

// awsSession is how long a session is asked to live: the shortest that there is.
const awsSession = 15 * time.Minute

const maxPolicy = 2048 // characters of a session policy

func (c *AWS) kind() string { return "aws" }
func (c *AWS) name() string { return "aws" }

func (c *AWS) copy() settings {
	x := *c
	x.Services, x.Regions = slices.Clone(x.Services), slices.Clone(x.Regions)
	return &x
}

func (c *AWS) bind(bd *Binding, in *opening) (*bound, error) {
	bd.AWS = c
	c.Timeout = orElse(c.Timeout, 10*time.Second)
	c.MaxBody = orElse(c.MaxBody, 8<<20)
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.STSURL == "" {
		var err error
		if c.STSURL, err = stsURL(c.Regions[0]); err != nil {
			return nil, err
		}
	}
	is := &roleAssumer{
		tokenClient: tokenClient{binding: bd.Name, timeout: c.Timeout, now: in.now}, conf: *c,
		sign: signing{services: c.Services, regions: c.Regions, unsigned: c.UnsignedPayload, maxBody: c.MaxBody},
	}
	var err error
	if is.subject, err = newFederated(c.SubjectTokenFile); err != nil {
		return nil, err
	}
	if is.ep, err = in.endpoints.get(place{url: c.STSURL, caFile: c.CAFile}, in.now); err != nil {
		return nil, err
	}
	return &bound{issuer: is, cached: true, maxTTL: awsSession, deadline: 2*c.Timeout + maxRetryWait}, nil
}

func (c *AWS) validate() error {
	if c.STSURL != "" {
		if err := checkURL("stsURL", c.STSURL); err != nil {
			return err
		}
	}
	if _, ok := parseRole(c.RoleARN); !ok {
		return errors.New("roleARN is not the ARN of a role, such as arn:aws:iam::123456789012:role/orders")
	}
	if err := checkPolicy(c.Policy); err != nil {
		return err
	}
	for _, list := range []struct {
		name string
		of   []string
	}{{"services", c.Services}, {"regions", c.Regions}} {
		if len(list.of) == 0 {
			return errors.New(list.name + " must name at least one")
		}
		for _, v := range list.of {
			if !isLabel(v) {
				return fmt.Errorf("%s: %q is not a name as it stands in a signature", list.name, v)
			}
		}
	}
	// CreateSession hands the tool keys, and what it signs with them cannot be signed anew with ours.
	if slices.Contains(c.Services, "s3express") {
		return errors.New("services: s3express has sessions of its own and cannot be used")
	}
	if c.Timeout < 0 || c.MaxBody < 0 {
		return errors.New("timeout and maxBody must not be negative")
	}
	return nil
}

// checkPolicy refuses what STS would refuse at each call.
func checkPolicy(policy string) error {
	if policy == "" {
		return nil
	}
	var document map[string]any
	switch err := json.Unmarshal([]byte(policy), &document); {
	case err != nil || document["Statement"] == nil:
		return errors.New("policy is not a JSON object with a Statement")
	case len(policy) > maxPolicy:
		return fmt.Errorf("policy has more than the %d characters that STS takes", maxPolicy)
	}
	return nil
}

// stsURL is the regional endpoint, since the global one is a single region's.
func stsURL(region string) (string, error) {
	switch {
	case !isRegion(region), strings.HasPrefix(region, "us-iso"), strings.HasPrefix(region, "eu-iso"), strings.HasPrefix(region, "eusc-"):
		return "", fmt.Errorf("regions: no STS endpoint is known for %q; set stsURL if the name is right", region)
	case strings.HasPrefix(region, "cn-"):
		return "https://sts." + region + ".amazonaws.com.cn/", nil
	}
	return "https://sts." + region + ".amazonaws.com/", nil
}

// role is what an ARN of a role says.
type role struct{ partition, account, name string }

// parseRole reads arn:partition:iam::account:role/path/name. Servers other than AWS have roles without an account.
func parseRole(arn string) (role, bool) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[1] == "" || parts[2] != "iam" || parts[3] != "" || len(arn) > 2048 {
		return role{}, false
	}
	path, ok := strings.CutPrefix(parts[5], "role/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	if !ok || name == "" || !isToken(arn) {
		return role{}, false
	}
	return role{parts[1], parts[4], name}, true
}

// isLabel is what services' and regions' names in a credential scope are made of.
func isLabel(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
