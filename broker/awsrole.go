package broker

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/toolgate/toolgate/redact"
)

// roleAssumer is the issuer of sessions of a role at AWS STS.
type roleAssumer struct {
	tokenClient
	conf    AWS
	subject federated
	sign    signing
}

// Key is the role, and who is shown to be asking; the session's name is made of what is in every key.
func (is *roleAssumer) Key(s Subject) (Key, error) {
	_, workload, reason := is.subject.of(&s)
	if reason != "" {
		return Key{}, newError(is.binding, reason)
	}
	return Key{Binding: is.binding, Audience: is.conf.RoleARN, Workload: workload}, nil
}

// Issue assumes the role, with one retry at most.
func (is *roleAssumer) Issue(ctx context.Context, s Subject) (*Credential, error) {
	token, _, reason := is.subject.of(&s)
	if reason != "" {
		return nil, newError(is.binding, reason)
	}
	session := sessionName(&s)
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {is.conf.RoleARN}, "RoleSessionName": {session},
		"WebIdentityToken": {token.Reveal()}, "DurationSeconds": {strconv.Itoa(int(awsSession / time.Second))},
	}
	if is.conf.Policy != "" {
		form.Set("Policy", is.conf.Policy)
	}
	var cred *Credential
	fail := is.twice(ctx, is.ep, func(ctx context.Context) (e *Error) {
		cred, e = is.assume(ctx, form, session)
		return e
	})
	if fail != nil {
		return nil, fail
	}
	return cred, nil
}

func (is *roleAssumer) assume(ctx context.Context, form url.Values, session string) (*Credential, *Error) {
	// STS answers in JSON of another shape to who prefers that.
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/xml"}}
	start := is.now()
	r, reason := is.ep.send(ctx, http.MethodPost, is.ep.url, []byte(form.Encode()), h)
	if reason != "" {
		return nil, newError(is.binding, reason)
	}
	keys, expires, reason := checkSession(r, is.conf.RoleARN, session, is.now())
	if reason != "" {
		return nil, is.failure(reason, r)
	}
	if most := start.Add(awsSession); most.Before(expires) { // whatever the service says: what was asked for
		expires = most
	}
	return (&Credential{
		ref: Ref{Binding: is.binding, Kind: "aws", Audience: is.conf.RoleARN, Expires: expires},
		put: &resigned{signing: is.sign, keys: keys, signer: v4.NewSigner(), now: is.now},
		// An error of S3 repeats the request that it saw, token included.
		value: keys.token, echoes: []redact.Secret{keys.secret},
	}).watched(), nil
}

// sessionKeys sign as a role for a while.
type sessionKeys struct {
	id            string
	secret, token redact.Secret
}

func (k *sessionKeys) reveal() aws.Credentials {
	return aws.Credentials{AccessKeyID: k.id, SecretAccessKey: k.secret.Reveal(), SessionToken: k.token.Reveal()}
}

// assumed is the answer of STS. Each field is a list, so that one that is there twice is not overlooked.
type assumed struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleWithWebIdentityResponse"`
	Results []struct {
		Credentials []struct {
			ID         []string `xml:"AccessKeyId"`
			Secret     []string `xml:"SecretAccessKey"`
			Token      []string `xml:"SessionToken"`
			Expiration []string `xml:"Expiration"`
		} `xml:"Credentials"`
		Users []struct {
			ARN []string `xml:"Arn"`
		} `xml:"AssumedRoleUser"`
	} `xml:"AssumeRoleWithWebIdentityResult"`
}

// checkSession judges an answer: one session, of the role and by the name that were asked for.
func checkSession(r reply, roleARN, session string, now time.Time) (sessionKeys, time.Time, Reason) {
	if r.status != http.StatusOK {
		return sessionKeys{}, time.Time{}, awsRefusal(r)
	}
	var a assumed
	if strictXML(r.body, &a) != nil || len(a.Results) != 1 || len(a.Results[0].Credentials) != 1 || len(a.Results[0].Users) > 1 {
		return sessionKeys{}, time.Time{}, BadAnswer
	}
	c := a.Results[0].Credentials[0]
	for _, f := range [][]string{c.ID, c.Secret, c.Token, c.Expiration} {
		if len(f) != 1 || !isToken(f[0]) {
			return sessionKeys{}, time.Time{}, BadAnswer
		}
	}
	for _, u := range a.Results[0].Users {
		for _, arn := range u.ARN {
			if !isSessionOf(arn, roleARN, session) {
				return sessionKeys{}, time.Time{}, WrongSubject
			}
		}
	}
	expires, err := time.Parse(time.RFC3339, c.Expiration[0])
	switch {
	case err != nil:
		return sessionKeys{}, time.Time{}, BadExpiry
	case !now.Before(expires):
		return sessionKeys{}, time.Time{}, Expired
	case strings.ContainsAny(c.ID[0], "/,="):
		return sessionKeys{}, time.Time{}, BadAnswer // it could not stand in a signature
	}
	return sessionKeys{c.ID[0], redact.New(c.Secret[0]), redact.New(c.Token[0])}, expires, ""
}

// isSessionOf compares arn:partition:sts::account:assumed-role/name/session with what was asked for. Servers other than AWS
// may leave it empty.
func isSessionOf(arn, roleARN, session string) bool {
	if arn == "" {
		return true
	}
	r, _ := parseRole(roleARN)
	return arn == "arn:"+r.partition+":sts::"+r.account+":assumed-role/"+r.name+"/"+session
}

// awsRefusals are the codes of errors that say more than the status.
var awsRefusals = map[string]Reason{
	"AccessDenied": UnauthorizedClient, "ExpiredTokenException": InvalidGrant, "InvalidIdentityToken": InvalidGrant,
	"IDPRejectedClaim": InvalidGrant, "IDPCommunicationError": ServerError, "MalformedPolicyDocument": InvalidScope,
	"PackedPolicyTooLarge": InvalidScope, "RegionDisabledException": InvalidTarget, "ValidationError": InvalidRequest,
	"Throttling": RateLimited, "ThrottlingException": RateLimited, "RequestLimitExceeded": RateLimited,
}

func awsRefusal(r reply) Reason {
	var body struct {
		XMLName xml.Name `xml:"ErrorResponse"`
		Codes   []string `xml:"Error>Code"`
	}
	if r.status >= 400 && strictXML(r.body, &body) == nil && len(body.Codes) == 1 && awsRefusals[body.Codes[0]] != "" {
		return awsRefusals[body.Codes[0]]
	}
	return refusal(reply{status: r.status})
}

// strictXML reads one element, and nothing after it. It takes no directives: a document type could say what entities mean.
func strictXML(b []byte, into any) error {
	scan := xml.NewDecoder(bytes.NewReader(b))
	for depth, roots := 0, 0; ; {
		t, err := scan.Token()
		if errors.Is(err, io.EOF) && roots == 1 {
			break
		} else if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				roots++
			}
		case xml.Directive:
			return errors.New("a directive")
		case xml.CharData:
			if depth == 0 && len(bytes.TrimSpace(t)) > 0 {
				return errors.New("text outside of the element")
			}
		}
	}
	return xml.Unmarshal(b, into)
}

// sessionName is task@tenant, as AWS's logs and policies see it. AWS takes 2 to 64 of letters, digits, "_+=,.@-". What had to be
// changed ends in "+" and a hash of what it was, and neither sign is left in a part as it came: two callers never have one name.
func sessionName(s *Subject) string {
	task := sessionPart(orElse(s.Task, orElse(s.Run, s.Subject)), 32)
	if s.Tenant == "" {
		return orElse(task, "-") + "@"
	}
	return task + "@" + sessionPart(s.Tenant, 31)
}

func sessionPart(s string, most int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_=,.-", r):
			return r
		}
		return '-'
	}, s)
	if clean == s && len(s) <= most {
		return s
	}
	const hashed = 12
	return clean[:min(len(clean), most-hashed-1)] + "+" + hash(s)[:hashed]
}
